"""Detects whether a request begins a session, and predicts what a new session displaces from a cache."""

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from librt.strings import read_i64_le

from cache_index import WorkerId
from cache_index.prefix import HASH_BYTES
from routing.learning.session_size import SessionSize
from routing.live_sessions import LiveSessions, Session
from routing.request import BATCH, Request

if TYPE_CHECKING:  # mypyc makes machine words of these; not needed at run time
    from mypy_extensions import i64

Recognition = Literal["named", "prompt", "none"]
"""Way to recognize the session of a request: by a name, by a prompt that extends an earlier prompt, or none."""

MAX_SESSIONS = 65_536
"""Maximum number of remembered sessions, at about 300 bytes each. The least recently used sessions are dropped first.
"""
FILTER_SLOTS: Final = 1 << 20
"""Number of counters in the filter of `PromptEnds`, one byte each. With 65,536 ends, one of 16 blocks that are not the
end of a prompt passes the filter.
"""
MAX_LOOPED_BLOCKS: Final = 128
"""Maximum length in blocks of a prompt that is searched by one lookup for each block. One numpy call costs as much as
dozens of lookups.
"""
LAST_BLOCKS: Final = 64
"""Number of last blocks of a longer prompt that are searched first, because a turn of a session seldom adds more."""
OPEN_BLOCKS = 2
"""Number of blocks at the end of a prompt that can differ in the next prompt, because the answer starts there."""


class Sessions:
    """Recognition of sessions, by a name from the caller or by a prompt that extends an earlier prompt.

    A request without a session name is recognized by all blocks of its prompt.
    """

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._max = max_sessions
        # Names may be long, so hashes are kept. Python's hash has a random key: callers cannot make collisions.
        self._named: dict[int, Session] = {}
        self._ends = PromptEnds()
        self.recognized: Final[dict[Recognition, int]] = {"named": 0, "prompt": 0, "none": 0}
        """Number of requests by the way in which their session was recognized."""
        self._live = LiveSessions()
        self._size = SessionSize()

    def begins(self, request: Request) -> bool:
        """Return whether *request*, which has just arrived, is the first of its session, and record the session.

        The cost is O(1) for a named session, and else O(blocks of the prompt), some 10 ns per block. Lines of batches
        are not recorded, because nothing continues their prompts.
        """
        if request.priority == BATCH:
            return True
        if request.session is not None:
            self.recognized["named"] += 1
            return self._record_named(hash(request.session))
        is_new = self._record_unnamed(request.prefix.hashes)
        self.recognized["none" if is_new else "prompt"] += 1
        return is_new

    @property
    def requests(self) -> int:
        """Number of requests whose session was looked for."""
        return sum(self.recognized.values())

    def would_begin(self, request: Request) -> bool:
        """Return whether *request* would be the first of its session, without recording the session."""
        if request.session is not None:
            return hash(request.session) not in self._named
        return self._ends.last_in(request.prefix.hashes) is None

    def sent(self, request: Request, worker: WorkerId, uncached_tokens: float) -> None:
        """Record that *request* was sent to *worker*, which computes *uncached_tokens* tokens of its prompt."""
        if request.priority == BATCH:
            return
        session = self._named.get(hash(request.session)) if request.session is not None else self._unnamed(request)
        self._size.asked(request.prompt_tokens)
        self._size.sent(begins_session=session is None or not self._live.has_begun(session))
        if session is not None:
            answer_tokens = request.output_tokens
            self._live.sent(
                session,
                worker,
                new_tokens=uncached_tokens + answer_tokens,
                all_tokens=request.prompt_tokens + answer_tokens,
            )

    def answered(self, new_tokens: float) -> None:
        """Learn from a completed request, whose prompt and answer added *new_tokens* tokens to a cache."""
        self._size.answered(new_tokens)

    def forget_worker(self, worker: WorkerId) -> None:
        """Forget the sessions of *worker*, whose cache is empty or which has left the fleet."""
        self._live.forget_worker(worker)

    def needed_tokens(self, worker: WorkerId, workers: int) -> float:
        """Return the expected number of tokens that live sessions need in the cache of *worker* as they grow.

        The sessions that wait for one of *workers* workers count in equal parts on all of them.
        """
        sessions = self._live.sessions(worker) + self._live.waiting / workers
        return sessions * self._size.long_prompt_tokens

    def newcomer(self, in_flight: int) -> "Newcomer":
        """Return the prediction for a new session. *in_flight* is the number of running requests of the fleet."""
        turns = self._size.turns(in_flight)
        return Newcomer(self._live, turns, max(0.0, turns - 1.0) * self._size.new_tokens)

    def _record_named(self, name: int) -> bool:
        session = self._named.pop(name, None)
        self._named[name] = self._begun() if session is None else session
        if len(self._named) > self._max:
            self._forget(self._named.pop(next(iter(self._named))))
        return session is None

    def _record_unnamed(self, hashes: bytes) -> bool:
        # A beginning that all sessions share is the end of at most one prompt.
        before = self._ends.last_in(hashes)
        session = None if before is None else self._ends.pop(before)
        end = _end_of(hashes)
        if end is None:
            self._forget(session)
        else:
            self._forget(self._ends.pop(end))
            self._ends.put(end, self._begun() if session is None else session)
            if len(self._ends) > self._max:
                self._forget(self._ends.pop_oldest())
        return before is None

    def _begun(self) -> Session:
        session = Session()
        self._live.arrived(session)
        return session

    def _unnamed(self, request: Request) -> Session | None:
        end = _end_of(request.prefix.hashes)
        return None if end is None else self._ends.get(end)

    def _forget(self, session: Session | None) -> None:
        if session is not None:
            self._live.forget_session(session)


