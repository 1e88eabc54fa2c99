"""The bounds: all workers compute over one cache, of the size of all theirs, so that no placement can be wrong.

As an engine of its own: a replay runs it as its only worker, and `ToTheOne` sends it every request at once.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.policies.late_binding import AGEING
from engine_model.blocks import BlockPool
from engine_model.engine import DuplicateRequest, EngineEvent, EngineLoad, Finished, FirstToken, check_fits
from engine_model.fifo import FifoEngine
from engine_model.request import EngineRequest
from engine_model.timing import Timing
from engine_model.virtual import VirtualFleet
from replay.policy import Ask, Usage

Order = Callable[[float, float], float]
"""Seconds that a request takes to compute and seconds that it has waited, to a rank: the lowest goes first."""


def first_come(uncached_s: float, waited_s: float) -> float:  # noqa: ARG001
    return -waited_s


def shortest_uncached(uncached_s: float, waited_s: float) -> float:
    """Return the price as policy B has it."""
    return uncached_s - AGEING * waited_s


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    request: EngineRequest
    since: float


class SharedCache:
    """An `Engine` of a FIFO engine for each of *timings* over one *pool*, behind one queue in the *order* given.

    A server takes the next request when it has nothing to prefill; of several that could, the one with the fewest
    decodes for its speed. The next request waits until the pool has as many free blocks as it takes in all, and all
    others behind it: so none ever waits inside a server.
    """

    def __init__(self, pool: BlockPool, timings: Sequence[Timing], order: Order) -> None:
        self._pool = pool
        self._order = order
        self._tokens_per_s = {str(number): timing.prefill_tokens_per_s for number, timing in enumerate(timings)}
        self._mean_tokens_per_s = statistics.fmean(self._tokens_per_s.values())
        self._servers = VirtualFleet({str(number): FifoEngine(pool, timing) for number, timing in enumerate(timings)})
        self._waiting: dict[str, _Waiting] = {}
        self._server_of: dict[str, str] = {}
        self._prefilling: dict[str, str] = {}  # request by server
        self._outbox: list[EngineEvent] = []

    def submit(self, request: EngineRequest, now: float) -> None:
        self._run_until(now)
        check_fits(request, self._pool)
        if request.id in self._waiting or request.id in self._server_of:
            raise DuplicateRequest(f"request {request.id} is already in the engine")
        self._waiting[request.id] = _Waiting(request, now)
        self._serve(now)

    def abort(self, request_id: str, now: float) -> None:
        self._run_until(now)
        self._waiting.pop(request_id, None)
        server = self._server_of.pop(request_id, None)
        if server is not None:
            self._servers.abort(server, request_id, now)
            if self._prefilling.get(server) == request_id:
                del self._prefilling[server]
        self._serve(now)

    def wake(self, now: float) -> None:
        self._run_until(now)
        self._serve(now)

    def next_event_at(self) -> float | None:
        return self._outbox[0].at if self._outbox else self._servers.next_event_at()

    def advance(self, now: float) -> list[EngineEvent]:
        self._run_until(now)
        events, self._outbox = self._outbox, []
        return events

    def load(self, now: float) -> EngineLoad:
        loads = [self._servers.load(server, now) for server in self._servers.workers]
        return EngineLoad(
            running=sum(load.running for load in loads),
            waiting=len(self._waiting),
            kv_usage=self._pool.usage,
            prefix_query_tokens=sum(load.prefix_query_tokens for load in loads),
            prefix_hit_tokens=sum(load.prefix_hit_tokens for load in loads),
            prompt_tokens=sum(load.prompt_tokens for load in loads),
            generation_tokens=sum(load.generation_tokens for load in loads),
            preemptions=0,
        )

    def _run_until(self, now: float) -> None:
        while (at := self._servers.next_event_at()) is not None and at <= now:
            for server, event in self._servers.advance(at):
                self._outbox.append(event)
                match event:
                    case FirstToken():
                        del self._prefilling[server]
                    case Finished():
                        del self._server_of[event.request_id]
            self._serve(at)

    def _serve(self, now: float) -> None:
        while self._waiting and len(self._prefilling) < len(self._servers.workers):
            request = self._next(now)
            if self._pool.blocks_for(request.prompt_tokens + request.output_tokens) > self._pool.free:
                return
            del self._waiting[request.id]
            free = [server for server in self._servers.workers if server not in self._prefilling]
            server = min(free, key=lambda name: (self._servers.load(name, now).running + 1) / self._tokens_per_s[name])
            self._server_of[request.id] = server
            self._prefilling[server] = request.id
            self._servers.submit(server, request, now)

    def _next(self, now: float) -> EngineRequest:
        return min(
            self._waiting.values(), key=lambda one: self._order(self._uncached_s(one.request), now - one.since)
        ).request

    def _uncached_s(self, request: EngineRequest) -> float:
        size = self._pool.block_size
        hits = self._pool.match(request.block_hashes, (request.prompt_tokens - 1) // size)
        return (request.prompt_tokens - len(hits) * size) / self._mean_tokens_per_s


class ToTheOne:
    """A `Policy` for a replay with one worker."""

    def __init__(self) -> None:
        self._submitted: list[Ask] = []

    def submit(self, ask: Ask, now: float) -> None:  # noqa: ARG002
        self._submitted.append(ask)

    def poll(self, now: float) -> list[tuple[Ask, int]]:  # noqa: ARG002
        submitted, self._submitted = self._submitted, []
        return [(ask, 0) for ask in submitted]

    def next_poll_at(self, now: float) -> float | None:  # noqa: ARG002
        return None

    def first_token(self, ask: Ask, now: float) -> None:
        pass

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:
        pass

    def stored(self, worker: int, blocks: Sequence[int], parent: int | None, now: float) -> None:
        pass

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:
        pass
