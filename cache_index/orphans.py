"""Blocks whose parent block is unknown, because the event that reports the parent was lost or has not arrived yet.

1. A run of blocks waits for the block before it. A block reported without tokens waits for one with the same hash and
   tokens.
2. Waiting blocks that the engine removes are not stored later.
3. If there are too many waiting runs, the oldest ones are dropped.
"""

import msgspec

from cache_index.counts import Counts
from cache_index.event import Tier
from cache_index.tokens import Extras, TokenIds

# Measured with tracemalloc on CPython 3.11.
RUN_BYTES = 550
BLOCK_BYTES = 190


class OrphanRun(msgspec.Struct, gc=False, eq=False):
    """Run of consecutive blocks of one worker in *tier* that wait for another block."""

    worker: int
    """Bit number of the worker that holds the run."""
    awaited: int
    """Engine hash of the block before the run. If `ids` is empty, it is the hash of the run's only block."""
    hashes: list[int]
    tier: Tier
    ids: TokenIds = b""
    block_size: int = 0
    extras: Extras | None = None
    gone: set[int] = set()  # msgspec makes each its own; a field with a factory is not understood when compiled
    """Hashes of removed blocks in the run. Later blocks in the run still depend on the tokens of the removed blocks."""
    number: int = 0
    """Sequence number in the order of arrival."""

    @property
    def size_bytes(self) -> int:
        return RUN_BYTES + BLOCK_BYTES * len(self.hashes) + len(self.ids)


class _WorkerOrphans:
    """Waiting runs of one worker, indexed by the hash that they wait for and by the hashes of their blocks."""

    __slots__ = ("by_awaited", "by_block")

    def __init__(self) -> None:
        self.by_awaited: dict[int, list[OrphanRun]] = {}
        self.by_block: dict[int, list[OrphanRun]] = {}


class Orphans:
    """Waiting runs of all workers, which use at most *max_bytes* of memory."""

    def __init__(self, *, max_bytes: int, counts: Counts) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._counts = counts
        self._workers: dict[int, _WorkerOrphans] = {}
        self._runs: dict[int, OrphanRun] = {}
        self._parked = 0

    def __len__(self) -> int:
        """Return the number of blocks that wait for an unknown parent block."""
        return sum(len(run.hashes) - len(run.gone) for run in self._runs.values())

    def park(self, run: OrphanRun) -> None:
        """Add *run* to the waiting runs. If the memory limit is exceeded, drop the oldest runs. O(blocks)."""
        if len(set(run.hashes)) < len(run.hashes):
            self._counts.refused += 1
            return
        self._counts.parked += len(run.hashes)
        if run.size_bytes > self.max_bytes:
            self._counts.given_up += len(run.hashes)
            return
        self._parked += 1
        run.number = self._parked
        waiting = self._workers.setdefault(run.worker, _WorkerOrphans())
        self._runs[run.number] = run
        self.size_bytes += run.size_bytes
        waiting.by_awaited.setdefault(run.awaited, []).append(run)
        for engine_hash in run.hashes:
            waiting.by_block.setdefault(engine_hash, []).append(run)
        while self.size_bytes > self.max_bytes:
            oldest = next(iter(self._runs.values()))
            self._counts.given_up += len(oldest.hashes) - len(oldest.gone)
            self._forget(oldest)

    def claim(self, worker: int, hashes: list[int]) -> list[OrphanRun]:
        """Remove and return the runs of *worker* that wait for any of *hashes*."""
        waiting = self._workers.get(worker)
        if waiting is None or waiting.by_awaited.keys().isdisjoint(hashes):
            return []
        claimed = [run for awaited in dict.fromkeys(hashes) for run in waiting.by_awaited.get(awaited, ())]
        for run in claimed:
            self._forget(run)
        return claimed

    def remove(self, worker: int, engine_hash: int, tier: Tier) -> bool:
        """Remove one copy of a waiting block. Return whether such a block was waiting in *tier*."""
        waiting = self._workers.get(worker)
        if waiting is None:
            return False
        run = next((run for run in waiting.by_block.get(engine_hash, ()) if run.tier is tier), None)
        if run is None:
            return False
        run.gone.add(engine_hash)
        _discard(waiting.by_block, engine_hash, run)
        if len(run.gone) == len(run.hashes) and (not run.ids or waiting.by_awaited.keys().isdisjoint(run.hashes)):
            self._forget(run)
        return True

    def drop(self, worker: int) -> None:
        """Remove all waiting runs of *worker*. O(blocks of the worker)."""
        waiting = self._workers.get(worker)
        if waiting is not None:
            for run in [run for runs in waiting.by_awaited.values() for run in runs]:
                self._forget(run)

    def _forget(self, run: OrphanRun) -> None:
        waiting = self._workers[run.worker]
        del self._runs[run.number]
        self.size_bytes -= run.size_bytes
        _discard(waiting.by_awaited, run.awaited, run)
        for engine_hash in run.hashes:
            if engine_hash not in run.gone:
                _discard(waiting.by_block, engine_hash, run)
        if not waiting.by_awaited:
            del self._workers[run.worker]

    def check(self) -> None:
        """Check all invariants of the waiting runs. Raise AssertionError if one is violated. O(all runs)."""
        runs = list(self._runs.values())
        assert [run.number for run in runs] == sorted(self._runs), "the oldest come first"
        assert sum(run.size_bytes for run in runs) == self.size_bytes <= self.max_bytes
        awaited = [(run.worker, run.awaited, run.number) for run in runs]
        blocks = [(run.worker, block, run.number) for run in runs for block in run.hashes if block not in run.gone]
        assert sorted(awaited) == sorted(_listed({place: one.by_awaited for place, one in self._workers.items()}))
        assert sorted(blocks) == sorted(_listed({place: one.by_block for place, one in self._workers.items()}))


def _discard(runs_by_hash: dict[int, list[OrphanRun]], engine_hash: int, run: OrphanRun) -> None:
    runs = runs_by_hash[engine_hash]
    runs.remove(run)
    if not runs:
        del runs_by_hash[engine_hash]


def _listed(workers: dict[int, dict[int, list[OrphanRun]]]) -> list[tuple[int, int, int]]:
    return [
        (worker, engine_hash, run.number)
        for worker, runs_by_hash in workers.items()
        for engine_hash, runs in runs_by_hash.items()
        for run in runs
    ]
