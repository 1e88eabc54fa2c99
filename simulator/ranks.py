"""Data-parallel ranks of one simulated worker, or workers behind one simulated Dynamo frontend.

Each rank has a separate engine, cache and event stream, and all ranks share the server. A request that names a rank is
sent to that rank, and other requests are sent to the rank with the least work.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from engine_model.blocks import BlockPool
from engine_model.engine import EngineLoad
from simulator.errors import ApiError, Dialect
from simulator.event_publisher import EventPublisher
from simulator.exchange import HttpExchange
from simulator.realtime import RealtimeEngine

RANK_HEADER = b"x-data-parallel-rank"
"""Header for the rank in vLLM (vllm/entrypoints/generate/base/serving.py) and SGLang. It must be a number."""
INSTANCE_HEADERS = (b"x-dynamo-worker-instance-id", b"x-worker-instance-id")
"""Headers of Dynamo's frontend that select a worker instance."""


@dataclass(frozen=True, slots=True)
class Rank:
    """Data-parallel rank. *publisher* publishes the changes of its block pool, or is None if nothing is published."""

    number: int
    pool: BlockPool
    engine: RealtimeEngine
    publisher: EventPublisher | None = None


class Ranks:
    """All data-parallel ranks of one server. Most callers use them like a single engine."""

    def __init__(self, ranks: Sequence[Rank], dialect: Dialect = "vllm", *, seed: str = "") -> None:
        """Create the group of *ranks*, which must not be empty. *seed* changes the ids of Dynamo's worker instances."""
        self._ranks = ranks
        self._dialect = dialect
        self.instances = tuple(_instance_id(f"{seed}/{rank.number}") for rank in ranks)
        """Ids of the worker instances behind a Dynamo frontend. They are greater than 2^53, as in Dynamo."""

    def __iter__(self) -> Iterator[Rank]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)

    def engine_for(self, exchange: HttpExchange) -> RealtimeEngine:
        """Return the engine that answers *exchange*. Raises `ApiError` 400 if the requested rank does not exist."""
        wanted = self._wanted(exchange)
        if wanted is not None or len(self._ranks) == 1:
            return self._ranks[wanted or 0].engine
        return min(self._ranks, key=lambda rank: _to_be_done(rank.engine.load())).engine

    def load(self) -> EngineLoad:
        """Return the total load of all ranks."""
        loads = [rank.engine.load() for rank in self._ranks]

        def total(count: Callable[[EngineLoad], int]) -> int:
            return sum(map(count, loads))

        return EngineLoad(
            running=total(lambda load: load.running),
            waiting=total(lambda load: load.waiting),
            kv_usage=sum(load.kv_usage for load in loads) / len(loads),
            prefix_query_tokens=total(lambda load: load.prefix_query_tokens),
            prefix_hit_tokens=total(lambda load: load.prefix_hit_tokens),
            prompt_tokens=total(lambda load: load.prompt_tokens),
            generation_tokens=total(lambda load: load.generation_tokens),
            preemptions=total(lambda load: load.preemptions),
        )

    def slow_down(self, factor: float) -> None:
        """Slow down all engines (see `RealtimeEngine.slow_down`)."""
        for rank in self._ranks:
            rank.engine.slow_down(factor)

    def fail(self, failure: Exception) -> None:
        """Fail the running requests of all engines (see `RealtimeEngine.fail`)."""
        for rank in self._ranks:
            rank.engine.fail(failure)

    def clear(self) -> None:
        """Clear the caches of all ranks."""
        for rank in self._ranks:
            rank.pool.clear()

    def _wanted(self, exchange: HttpExchange) -> int | None:
        if self._dialect == "dynamo":
            text = next(filter(None, map(exchange.header, INSTANCE_HEADERS)), "")
            if not re.fullmatch(r"\d{1,20}", text):
                return None
            if int(text) not in self.instances:
                raise ApiError(400, "Invalid request")
            return self.instances.index(int(text))
        text = exchange.header(RANK_HEADER) or ""
        if not re.fullmatch(r"\d{1,9}", text):
            return None
        if int(text) >= len(self._ranks):
            raise ApiError(400, f"data_parallel_rank {text} is out of range [0, {len(self._ranks)}).")
        return int(text)


def _to_be_done(load: EngineLoad) -> int:
    """Return the amount of waiting and running work, as counted by vLLM's load balancing
    (vllm/v1/engine/core_client.py).
    """
    return 4 * load.waiting + load.running


def _instance_id(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") | 1 << 63
