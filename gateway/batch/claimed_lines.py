"""Lines of one batch that a gateway has claimed and has not begun, by worker."""

from collections import deque
from collections.abc import Callable

from gateway.batch.interruptions import Interrupted
from gateway.batch.line_store import BatchRef, LineStore


class ClaimedLines:
    """Claims of *owner* in *lines*, which end after *lease_s* seconds without renewal."""

    def __init__(
        self, lines: LineStore, ref: BatchRef, owner: str, *, lease_s: float, wall_clock: Callable[[], float]
    ) -> None:
        self._lines = lines
        self._ref = ref
        self._owner = owner
        self._lease_s = lease_s
        self._wall_clock = wall_clock
        self._claimed: dict[str, deque[int]] = {}
        self._interrupted: dict[int, Interrupted] = {}
        """Lines that were interrupted and have not begun again."""
        self._last: dict[str, int] = {}
        """Line that began last, by worker. The next one has a prefix in common with it."""

    async def next(self, worker: str, count: int) -> int | None:
        """Return the next line of *worker*, or None without lines. At most *count* lines are claimed at once.

        Raises:
            StoreUnavailable: if lines cannot be claimed.
        """
        claimed = self._claimed.setdefault(worker, deque())
        if not claimed:
            now, until = self._wall_clock(), self._wall_clock() + self._lease_s
            claimed.extend(await self._lines.claim(self._ref, self._owner, count, now=now, until=until, worker=worker))
        # Without lines in the store, help with lines that were claimed for another worker, which may be down by now.
        lines = claimed or max(self._claimed.values(), key=len)
        return lines.popleft() if lines else None

    async def renew(self) -> None:
        """Renew the claims. Raises ``StoreUnavailable`` if the store does not answer."""
        await self._lines.renew(self._ref, self._owner, until=self._wall_clock() + self._lease_s)

    def follows(self, worker: str, number: int) -> bool:
        """Note that the line *number* begins on *worker*, and return whether the line before it began there last."""
        last, self._last[worker] = self._last.get(worker), number
        return last == number - 1

    def put_back(self, number: int, interrupted: Interrupted) -> None:
        """Let the interrupted line *number* be the next one of its worker."""
        self._interrupted[number] = interrupted
        self._claimed.setdefault(interrupted.worker, deque()).appendleft(number)

    def interruption(self, number: int) -> Interrupted | None:
        """Return the line *number* as it was interrupted, and forget that, or return None if it was not."""
        return self._interrupted.pop(number, None)