class PromptEnds:
    """Sessions without a name, by the last block of their prompt that a continuation must share.

    A filter of counters finds the few blocks of a long prompt that can be such an end, without a lookup for each block.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._filter = bytearray(FILTER_SLOTS)
        self._counters = np.frombuffer(self._filter, np.uint8)
        """The filter as an array, which shares its memory."""

    def __len__(self) -> int:
        return len(self._sessions)

    def last_in(self, hashes: bytes) -> int | None:
        """Return the last block of *hashes* that is the end of a prompt, or None. O(blocks): less than a microsecond
        for 16 blocks, some 10 ns for each block of a longer prompt, and no more than its new blocks if a session goes
        on.
        """
        at: i64 = len(hashes) - HASH_BYTES
        last: i64 = 0 if at < MAX_LOOPED_BLOCKS * HASH_BYTES else at - (LAST_BLOCKS - 1) * HASH_BYTES
        sessions = self._sessions
        while at >= last:
            block: int = read_i64_le(hashes, at)
            if block in sessions:
                return block
            at -= HASH_BYTES
        return None if at < 0 else self._last_in_long(hashes[: at + HASH_BYTES])

    def get(self, block: int) -> Session | None:
        return self._sessions.get(block)

    def put(self, block: int, session: Session) -> None:
        """Add *block*, which must not be present."""
        self._sessions[block] = session
        slot = _slot(block)
        self._filter[slot] = self._filter[slot] + 1 & 0xFF

    def pop(self, block: int) -> Session | None:
        """Remove *block* and return its session, or None if it is not present."""
        session = self._sessions.pop(block, None)
        if session is not None:
            slot = _slot(block)
            self._filter[slot] = self._filter[slot] - 1 & 0xFF
        return session

    def pop_oldest(self) -> Session | None:
        """Remove the block that was added first, and return its session."""
        return self.pop(next(iter(self._sessions)))

    def _last_in_long(self, hashes: bytes) -> int | None:
        blocks = np.frombuffer(hashes, "<i8")
        possible = np.flatnonzero(self._counters[blocks & (FILTER_SLOTS - 1)])
        for block in reversed(blocks[possible].tolist()):
            if block in self._sessions:
                return int(block)
        return None


class Newcomer:
    """Prediction for a session that begins: *turns* requests, which add *growth* tokens after the first request."""

    def __init__(self, live: LiveSessions, turns: float, growth: float) -> None:
        self._live = live
        self._growth: Final = growth
        self._stay: Final = turns * growth

    def displaced_tokens(self, worker: WorkerId, capacity_tokens: float) -> float:
        """Return the expected number of tokens that other sessions must compute again on *worker* if the session begins
        there.

        Every request of the session takes a part of the cache, which has *capacity_tokens* tokens, from the live
        sessions of the worker. Replays of conversations and agents show the best times if the parts of all requests
        together count, up to the whole cache.
        """
        share = min(1.0, self._stay / max(1.0, capacity_tokens))
        return self._live.tokens(worker, self._growth) * share


def _slot(block: int) -> int:
    """Return the position of the counter of *block* in the filter."""
    number: i64 = block
    return number & FILTER_SLOTS - 1


def _end_of(hashes: bytes) -> int | None:
    """Return the last block that a continuation of the prompt must share, or None if the prompt is too short."""
    at = len(hashes) - (OPEN_BLOCKS + 1) * HASH_BYTES
    return read_i64_le(hashes, at) if at >= 0 else None
