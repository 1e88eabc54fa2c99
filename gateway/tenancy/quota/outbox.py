"""Queue of background operations that the store still has to carry out."""

from collections import deque
from collections.abc import Callable

from gateway.tenancy.quota.redis_operation import Operation

MAX_WAITING = 50_000
"""Maximum number of operations in the queue. At 0.9 kB each they take 45 MB, enough for eight minutes without the store
at 100 requests per second.
"""
KEPT_S = 5.0
"""Seconds for which completed operations are kept. After a crash or a failover, Redis can lose what it confirmed in its
last second or two.
"""


class Outbox:
    """Queued operations of each team, numbered from 1 in order of arrival.

    Recently completed operations are kept for `reopen`. *now* arguments are in seconds of any clock.
    """

    def __init__(self, *, max_waiting: int = MAX_WAITING, kept_s: float = KEPT_S) -> None:
        self._max_waiting = max_waiting
        self._kept_s = kept_s
        self._done: dict[str, deque[tuple[float, Operation]]] = {}
        self._waiting: dict[str, deque[Operation]] = {}
        self._numbers: dict[str, int] = {}
        """Number of the last operation of each team. It is kept forever, because the store ignores numbers that it has
        already seen.
        """
        self._length = 0
        self.dropped = 0
        """Number of operations that were dropped because the queue was full."""

    def __len__(self) -> int:
        return self._length

    def teams(self) -> list[str]:
        """Return the teams that have operations in the queue."""
        return list(self._waiting)

    def add(self, team: str, operation: Operation) -> None:
        """Append *operation* to the queue. If the queue is full, drop the oldest operation of the team with the most
        operations.
        """
        if self._length >= self._max_waiting:
            self._drop()
        self._numbers[team] = self._numbers.get(team, 0) + 1
        self._waiting.setdefault(team, deque()).append(operation)
        self._length += 1

    def first(self, team: str, most: int) -> tuple[int, list[Operation]]:
        """Return the number of the oldest operation of *team*, and the first *most* operations, which stay in the
        queue.
        """
        waiting = self._waiting.get(team, ())
        number = self._numbers.get(team, 0) - len(waiting) + 1
        return number, [operation for operation, _ in zip(waiting, range(most), strict=False)]

    def done(self, team: str, last: int, now: float) -> None:
        """Mark the operations of *team* up to the number *last* as completed."""
        done = self._done.setdefault(team, deque())
        done.extend((now, operation) for operation in self._pop(team, last))
        self._forget(team, now)

    def reopen(self, now: float) -> None:
        """Queue recently completed operations again under their old numbers, because the store might have lost them."""
        for team in list(self._done):
            self._forget(team, now)
            done = self._done.pop(team, ())
            if done:
                waiting = self._waiting.setdefault(team, deque())
                waiting.extendleft(operation for _, operation in reversed(done))
                self._length += len(done)

    def forget(self, now: float) -> None:
        """Free the memory of operations that were completed a long time ago."""
        for team in list(self._done):
            self._forget(team, now)

    def _drop(self) -> None:
        team = max(self._waiting, key=lambda each: len(self._waiting[each]))
        number, _ = self.first(team, 0)
        self._pop(team, number)
        self._done.pop(team, None)  # numbers have no gaps
        self.dropped += 1

    def _pop(self, team: str, last: int) -> list[Operation]:
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


class WaitingOperations:
    """Operations of *outbox* for calls that carry them out before other work. *clock* is the clock of the outbox."""

    def __init__(self, outbox: Outbox, *, clock: Callable[[], float]) -> None:
        self._outbox = outbox
        self._clock = clock

    def first(self, team: str, most: int) -> tuple[int, list[Operation]]:
        """Return the number of the oldest operation of *team*, and the first *most* operations."""
        return self._outbox.first(team, most)

    def done(self, team: str, last: int) -> None:
        """Mark the operations of *team* up to the number *last* as completed."""
        self._outbox.done(team, last, self._clock())
