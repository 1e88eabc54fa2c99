"""Puts what an engine says into the order in which it happened, and knows when something is missing.

Pure: messages and the time come in; `steps` come out, to be done in their order, and an `ask` for a replay, to be sent.

1. A batch is taken in only right behind the one before it. Others wait, and a replay is asked for.
2. A replay is asked for from the last batch that was taken in, not from the one after it: if that batch now looks
   otherwise, or is not there though nothing comes after it, this is another life of the engine. Without any, from 0.
3. A replay shows what the engine's ring still has. If the ring begins after what was taken in last, all is begun anew
   from there: what it tells is true, only not everything.
4. As long as replays bring something, they are asked for again. A batch that two of them in a row did not bring is
   lost; it is never asked for again, and the stream goes on. A long replay is confirmed by one more.
5. Nothing is taken in before the first replay of a connection has shown which life this is.

A published message that claims to continue, but was made before what was taken in last, is left to the next replay: it
may be a late one of an earlier life. What a replay says is always believed.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

import msgspec

from gateway.kv_events.frames import Message
from gateway.kv_events.past import Past, look_of
from gateway.kv_events.waiting import WaitingRoom

LAST_FIRST_SEQ = 1
"""Engines count from 0, llm-d's simulator from 1. A ring that has lost its batch 0 alone is taken for one of those.
Without replays, who is heard from 1 on may as well have lost a batch, so nobody is taken for complete then."""
BEFORE_ALL = -1

Knowledge = Literal["complete", "partial", "unreplayed", "lost"]
"""What was heard of an engine's life. complete: everything. partial: what its ring still had, and all since.
unreplayed: what was published since we listen. lost: batches in between are missing, perhaps with removals."""


class Begin(msgspec.Struct, frozen=True, gc=False):
    """Forget all; the next messages tell from an empty cache on."""

    knowledge: Knowledge
    is_new_life: bool = False
    """The engine has restarted; else only our picture of it begins anew."""


class Lost(msgspec.Struct, frozen=True, gc=False):
    """So many batches never came; 0: some, perhaps."""

    batches: int


Step = Begin | Lost | Message


@dataclass(frozen=True, slots=True)
class Ask:
    """A replay that is wanted."""

    number: int
    """Its answers must come with it; those of earlier asks are ignored."""
    start: int
    """First sequence that is wanted."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is waited for, in seconds."""

    answer_s: float = 2.0
    """For the next piece of a replay. Old engines drop what a slow reader does not take, with the end marker."""
    retry_s: float = 1.0
    """After a replay that brought nothing, not even its end; twice that after the second."""
    settle_s: float = 1.0
    """From a connection to a second look. A subscription takes a moment to be in force, and a batch that was published
    in that moment, the last before a silence, would not be missed."""
    check_s: float = 30.0
    """Of silence until it is looked whether it is one. An idle engine says nothing, and that is no fault."""
    rebuild_s: float = 60.0
    """Until replays are tried again that did not work; doubled each time, up to ten times that."""


FRUITLESS_ASKS = 2
BROKEN_ASKS = 3
LONG_REPLAY = 50
"""Answers from which on a replay that ended is confirmed by another one from its last batch. The ROUTER of vLLM up to
0.32 drops messages beyond its high-water mark (ZeroMQ's default is 1,000) and may still send the end marker, so an end
alone does not prove that everything came. A replay shorter than every plausible mark cannot have been cut."""


@dataclass(slots=True)
class _Running:
    ask: Ask
    is_check: bool
    """Nothing is known to be missing."""
    rebuilds: bool
    """The first answer begins everything anew."""
    taken_before: int | None
    heard_at: float
    has_begun: bool = False
    answers: int = 0


