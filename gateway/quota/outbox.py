"""What is still to be carried out in the store, while nobody waits for it."""

from collections import deque

from gateway.quota.redis_meters import Operation

MOST = 50_000
"""Some 1.5 kB each: 75 MB, at 100 requests per second more than eight minutes without the store."""
KEPT_S = 5.0
"""What Redis answered and may forget when it goes: a second or two of an append-only file, what a replica lacks."""


class Outbox:
    """Operations by team, numbered from 1 in the order in which they came.

    What was carried out a moment ago is kept for `reopen`. *now* is in seconds, of any clock.
    """

    def __init__(self, *, most: int = MOST, kept_s: float = KEPT_S) -> None:
        self._most = most
        self._kept_s = kept_s
        self._done: dict[str, deque[tuple[float, Operation]]] = {}
        self._waiting: dict[str, deque[Operation]] = {}
        self._numbers: dict[str, int] = {}
        """The last one of each team. Never forgotten: a number that came twice would not be carried out."""
        self._length = 0
        self.dropped = 0
        """Operations for which there was no room."""

    def __len__(self) -> int:
        return self._length

    def teams(self) -> list[str]:
        """Of which something waits."""
        return list(self._waiting)

    def add(self, team: str, operation: Operation) -> None:
        """Put *operation* behind all others of *team*. Without room, the oldest of the team with most goes."""
        if self._length >= self._most:
            self._drop()
        self._numbers[team] = self._numbers.get(team, 0) + 1
        self._waiting.setdefault(team, deque()).append(operation)
        self._length += 1

    def first(self, team: str, most: int) -> tuple[int, list[Operation]]:
        """The number of the oldest one of *team*, and it and up to *most* in all; they stay."""
        waiting = self._waiting.get(team, ())
        number = self._numbers.get(team, 0) - len(waiting) + 1
        return number, [operation for operation, _ in zip(waiting, range(most), strict=False)]

    def done(self, team: str, last: int, now: float) -> None:
        """Those up to number *last* were carried out."""
        done = self._done.setdefault(team, deque())
        done.extend((now, operation) for operation in self._taken(team, last))
        self._forget(team, now)

    def reopen(self, now: float) -> None:
        """Let those that were done lately wait again, under their numbers: the store may have forgotten them."""
        for team in list(self._done):
            self._forget(team, now)
            done = self._done.pop(team, ())
            if done:
                waiting = self._waiting.setdefault(team, deque())
                waiting.extendleft(operation for _, operation in reversed(done))
                self._length += len(done)

    def forget(self, now: float) -> None:
        """Free the memory of those that were done long ago."""
        for team in list(self._done):
            self._forget(team, now)

    def _drop(self) -> None:
        team = max(self._waiting, key=lambda each: len(self._waiting[each]))
        number, _ = self.first(team, 0)
        self._taken(team, number)
        self._done.pop(team, None)  # numbers have no gaps
        self.dropped += 1

    def _taken(self, team: str, last: int) -> list[Operation]:
        waiting = self._waiting.get(team)
        if waiting is None:
            return []
        taken = []
        while waiting and self._numbers[team] - len(waiting) + 1 <= last:
            taken.append(waiting.popleft())
        self._length -= len(taken)
        if not waiting:
            del self._waiting[team]
        return taken

    def _forget(self, team: str, now: float) -> None:
        done = self._done[team]
        while done and done[0][0] < now - self._kept_s:
            done.popleft()
        if not done:
            del self._done[team]
