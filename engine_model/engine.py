"""Simulated engine that takes requests and time as inputs and returns events. It uses no clock, no I/O, no asyncio.

1. Time is an argument in seconds. It must not decrease between two calls on one engine.
2. The times of events do not depend on the times of calls. One late `advance` returns the same events with the same
   times as many punctual calls.
3. `submit` and `abort` first process everything that is due. The next `advance` returns the resulting events.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engine_model.blocks import BlockPool
from engine_model.request import EngineRequest


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Event: the prefill of a request has ended, and the first output token is available."""

    request_id: str
    at: float
    cached_tokens: int
    """Number of prompt tokens that came from the prefix cache or the host tier."""


@dataclass(frozen=True, slots=True)
class Token:
    """Event: one more output token of a request is available."""

    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Event: the last output token of a request is available, and the request's cache blocks are free."""

    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Preempted:
    """Event: a request lost its cache blocks and will be computed again. Its tokens so far remain valid."""

    request_id: str
    at: float


EngineEvent: TypeAlias = FirstToken | Token | Finished | Preempted


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Snapshot of an engine's metrics. The token counters never decrease."""

    running: int
    waiting: int
    kv_usage: float
    """Share of the cache blocks that are in use by requests, from 0 to 1."""
    prefix_query_tokens: int
    prefix_hit_tokens: int
    """Number of prompt tokens found on the GPU. As in vLLM, tokens from the host tier are not included."""
    prompt_tokens: int
    """Total number of prompt tokens of all requests whose prefill has ended."""
    generation_tokens: int
    preemptions: int


class Engine(Protocol):
    """Simulation of the scheduler, KV cache and GPU of one model server."""

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue *request*.

        Raises:
            DuplicateRequest: if the engine already has a request with this id.
            RequestTooLarge: if the request does not fit into an empty cache.
        """
        ...

    def abort(self, request_id: str, now: float) -> None:
        """Drop a request and free its cache blocks. Unknown ids are ignored, as requests might just have finished.

        No further event of the request follows. If the engine computes a part of its prompt, this part is completed
        first, and the full blocks computed so far stay in the prefix cache.
        """
        ...

    def wake(self, now: float) -> None:
        """Try to start waiting requests, because another component has freed some cache blocks."""
        ...

    def next_event_at(self) -> float | None:
        """Return the time when `advance` will next have work to do, or None if the engine is idle."""
        ...

    def advance(self, now: float) -> list[EngineEvent]:
        """Process everything that is due at *now*, and return the resulting events in order of time."""
        ...

    def load(self, now: float) -> EngineLoad: ...


class EngineError(Exception):
    """Base class of errors for requests that an engine cannot accept."""


class DuplicateRequest(EngineError):
    pass


class RequestTooLarge(EngineError):
    pass


@dataclass(slots=True)
class Tally:
    """Running totals from which `EngineLoad` is made."""

    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0

    def admitted(self, prompt_tokens: int, cached_tokens: int) -> None:
        self.prefix_query_tokens += prompt_tokens
        self.prefix_hit_tokens += cached_tokens

    def load(self, *, running: int, waiting: int, kv_usage: float, unsettled_tokens: int = 0) -> EngineLoad:
        """Return a snapshot of the metrics. *unsettled_tokens* were generated but are not in the totals yet."""
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
    """Raise `RequestTooLarge` if a request could not run even on an idle engine."""
    needed = pool.blocks_for(request.prompt_tokens + request.output_tokens)
    if needed > pool.capacity:
        raise RequestTooLarge(f"request {request.id} needs {needed} blocks, but the cache has only {pool.capacity}")


def store_computed(
    pool: BlockPool, request: EngineRequest, blocks: list[int], *, stored: int, computed_tokens: int
) -> int:
    """Cache the blocks that *computed_tokens* fill beyond *stored* blocks, and copy them to the host tier.

    Return the number of stored blocks.
    """
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
    pool.offload(hashes[:full])
    return full