class Sequencer:
    """Of one stream: one rank of one worker. Without *replays* nothing that is missed can be had again."""

    def __init__(self, *, replays: bool, patience: Patience | None = None, waiting: WaitingRoom | None = None) -> None:
        self._replays = replays
        self._patience = Patience() if patience is None else patience
        self._waiting = WaitingRoom() if waiting is None else waiting
        self.steps: deque[Step] = deque()
        """Whoever takes one has to do it."""

        self._taken: int | None = None
        """Sequence of the last batch that was taken in; None: which will be the first is not known yet."""
        self._ts: float | None = None
        self._life_ts: float | None = None
        self._past = Past()

        self._is_connected = False
        self._is_verified = False
        """This connection leads to the life that is known."""
        self._is_open = False
        """Whichever message comes first is the first."""
        self._was_away = False
        """Only without replays: the engine may have restarted unheard."""

        self._running: _Running | None = None
        self._asks = 0
        self._fruitless = 0
        self._broken = 0
        self._has_ring = False
        self._wants_rebuild = False
        self._retry_at: float | None = None
        self._check_at = 0.0
        self._rebuild_at: float | None = None
        self._rebuild_after_s = self._patience.rebuild_s

        self.duplicates = 0
        self.late = 0
        """Messages of an earlier life."""
        self.gaps = 0
        self.lost = 0
        """Batches that never came."""
        self.restarts = 0
        self.rebuilds = 0

    @property
    def ask(self) -> Ask | None:
        """The replay that should be running; another number: another one, instead of it."""
        return None if self._running is None else self._running.ask

    @property
    def asks(self) -> int:
        """How many replays there were."""
        return self._asks

    @property
    def turned_away(self) -> int:
        """Messages for which there was no room to wait; they are had from replays."""
        return self._waiting.turned_away

    @property
    def is_behind(self) -> bool:
        """Something is missing of which it is hoped that it comes."""
        if self._taken is None or self._waiting:
            return not self._is_open
        is_catching_up = self._running is not None and not self._running.is_check
        return is_catching_up or self._retry_at is not None or (self._replays and not self._is_verified)

    # ---- what happens

    def connected(self, now: float) -> None:
        """Published messages can be heard from now on, or again."""
        self._is_connected = True
        if not self._replays:
            self._is_open = self._taken is None
            self._was_away = self._was_away or not self._is_open
            return
        self._fruitless = self._broken = 0
        self._check_at = now + self._patience.settle_s
        self._start_ask(now)

    def disconnected(self) -> None:
        """They cannot be heard any more."""
        self._is_connected = self._is_verified = False
        self._was_away = True
        # Whatever waits is of the life before, perhaps; if it is not, it is had from a replay.
        self._waiting.clear()
        self._running = self._retry_at = None

    def live(self, message: Message, now: float) -> None:
        """*message* was published."""
        self._check_at = now + self._patience.check_s
        if not self._is_connected:
            if self._replays:
                # It is of the connection before, and comes again if it is needed.
                self.late += 1
                return
            self.connected(now)
        if self._is_open:
            self._open_with(message)
        if self._taken is None or (self._replays and (not self._is_verified or self._wants_rebuild)):
            self._wait(message, now)
        elif message.seq <= self._taken:
            self._again(message, now)
        elif message.seq == self._taken + 1 and not self._is_late(message):
            self._take_next(message)
        elif self._replays:
            self._miss(message, now)
        else:
            self._skip_to(message)

    def replayed(self, number: int, message: Message, now: float) -> None:
        """*message* came as an answer to ask *number*."""
        running = self._running_as(number)
        if running is None:
            return
        running.heard_at = now
        running.answers += 1
        self._has_ring = True
        if not running.has_begun:
            running.has_begun = True
            self._begin_replay(running, message)
        assert self._taken is not None
        if message.seq <= self._taken:
            self._compare(message, now)
        elif message.seq == self._taken + 1:
            self._is_verified = True
            self._take(message)
            self._take_waiting()
        else:
            self._wait(message, now)

    def replay_ended(self, number: int, now: float) -> None:
        """All answers to ask *number* have come."""
        running = self._running_as(number)
        if running is None:
            return
        self._running = None
        self._broken = 0
        if not running.has_begun:
            self._begin_with_nothing(running, now)
        if self._running is None:
            self._is_verified = True
            self._settle(running, now)

    def replay_broke(self, number: int, now: float) -> None:
        """No more answers to ask *number* will come, though it has not ended."""
        running = self._running_as(number)
        if running is None:
            return
        self._running = None
        if running.is_check and not self._waiting:
            return
        if self._taken != running.taken_before:
            self._broken = 0
            self._start_ask(now)
            return
        self._broken += 1
        if self._broken < BROKEN_ASKS:
            self._retry_at = now + self._broken * self._patience.retry_s
        else:
            self._give_up(now)

    def tick(self, now: float) -> None:
        """Time has passed. Wanted several times a second."""
        running = self._running
        if running is not None:
            if now - running.heard_at > self._patience.answer_s:
                self.replay_broke(running.ask.number, now)
        elif not self._replays or not self._is_connected:
            return
        elif self._retry_at is not None:
            if now >= self._retry_at:
                self._start_ask(now)
        elif self._rebuild_at is not None and now >= self._rebuild_at:
            self._rebuild_at = None
            self.rebuild(now)
        elif now >= self._check_at:
            self._check_at = now + self._patience.check_s
            self._start_ask(now, is_check=True)

    def rebuild(self, now: float) -> None:
        """Begin everything anew from what the engine's ring has, as soon as it answers."""
        self._wants_rebuild = self._replays
        if self._replays and self._is_connected:
            self._start_ask(now)

    def reassured(self) -> None:
        """What is known is right for another reason, so it need not be begun anew."""
        self._rebuild_at = None

    # ---- taking in

    def _take_next(self, message: Message) -> None:
        if self._was_away and not self._replays:
            # By its number it continues, but what if that is a coincidence?
            self._lose(0)
        self._take(message)
        self._take_waiting()

    def _take(self, message: Message) -> None:
        if self._life_ts is None:
            self._life_ts = message.ts
        if message in self._waiting:
            self._waiting.take(message.seq)
            self.duplicates += 1
        self._was_away = False
        self._taken = message.seq
        self._ts = message.ts
        self._past.note(message.seq, look_of(message.payload))
        self.steps.append(message)

    def _take_waiting(self) -> None:
        """What follows without a gap."""
        while self._waiting and self._taken is not None:
            message = self._waiting.take(self._taken + 1)
            if message is None:
                return
            if self._is_late(message):
                self.late += 1
                return
            self._take(message)

    def _is_late(self, message: Message) -> bool:
        return message.ts is not None and self._ts is not None and message.ts < self._ts

    def _wait(self, message: Message, now: float) -> None:
        if message in self._waiting:
            self.duplicates += 1
        elif not self._waiting.add(message):
            # If nothing follows it, nobody would miss it.
            self._check_at = now

    def _miss(self, message: Message, now: float) -> None:
        self._wait(message, now)
        if self._running is not None:
            self._running.is_check = False
        elif self._retry_at is None:
            self.gaps += 1
            self._start_ask(now)

    def _again(self, message: Message, now: float) -> None:
        """A published message with a sequence that was taken in, or passed over."""
        known, look = self._past.look(message.seq), look_of(message.payload)
        if known == look:
            self.duplicates += 1
        elif self._is_of_earlier_life(message, was_seen=known is not None):
            self.late += 1
        else:
            self._restart(message, now)

    def _is_of_earlier_life(self, message: Message, *, was_seen: bool) -> bool:
        """Whether it is, or is one of this life that nobody waits for any more; else it is of a later life.

        *was_seen*: another batch with its sequence was taken in.
        """
        if was_seen:
            return message.ts is not None and self._life_ts is not None and message.ts < self._life_ts
        return message.ts is None or self._ts is None or message.ts <= self._ts

    # ---- beginnings

    def _begin(self, taken: int, knowledge: Knowledge, *, is_new_life: bool = False) -> None:
        self._taken = taken
        self._ts = self._life_ts = None
        self._past = Past()
        self._is_verified = True
        self._is_open = self._wants_rebuild = False
        if knowledge != "unreplayed":
            self._rebuild_at = None
            self._rebuild_after_s = self._patience.rebuild_s
        self.steps.append(Begin(knowledge, is_new_life))

    def _open_with(self, message: Message, *, is_new_life: bool = False) -> None:
        """Nothing better can be had than to begin with *message*."""
        # After an interruption it may be the last that is still heard of an earlier life.
        is_first_of_all = message.seq == 0 and (is_new_life or not self._was_away)
        self._begin(message.seq - 1, "complete" if is_first_of_all else "unreplayed", is_new_life=is_new_life)

    def _restart(self, message: Message | None, now: float) -> None:
        """The engine has begun another life; *message* is of it."""
        self.restarts += 1
        self._waiting.clear()
        self._fruitless = self._broken = 0
        self._running = self._retry_at = None
        if message is not None and (message.seq == 0 or not self._replays):
            self._open_with(message, is_new_life=True)
            self._take(message)
            return
        self._begin(BEFORE_ALL, "unreplayed", is_new_life=True)
        self._taken = None
        self._is_verified = False
        if message is not None:
            self._waiting.add(message)
        self._start_ask(now)

    # ---- replays

    def _running_as(self, number: int) -> _Running | None:
        running = self._running
        return running if running is not None and running.ask.number == number else None

    def _start_ask(self, now: float, *, is_check: bool = False) -> None:
        self._asks += 1
        self._retry_at = None
        start = 0 if self._taken is None or self._wants_rebuild else max(self._taken, 0)
        self._running = _Running(Ask(self._asks, start), is_check, self._wants_rebuild, self._taken, now)

    def _begin_replay(self, running: _Running, message: Message) -> None:
        """*message* is the oldest that the engine has of what was asked for."""
        is_first_of_all = message.seq <= LAST_FIRST_SEQ
        if self._taken == BEFORE_ALL and is_first_of_all and not running.rebuilds:
            self._taken = message.seq - 1
        elif self._taken is None or running.rebuilds or message.seq > self._taken:
            # Also where it is the very next: without the one before it there is no telling whose it is.
            self.rebuilds += self._taken is not None
            self._begin(message.seq - 1, "complete" if is_first_of_all else "partial")

    def _compare(self, message: Message, now: float) -> None:
        """An answer that was taken in already, if this is the same life."""
        known = self._past.look(message.seq)
        if known is not None and known != look_of(message.payload):
            self._restart(None, now)
        else:
            self._is_verified = True

    def _begin_with_nothing(self, running: _Running, now: float) -> None:
        """The engine has nothing of what was asked for."""
        if self._taken is None or (self._taken == BEFORE_ALL and running.rebuilds):
            self._begin(BEFORE_ALL, "complete")
        elif self._taken == BEFORE_ALL:
            return
        elif not self._has_ring and (running.is_check or running.rebuilds):
            # It keeps nothing for replays (buffer_steps 0), so this says nothing.
            self._wants_rebuild = False
        else:
            self._restart(None, now)

    def _settle(self, running: _Running, now: float) -> None:
        """A replay has ended: what is still missing?"""
        if not self._clear_waiting(now):
            return
        self._take_waiting()
        if not self._waiting:
            self._fruitless = 0
            if running.answers >= LONG_REPLAY:
                self._start_ask(now)
            return
        self._fruitless = self._fruitless + 1 if self._taken == running.taken_before else 0
        if self._fruitless >= FRUITLESS_ASKS:
            self._fruitless = 0
            self._pass_over()
        if self._waiting:
            self._start_ask(now)

    def _clear_waiting(self, now: float) -> bool:
        """Let nothing wait that is passed; False if one of those was of another life, which has begun then."""
        assert self._taken is not None
        for message in self._waiting.take_through(self._taken):
            restarts = self.restarts
            self._again(message, now)
            if self.restarts != restarts:
                return False
        return True

    def _pass_over(self) -> None:
        """Go on with the first that waits."""
        if self._ts is not None:
            self.late += self._waiting.drop_older(self._ts)
        if self._waiting and self._taken is not None:
            first = self._waiting.first
            if self._taken == BEFORE_ALL:
                self._begin(first - 1, "partial")
            else:
                self._lose(first - self._taken - 1)
                self._taken = first - 1
            self._take_waiting()

    def _lose(self, batches: int) -> None:
        self.lost += batches
        self.steps.append(Lost(batches))

    def _skip_to(self, message: Message) -> None:
        """Without replays: *message* comes after a gap."""
        assert self._taken is not None
        self.gaps += 1
        if self._is_late(message):
            self.late += 1
        elif self._was_away:
            # It may be another life, of which the beginning was missed.
            self._open_with(message)
            self._take(message)
        else:
            self._lose(message.seq - self._taken - 1)
            self._take(message)

    def _give_up(self, now: float) -> None:
        """Replays do not work; go on with what is published."""
        self._broken = 0
        self._rebuild_at = now + self._rebuild_after_s
        self._rebuild_after_s = min(2 * self._rebuild_after_s, 10 * self._patience.rebuild_s)
        was_verified, self._is_verified = self._is_verified, True
        self._wants_rebuild = False
        if self._taken is None:
            self._is_open = not self._waiting
            first = self._waiting.take(self._waiting.first) if self._waiting else None
            if first is not None:
                self._open_with(first)
                self._take(first)
        elif not was_verified:
            self._lose(0)
        if self._taken is not None and self._clear_waiting(now):
            self._take_waiting()
            while self._waiting:
                self._pass_over()
