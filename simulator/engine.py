"""The simulated engine: requests and time go in, events come out. No clock, no I/O, no asyncio.

1. Time is an argument, in seconds, and never runs backwards between two calls on one engine.
2. An engine acts at its own instants: a late `advance` yields the same events and times as many punctual ones.
3. `submit` and `abort` first let everything happen that is due; those events are handed out by the next `advance`.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from simulator.blocks import BlockPool
from simulator.request import EngineRequest


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Prefill has ended and the first output token is there."""

    request_id: str
    at: float
    cached_tokens: int
    """Prompt tokens that came out of the prefix cache."""


@dataclass(frozen=True, slots=True)
class Token:
    """One more output token."""

    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The last output token is out, and the blocks are free."""

    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Preempted:
    """The request lost its blocks and will be computed again; tokens already given stay given."""

    request_id: str
    at: float


EngineEvent: TypeAlias = FirstToken | Token | Finished | Preempted


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Reading of an engine's metrics. The token counts only grow."""

    running: int
    waiting: int
    kv_usage: float
    """Share of the blocks that are pinned, 0 to 1."""
    prefix_query_tokens: int
    prefix_hit_tokens: int
    prompt_tokens: int
    """Prompt tokens of requests whose prefill has ended."""
    generation_tokens: int
    preemptions: int


class Engine(Protocol):
    """One model server's scheduler, cache and GPU."""

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue *request*.

        Raises:
            DuplicateRequest: a request of this id is still here.
            RequestTooLarge: it would not fit if it had all blocks for itself.
        """
        ...

    def abort(self, request_id: str, now: float) -> None:
        """Drop a request and free its blocks; one that is not here is ignored, for it may just have finished."""
        ...

    def wake(self, now: float) -> None:
        """Blocks of its cache have become free without its doing: perhaps it can begin something."""
        ...

    def next_event_at(self) -> float | None:
        """Return when `advance` next has something to do; ``None`` while idle."""
        ...

    def advance(self, now: float) -> list[EngineEvent]:
        """Process everything due at *now*; return the events in time order."""
        ...

    def load(self, now: float) -> EngineLoad: ...


class EngineError(Exception):
    """A request that an engine cannot take."""


class DuplicateRequest(EngineError):
    pass


class RequestTooLarge(EngineError):
    pass


@dataclass(slots=True)
class Tally:
    """The running totals behind `EngineLoad`."""

    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0

    def admitted(self, prompt_tokens: int, cached_tokens: int) -> None:
        self.prefix_query_tokens += prompt_tokens
        self.prefix_hit_tokens += cached_tokens

    def load(self, *, running: int, waiting: int, kv_usage: float, unsettled_tokens: int = 0) -> EngineLoad:
        """The reading; *unsettled_tokens* were generated, but not yet counted in the tally."""
        return EngineLoad(
            running=running,
            waiting=waiting,
            kv_usage=kv_usage,
            prefix_query_tokens=self.prefix_query_tokens,
            prefix_hit_tokens=self.prefix_hit_tokens,
            prompt_tokens=self.prompt_tokens,
            generation_tokens=self.generation_tokens + unsettled_tokens,
            preemptions=self.preemptions,
        )


def check_fits(request: EngineRequest, pool: BlockPool) -> None:
    """Raise `RequestTooLarge` for a request that no amount of waiting would help."""
    needed = pool.blocks_for(request.prompt_tokens + request.output_tokens)
    if needed > pool.capacity:
        raise RequestTooLarge(f"request {request.id} needs {needed} blocks, the cache has {pool.capacity}")


def store_computed(
    pool: BlockPool, request: EngineRequest, blocks: list[int], *, stored: int, computed_tokens: int
) -> int:
    """Cache the blocks that *computed_tokens* fill beyond the *stored* first ones; how many are stored in the end."""
    size = pool.block_size
    full = min(computed_tokens // size, len(request.block_hashes))
    if full <= stored:
        return stored
    hashes = request.block_hashes
    pool.store(
        blocks[stored:full],
        hashes[stored:full],
        parent=hashes[stored - 1] if stored else None,
        token_ids=request.token_ids[stored * size : full * size],
        scope=request.scope,
    )
    return full
