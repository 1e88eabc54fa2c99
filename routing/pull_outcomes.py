"""Outcomes of pulls, and the workers from which pulls have failed.

An engine that cannot pull computes the blocks, and reports no error. Its number of cached tokens shows what arrived.
"""

from typing import Final, Literal

from cache_index import WorkerId
from routing.pull import Pull

PullOutcome = Literal["complete", "partial", "missed", "unknown"]
"""Share of the blocks of a pull that arrived: all, some or none of them, or unknown because the engine does not report
its cached tokens or did not answer.
"""
AFTER_REQUESTS: Final = 500
"""Number of requests after which the first pull is allowed by default. Sessions that have just begun are short, and say
little about the space that they will need.
"""
TOLERANCE: Final = 0.1
"""Share of the tokens of a pull by which an engine's report can differ from the prediction."""
FAILURES: Final = 3
"""Number of pulls in a row from one worker that must fail before no more blocks are pulled from it."""
PAUSE_S: Final = 60.0
"""Seconds without pulls from a worker after failures. Then, one more pull is tried."""


class PullOutcomes:
    """Counts of pulls by outcome, for one fleet."""

    def __init__(self) -> None:
        self.counts: Final[dict[PullOutcome, int]] = {"complete": 0, "partial": 0, "missed": 0, "unknown": 0}
        self.tokens = 0.0
        """Number of prompt tokens that were pulled instead of computed."""
        self.after_requests = AFTER_REQUESTS
        """Number of requests of the fleet after which pulls begin."""
        self._failures: dict[WorkerId, tuple[int, float]] = {}
        """Number of failed pulls in a row, and the time of the last one, by the worker that should have sent blocks."""

    def may_send(self, worker: WorkerId, now: float) -> bool:
        """Return whether blocks are pulled from *worker*."""
        failures, last_at = self._failures.get(worker, (0, now))
        return failures < FAILURES or now >= last_at + PAUSE_S

    def ended(self, pull: Pull, own_tokens: float, cached_tokens: int | None, now: float) -> None:
        """Record the end of a request with *pull*. The engine, which held *own_tokens* tokens of the prompt itself,
        reports *cached_tokens*, or None if they are unknown.
        """
        if cached_tokens is None:
            self.counts["unknown"] += 1
            return
        pulled = min(pull.tokens, max(0.0, cached_tokens - own_tokens))
        self.tokens += pulled
        if pulled < TOLERANCE * pull.tokens:
            self.counts["missed"] += 1
            failures, _ = self._failures.get(pull.source, (0, now))
            self._failures[pull.source] = failures + 1, now
            return
        self._failures.pop(pull.source, None)
        self.counts["complete" if pulled >= (1.0 - TOLERANCE) * pull.tokens else "partial"] += 1

    def forget_worker(self, worker: WorkerId) -> None:
        """Forget the failures of *worker*, which has left the fleet."""
        self._failures.pop(worker, None)
