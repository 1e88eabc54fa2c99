"""Log of the event batches of one engine. It has processed batches in order, and batches that wait for earlier ones."""

from collections import deque
from typing import Literal

import msgspec

from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.past import Past, look_of
from gateway.workers.kv_events.waiting import WaitingRoom

BEFORE_ALL = -1
"""Sequence number before the first batch of an engine whose numbers start at 0."""

Knowledge = Literal["complete", "partial", "unreplayed", "lost"]
"""Part of an engine's event history that the gateway has received since the start of the engine.

* ``complete``: all events
* ``partial``: the events in the replay buffer at the start, and all later ones
* ``unreplayed``: the events published since the gateway started to listen
* ``lost``: batches in the middle are missing, possibly with removals
"""


class Reset(msgspec.Struct, frozen=True, gc=False):
    """Step that discards the index of an engine. The steps after it start from an empty cache."""

    knowledge: Knowledge
    is_new_incarnation: bool = False
    """Whether the engine restarted. Otherwise, the index is rebuilt while the engine keeps running."""


class Lost(msgspec.Struct, frozen=True, gc=False):
    """Step that reports missing event batches."""

    batches: int
    """Number of missing batches, or 0 if the number is unknown and possibly zero."""


Step = Reset | Lost | BatchMessage


class BatchLog:
    """Log that processes batches in the order of their numbers, and that holds batches that arrive too early.

    The log knows nothing of connections, replays or time. `Sequencer` decides how to handle a gap or an unexpected
    batch.
    """

    def __init__(self, held: WaitingRoom | None = None) -> None:
        self.held = WaitingRoom() if held is None else held
        """Messages that wait for earlier messages to arrive."""
        self.steps: deque[Step] = deque()
        """Steps to apply to the index, in order. The reader removes each step from the queue."""
        self.last: int | None = None
        """Sequence number of the batch that was processed last, or None if the first batch is not known yet."""
        self.was_interrupted = False
        """Whether batches might have been missed since the batch that was processed last."""
        self._first_ts: float | None = None
        self._last_ts: float | None = None
        self._past = Past()

        self.duplicates = 0
        self.late = 0
        """Number of messages from an earlier incarnation of the engine."""
        self.lost = 0
        """Number of batches that were never received from the engine."""

    def reset(self, last: int, knowledge: Knowledge, *, is_new_incarnation: bool = False) -> None:
        """Discard all state and continue with the batch after the sequence number *last*."""
        self.last = last
        self._first_ts = self._last_ts = None
        self._past = Past()
        self.steps.append(Reset(knowledge, is_new_incarnation))

    def append(self, message: BatchMessage) -> None:
        """Process *message* as the next batch without a check of its sequence number."""
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
        """Process those held messages that follow the last processed batch without a gap."""
        while self.held and self.last is not None:
            message = self.held.take(self.last + 1)
            if message is None:
                return
            if self.is_late(message):
                self.late += 1
                return
            self.append(message)

    def hold(self, message: BatchMessage) -> bool:
        """Hold *message* until the messages before it arrive. Return whether there was enough space for it."""
        if message in self.held:
            self.duplicates += 1
            return True
        return self.held.add(message)

    def is_late(self, message: BatchMessage) -> bool:
        """Return whether *message* was created before the last processed batch."""
        return message.ts is not None and self._last_ts is not None and message.ts < self._last_ts

    def contradicts(self, message: BatchMessage) -> bool:
        """Return whether *message* is different from the processed batch with the same sequence number."""
        known = self._past.look(message.seq)
        return known is not None and known != look_of(message.payload)

    def is_of_later_incarnation(self, message: BatchMessage) -> bool:
        """Return whether *message* proves that the engine restarted. Otherwise, count it as a duplicate or as late.

        The sequence number of *message* must already have been processed or skipped.
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
        """Record that *batches* batches were never received. A value of 0 stands for an unknown number."""
        self.lost += batches
        self.steps.append(Lost(batches))

    def drop_late(self) -> None:
        """Drop held messages that were created before the last processed batch."""
        if self._last_ts is not None:
            self.late += self.held.drop_older(self._last_ts)
