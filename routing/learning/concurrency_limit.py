"""Learned number of requests that an engine runs concurrently. Engines queue further requests and do not report it."""

import math

ROOM_AT_FIRST = 8.0
"""Initial limit for requests that are not streamed, until the engine has shown how many it runs at the same time."""
MIN_KEPT = 0.75
"""Share of its requests in flight that an engine with a queue keeps. Other gateways might have filled the queue."""
GROWTH = 1.25
"""Growth factor of the limit after each report of an empty queue."""
FRESH_S = 15.0
"""Age in seconds from which a report is ignored: three metrics readings at the default interval."""


class ConcurrencyLimit:
    """Two limits on the requests in flight on one engine, both learned from its behavior.

    An engine limits the number of running sequences (vLLM's ``max_num_seqs``) and the memory that they use. Neither
    limit is known, and the memory per sequence varies. The learned limit is therefore the number of requests that ran
    when requests began to queue.
    """

    def __init__(self) -> None:
        self.limit = math.inf
        """Number of requests in flight from which the next request would wait in the engine's queue."""
        self._late = 0
        """Number of prefills in a row that were late."""
        self._limit_before = math.inf
        """The limit before the first of these prefills."""
        self._unseen = ROOM_AT_FIRST
        self._reported_at: float | None = None

    def unseen(self, now: float) -> float:
        """Return the limit for requests that show no end of prefill, because their answers are not streamed.

        The limit is infinite while the engine reports nothing, because a prediction alone does not justify holding
        requests.
        """
        return math.inf if self._reported_at is None or now - self._reported_at > FRESH_S else self._unseen

    def began(self, decoding: int, *, late: bool) -> None:
        """Learn from the end of a prefill, at which *decoding* requests are generating tokens.

        A prefill that was *late* has waited in the engine's queue, or its prompt was not cached as predicted. Two late
        prefills in a row show that the engine is full. The limit still allows one more request, to detect when the
        engine has room again.
        """
        if not late:
            self._late = 0
            self.limit += 1.0
            return
        self._late += 1
        if self._late == 1:
            self._limit_before = self.limit
        else:
            self.limit = decoding + 1.0

    def was_explained(self) -> None:
        """Undo what a late prefill showed, because its prompt was longer than predicted."""
        self._late = max(0, self._late - 1)
        self.limit = max(self.limit, self._limit_before)

    def answered_early(self) -> None:
        """Raise the limit, because an answer was complete before its prefill was predicted to end."""
        self._unseen += 1.0

    def engine_queue_reported(self, waiting: float, unseen: float, in_flight: int, now: float) -> None:
        """Learn that the engine reported *waiting* queued requests, of which *unseen* were not expected. *in_flight*
        counts this gateway's requests.

        The engine's queue may include requests that did not come through the gateway.
        """
        self._reported_at = now
        if unseen >= 1.0:
            self.limit = self._unseen = max(1.0, in_flight - unseen, MIN_KEPT * in_flight)
        elif waiting < 1.0:
            self.limit = max(self.limit * GROWTH, self.limit + 1.0)
            self._unseen = max(self._unseen, 2.0 * in_flight)
