"""Which requests begin a session, and which go on with one that was seen."""

import numpy as np

from routing.request import Request

MOST = 65_536
"""Sessions that are remembered, some 100 bytes each; of more, those that asked least recently are forgotten."""
OPEN_BLOCKS = 2
"""The last blocks of a prompt, of which its continuation may have others: an answer was to begin there."""


class Sessions:
    """Knows a session by the name that callers give it, or by a prompt that another one goes on from.

    Costs a look at every block of a prompt whose session has no name.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # By Python's hash: a name may be long, and nobody can make two with the same, as each process has its own key.
        self._named: dict[int, None] = {}
        self._ends: dict[int, None] = {}
        """The last block that a continuation is sure to have, of each prompt that nothing went on from."""

    def begins(self, request: Request) -> bool:
        """Whether *request* is the first of its session; the next one is not."""
        if request.session is not None:
            return self._begins_named(hash(request.session))
        return self._begins_unnamed(request.prefix.hashes)

    def _begins_named(self, session: int) -> bool:
        known = session in self._named
        if known:
            del self._named[session]
        self._named[session] = None
        self._forget(self._named)
        return not known

    def _begins_unnamed(self, hashes: bytes) -> bool:
        blocks: list[int] = np.frombuffer(hashes, np.uint64).tolist()
        goes_on = not self._ends.keys().isdisjoint(blocks)
        if goes_on:
            # What all sessions have in common is the end of no more than one prompt.
            del self._ends[next(block for block in reversed(blocks) if block in self._ends)]
        if len(blocks) > OPEN_BLOCKS:
            self._ends[blocks[-1 - OPEN_BLOCKS]] = None
            self._forget(self._ends)
        return not goes_on

    def _forget(self, known: dict[int, None]) -> None:
        while len(known) > self._most:
            del known[next(iter(known))]
