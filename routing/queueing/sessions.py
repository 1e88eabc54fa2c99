"""Detection whether a request begins a session or continues a session."""

import numpy as np

from routing.request import Request

MAX_SESSIONS = 65_536
"""Maximum number of remembered sessions, at about 100 bytes each. The least recently used sessions are dropped first.
"""
OPEN_BLOCKS = 2
"""Number of blocks at the end of a prompt that can differ in the next prompt, because the answer starts there."""


class Sessions:
    """Recognition of sessions, by a name from the caller or by a prompt that extends an earlier prompt.

    A request without a session name is recognized by all blocks of its prompt.
    """

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._max = max_sessions
        # Names may be long, so hashes are kept. Python's hash has a random key: callers cannot make collisions.
        self._named: dict[int, None] = {}
        self._ends: dict[int, None] = {}
        """Last block that a continuation must share, for each prompt that has no continuation yet."""

    def begins(self, request: Request) -> bool:
        """Return whether *request* is the first request of its session, and record the session."""
        if request.session is not None:
            return self._begins_named(hash(request.session))
        return self._begins_unnamed(request.prefix.hashes)

    def _begins_named(self, session: int) -> bool:
        known = session in self._named
        if known:
            del self._named[session]
        self._named[session] = None
        self._limit(self._named)
        return not known

    def _begins_unnamed(self, hashes: bytes) -> bool:
        blocks: list[int] = np.frombuffer(hashes, np.uint64).tolist()
        continues = not self._ends.keys().isdisjoint(blocks)
        if continues:
            # A beginning that all sessions share is the end of at most one prompt.
            del self._ends[next(block for block in reversed(blocks) if block in self._ends)]
        if len(blocks) > OPEN_BLOCKS:
            self._ends[blocks[-1 - OPEN_BLOCKS]] = None
            self._limit(self._ends)
        return not continues

    def _limit(self, known: dict[int, None]) -> None:
        while len(known) > self._max:
            del known[next(iter(known))]
