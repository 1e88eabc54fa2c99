"""How many requests an engine runs at one time: nobody says, and who is sent more stands in its queue."""

import math

ROOM_AT_FIRST = 8.0
"""Requests whose prefill nobody sees that are sent before anything has shown that the engine takes them."""
LEAST_KEPT = 0.75
"""Of what is in flight, what goes on being sent to an engine that queues: other gateways may have filled it."""
GROWTH = 1.25
"""Times as many may run after each reading without a queue."""
FRESH_S = 15.0
"""Three readings of an engine's metrics at their usual interval: what is older says nothing."""


class Slots:
    """Two bounds on the requests in flight on one engine, each learnt from what it showed.

    An engine bounds the sequences that run (vLLM's ``max_num_seqs``) and the memory that they take. Neither is known,
    and the second changes with every request. So the bound is what ran when requests began to queue.
    """

    def __init__(self) -> None:
        self.most = math.inf
        """With as many in flight, one more would stand in the engine's queue."""
        self._unseen = ROOM_AT_FIRST
        self._told_at: float | None = None

    def unseen(self, now: float) -> float:
        """As many may be in flight although predictions say that they wait, where nobody sees that they do not.

        Without end where the engine tells nothing: a belief alone is no reason to hold anybody back.
        """
        return math.inf if self._told_at is None or now - self._told_at > FRESH_S else self._unseen

    def began(self, decoding: int, *, late: bool) -> None:
        """A prefill is over, *late* or when it should be; *decoding* requests generate now, it among them.

        One that was late stood in the engine's queue: what generates is all that fits. One more is sent, to see when
        there is room.
        """
        self.most = decoding + 1.0 if late else self.most + 1.0

    def answered_early(self) -> None:
        """A whole answer came before its prefill was thought to be over: the engine is faster than is believed."""
        self._unseen += 1.0

    def told(self, waiting: float, unseen: float, in_flight: int, now: float) -> None:
        """The engine has *waiting* requests in its queue, of which *unseen* should not be there.

        Among them may be some that came by another way; *in_flight* are ours.
        """
        self._told_at = now
        if unseen >= 1.0:
            self.most = self._unseen = max(1.0, in_flight - unseen, LEAST_KEPT * in_flight)
        elif waiting < 1.0:
            self.most = max(self.most * GROWTH, self.most + 1.0)
            self._unseen = max(self._unseen, 2.0 * in_flight)
