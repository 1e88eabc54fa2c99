"""The number of requests that an engine runs at one time. Engines do not report it; they queue all further requests."""

import math

ROOM_AT_FIRST = 8.0
"""Requests with an invisible prefill that are sent before there is evidence that the engine runs them."""
MIN_KEPT = 0.75
"""Share of the requests in flight that an engine with a queue still gets: other gateways may have filled it."""
GROWTH = 1.25
"""Growth of the limit after each report of an empty queue."""
FRESH_S = 15.0
"""Age beyond which a report is ignored: three readings of an engine's metrics at their usual interval."""


class ConcurrencyLimit:
    """Two limits on the requests in flight on one engine, each learned from its behavior.

    An engine limits the running sequences (vLLM's ``max_num_seqs``) and the memory that they take. Neither is known,
    and the second changes with every request. So the limit is what ran when requests began to queue.
    """

    def __init__(self) -> None:
        self.limit = math.inf
        """Requests in flight beyond which the next one waits in the engine's queue."""
        self._unseen = ROOM_AT_FIRST
        self._reported_at: float | None = None

    def unseen(self, now: float) -> float:
        """Return the limit where predictions say that requests wait and no first byte can show otherwise.

        Infinite while the engine reports nothing: a prediction alone is no reason to hold requests.
        """
        return math.inf if self._reported_at is None or now - self._reported_at > FRESH_S else self._unseen

    def began(self, decoding: int, *, late: bool) -> None:
        """Learn from the end of a prefill, after which *decoding* requests generate.

        A *late* one waited in the engine's queue: no more requests fit. One more is sent, to see when there is room.
        """
        self.limit = decoding + 1.0 if late else self.limit + 1.0

    def answered_early(self) -> None:
        """Learn from a whole answer before the predicted end of its prefill: the engine is faster than predicted."""
        self._unseen += 1.0

    def engine_queue_reported(self, waiting: float, unseen: float, in_flight: int, now: float) -> None:
        """Learn from the engine's queue of *waiting* requests, *unseen* of them unexpected; *in_flight* are ours.

        Requests that did not come through the gateway may be among them.
        """
        self._reported_at = now
        if unseen >= 1.0:
            self.limit = self._unseen = max(1.0, in_flight - unseen, MIN_KEPT * in_flight)
        elif waiting < 1.0:
            self.limit = max(self.limit * GROWTH, self.limit + 1.0)
            self._unseen = max(self._unseen, 2.0 * in_flight)
