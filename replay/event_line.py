"""KV events on their way from engines to a router: late, and sometimes lost and replayed."""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine_model.blocks import PLAIN, BlockHash, BlockScope


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """*blocks* follow each other and *parent*; None: the first begins a prompt."""

    blocks: Sequence[int]
    parent: int | None


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class HostStored:
    """The host tier holds a copy of each of *blocks*."""

    blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class HostRemoved:
    blocks: Sequence[int]


BlockEvent = BlocksStored | BlocksRemoved | HostStored | HostRemoved


class WorkerSink:
    """Receives the changes of one engine's pool and host tier, and reports the first and the last copy of each id."""

    def __init__(self, tell: Callable[[BlockEvent], None]) -> None:
        self._tell = tell
        self._copies: Counter[int] = Counter()

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],  # noqa: ARG002
        scope: BlockScope = PLAIN,  # noqa: ARG002
    ) -> None:
        run: list[int] = []
        after = None if parent is None else _id_of(parent)
        for block in map(_id_of, hashes):
            self._copies[block] += 1
            if self._copies[block] == 1:
                run.append(block)
            else:
                self._tell_run(run, after)
                run, after = [], block
        self._tell_run(run, after)

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        gone = []
        for block in map(_id_of, hashes):
            self._copies[block] -= 1
            if not self._copies[block]:
                del self._copies[block]
                gone.append(block)
        if gone:
            self._tell(BlocksRemoved(gone))

    def offloaded(self, hashes: Sequence[BlockHash]) -> None:
        self._tell(HostStored(list(map(_id_of, hashes))))

    def dropped(self, hashes: Sequence[BlockHash]) -> None:
        self._tell(HostRemoved(list(map(_id_of, hashes))))

    def cleared(self) -> None:
        raise NotImplementedError("no engine of a replay clears its cache")

    def _tell_run(self, run: list[int], parent: int | None) -> None:
        if run:
            self._tell(BlocksStored(run, parent))


def _id_of(block_hash: BlockHash) -> int:
    assert type(block_hash) is int, "blocks of a trace are named by numbers"
    return block_hash


@dataclass(slots=True)
class _Batch:
    """Events of one engine at one moment."""

    worker: int
    at: float
    events: list[BlockEvent]
    is_lost: bool


class EventLine:
    """Batches come *lag_s* late. A share *loss* of them is lost until the worker's next batch comes and shows the gap.

    Then what was lost is replayed before it: a router hears everything, in order.
    """

    def __init__(self, workers: int, rng: random.Random, *, lag_s: float, loss: float) -> None:
        self._rng = rng
        self._lag_s = lag_s
        self._loss = loss
        self._under_way: deque[_Batch] = deque()
        self._missed: list[list[_Batch]] = [[] for _ in range(workers)]

    def tell(self, worker: int, event: BlockEvent, now: float) -> None:
        """*worker*'s engine reports *event*; what it reports in a row at one moment is one batch."""
        last = self._under_way[-1] if self._under_way else None
        if last is not None and last.worker == worker and last.at == now:
            last.events.append(event)
            return
        is_lost = self._loss > 0 and self._rng.random() < self._loss
        self._under_way.append(_Batch(worker, now, [event], is_lost))

    def next_at(self) -> float | None:
        """Return when `due` will next have something; None while nothing is under way."""
        return self._under_way[0].at + self._lag_s if self._under_way else None

    def due(self, now: float) -> Iterator[tuple[int, BlockEvent]]:
        """Yield what has come by *now*, in the order in which each worker reported it."""
        while self._under_way and self._under_way[0].at + self._lag_s <= now:
            batch = self._under_way.popleft()
            missed = self._missed[batch.worker]
            missed.append(batch)
            if batch.is_lost:
                continue
            self._missed[batch.worker] = []
            for come in missed:
                for event in come.events:
                    yield batch.worker, event
