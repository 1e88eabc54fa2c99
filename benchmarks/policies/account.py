"""Work that one worker was given and has not ended, as a router sees it: first tokens and ends of answers."""

from replay.policy import Ask, Setup

ROUNDING_S = 1e-9
"""Tolerance for the time at which a backlog reaches a length."""


class Account:
    """The requests of one worker. All readings are O(1).

    A worker computes one prompt after the other, in the order in which they were sent: the oldest without a first token
    has its turn, and what is left of it shrinks as time passes, but never below nothing.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._pending: dict[Ask, float] = {}
        self._decoding: dict[Ask, None] = {}
        self._pending_tokens = 0.0
        self._turn_since = 0.0
        self._decode_blocks = 0
        self.blocks = 0
        """Full blocks of the prompts of all requests."""

    @property
    def pending(self) -> int:
        """Requests whose first token has not come."""
        return len(self._pending)

    @property
    def decodes(self) -> int:
        """Requests whose answers are being written."""
        return len(self._decoding)

    @property
    def requests(self) -> int:
        return len(self._pending) + len(self._decoding)

    @property
    def sent_tokens(self) -> float:
        """Uncached tokens of the pending requests, whole as they were sent."""
        return self._pending_tokens

    @property
    def blocks_in_use(self) -> int:
        """Blocks that the engine should have pinned: those of the answers being written, and of the turn."""
        turn = next(iter(self._pending), None)
        return self._decode_blocks + (len(turn.blocks) if turn is not None else 0)

    def queued_tokens(self, now: float) -> float:
        """Uncached tokens of the pending requests that should not have been computed by *now*."""
        return self._pending_tokens - self._computed_share(now) * self._turn_tokens

    def backlog_s(self, now: float) -> float:
        """Seconds of prefill that stand before a request sent at *now*."""
        whole_s = len(self._pending) * self._setup.prefill_fixed_s + self._seconds(self._pending_tokens)
        return max(0.0, whole_s - min(now - self._turn_since, self._turn_s))

    def backlog_falls_to(self, backlog_s: float, now: float) -> float | None:
        """Return when time alone brings the backlog that low; None if that takes a first token."""
        above_s = self.backlog_s(now) - backlog_s
        turn_left_s = self._turn_s - (now - self._turn_since)
        return now + max(0.0, above_s) if above_s <= turn_left_s + ROUNDING_S else None

    def send(self, ask: Ask, uncached_tokens: float, now: float) -> None:
        if not self._pending:
            self._turn_since = now
        self._pending[ask] = uncached_tokens
        self._pending_tokens += uncached_tokens
        self.blocks += len(ask.blocks)

    def first_token(self, ask: Ask, now: float) -> None:
        tokens = self._pending.pop(ask)
        self._pending_tokens = self._pending_tokens - tokens if self._pending else 0.0
        self._turn_since = now
        self._decoding[ask] = None
        self._decode_blocks += len(ask.blocks)

    def finish(self, ask: Ask) -> None:
        del self._decoding[ask]
        self._decode_blocks -= len(ask.blocks)
        self.blocks -= len(ask.blocks)

    @property
    def _turn_tokens(self) -> float:
        return next(iter(self._pending.values()), 0.0)

    @property
    def _turn_s(self) -> float:
        return self._setup.prefill_fixed_s + self._seconds(self._turn_tokens) if self._pending else 0.0

    def _computed_share(self, now: float) -> float:
        """Return the computed share of the current prompt."""
        turn_s = self._turn_s
        return min(1.0, (now - self._turn_since) / turn_s) if turn_s else 0.0

    def _seconds(self, tokens: float) -> float:
        return tokens / self._setup.prefill_tokens_per_s
