"""The batches of one engine that were taken in, in order, and those that wait for their turn."""

from collections import deque
from typing import Literal

import msgspec

from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.past import Past, look_of
from gateway.workers.kv_events.waiting import WaitingRoom

BEFORE_ALL = -1
"""Position before the first batch of an engine that counts from 0."""

Knowledge = Literal["complete", "partial", "unreplayed", "lost"]
"""Share of an engine's incarnation that was heard.

* ``complete``: everything
* ``partial``: what its ring still had, and everything since
* ``unreplayed``: what was published since the gateway listens
* ``lost``: batches in between are missing, perhaps with removals
"""


class Reset(msgspec.Struct, frozen=True, gc=False):
    """Forget everything; the next messages start from an empty cache."""

    knowledge: Knowledge
    is_new_incarnation: bool = False
    """The engine has restarted; else only the picture of it is rebuilt."""


class Lost(msgspec.Struct, frozen=True, gc=False):
    """Batches never came."""

    batches: int
    """0: some, perhaps."""


Step = Reset | Lost | BatchMessage


class BatchLog:
    """Appends batches without a gap, and holds back those that come too early.

    It knows nothing of connections, replays or time: `Sequencer` decides what a gap or an unknown batch means.
    """

    def __init__(self, held: WaitingRoom | None = None) -> None:
        self.held = WaitingRoom() if held is None else held
        """Messages that came too early."""
        self.steps: deque[Step] = deque()
        """Steps to be applied to the index, in order. The reader removes each of them."""
        self.last: int | None = None
        """Sequence of the last batch that was taken in; None: the first one is not known yet."""
        self.was_interrupted = False
        """Batches may have been published unheard since the last one that was taken in."""
        self._first_ts: float | None = None
        self._last_ts: float | None = None
        self._past = Past()

        self.duplicates = 0
        self.late = 0
        """Messages of an earlier incarnation."""
        self.lost = 0
        """Batches that never came."""

    def reset(self, last: int, knowledge: Knowledge, *, is_new_incarnation: bool = False) -> None:
        """Start over right behind batch *last*."""
        self.last = last
        self._first_ts = self._last_ts = None
        self._past = Past()
        self.steps.append(Reset(knowledge, is_new_incarnation))

    def append(self, message: BatchMessage) -> None:
        """Process *message*, whatever came before it."""
        if self._first_ts is None:
            self._first_ts = message.ts
        if message in self.held:
            self.held.take(message.seq)
            self.duplicates += 1
        self.was_interrupted = False
        self.last = message.seq
        self._last_ts = message.ts
        self._past.note(message.seq, look_of(message.payload))
        self.steps.append(message)

    def append_held(self) -> None:
        """Process the held messages that follow without a gap."""
        while self.held and self.last is not None:
            message = self.held.take(self.last + 1)
            if message is None:
                return
            if self.is_late(message):
                self.late += 1
                return
            self.append(message)

    def hold(self, message: BatchMessage) -> bool:
        """Keep *message* until those before it are there; False if there is no room."""
        if message in self.held:
            self.duplicates += 1
            return True
        return self.held.add(message)

    def is_late(self, message: BatchMessage) -> bool:
        """Whether *message* was made before the batch that was processed last."""
        return message.ts is not None and self._last_ts is not None and message.ts < self._last_ts

    def contradicts(self, message: BatchMessage) -> bool:
        """Whether another batch was processed with the sequence of *message*."""
        known = self._past.look(message.seq)
        return known is not None and known != look_of(message.payload)

    def is_of_later_incarnation(self, message: BatchMessage) -> bool:
        """Whether *message* shows that the engine restarted; if not, count it as a duplicate or as late.

        Its sequence was taken in, or passed over.
        """
        known = self._past.look(message.seq)
        if known == look_of(message.payload):
            self.duplicates += 1
            return False
        if known is not None:
            is_earlier = message.ts is not None and self._first_ts is not None and message.ts < self._first_ts
        else:
            # Without another batch in its place it may also be one of this incarnation that was given up.
            is_earlier = message.ts is None or self._last_ts is None or message.ts <= self._last_ts
        self.late += is_earlier
        return not is_earlier

    def lose(self, batches: int) -> None:
        """Record that so many *batches* never came; 0: some, perhaps."""
        self.lost += batches
        self.steps.append(Lost(batches))

    def drop_late(self) -> None:
        """Drop held messages that were made before the batch that was taken in last."""
        if self._last_ts is not None:
            self.late += self.held.drop_older(self._last_ts)
