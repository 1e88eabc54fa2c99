"""How the requests of one model are divided between workers that compute prompts and workers that generate answers."""

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, Literal, TypeVar

from cache_index import WorkerId
from gateway.body import Body
from routing.candidate import Candidate
from routing.disaggregation import ByDecodeLoad, Handover
from routing.dispatcher import admitting_first
from routing.explanation import Explanation, predicted_ttft_s
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.by_name import StrategiesByName

T = TypeVar("T")

Flow = Literal["nixl", "sglang"]
"""How a prompt's blocks come to the decode worker: vLLM's NIXL connector, which is told where they are once they are
computed, or SGLang's, where both workers get the request at once and meet in a room."""

PATHS = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Whose bodies have room for what passes between the two halves; requests to the others stay whole."""

LARGEST_ROOM = 2**63 - 2**20
"""A room is a signed integer of 64 bits, with some behind it for the other answers to the same prompt."""

BOOTSTRAP_PORT = 8998
"""Where SGLang's prefill workers are met unless they are told otherwise (sglang/srt/server_args.py)."""


class Division:
    """Says which requests are divided, which prefill workers there are for one, and how both halves come together."""

    def __init__(
        self,
        flow: Flow,
        *,
        fleet: Fleet,
        strategies: StrategiesByName,
        by_load: ByDecodeLoad,
        handover: Handover,
        rng: random.Random,
        replace_loopback: bool = True,
        bootstrap_ports: Mapping[WorkerId, int] | None = None,
    ) -> None:
        """*strategies* rank prefill workers, *by_load* those that decode; *handover* is what a hop proved to cost.

        *replace_loopback*: a ``remote_host`` that means the prefill worker's own machine is replaced by its address.
        """
        self.flow: Flow = flow
        self.by_load = by_load
        self.handover = handover
        self.replace_loopback = replace_loopback
        self._fleet = fleet
        self._strategies = strategies
        self._rng = rng
        self._bootstrap_ports = bootstrap_ports or {}
        self._halves: set[asyncio.Task[Any]] = set()

    def divided(self, request: Request, path: str, body: Body) -> Request:
        """*request*, which came to *path* and was read of *body*, marked if two workers may share it.

        Blocks that vLLM hands over can be fetched once, so several answers to one prompt stay where it is computed; so
        does what has no more than its first token to generate.
        """
        if path not in PATHS or not body.reads_cache or not body.writes_cache or request.pinned is not None:
            return request
        if self.flow == "nixl" and (body.n != 1 or body.max_tokens == 1):
            return request
        return request.changed(divides=True)

    def prefill_request(self, request: Request) -> Request:
        """The half of *request* that a prefill worker does: its answer is the end of its prefill."""
        return request.changed(output_tokens=1.0, streams=True, spill_in_s=None)

    def order(self, request: Request, now: float) -> list[Candidate]:
        """The prefill workers for *request*, best first by the strategy that it asks for, or else by the model's."""
        candidates = self._fleet.prefill_candidates(request, now)
        return admitting_first(self._strategies.named(self.strategy_of(request)).rank(request, candidates))

    def strategy_of(self, request: Request) -> str:
        """Name of the strategy by which `order` goes."""
        return request.strategy or self._strategies.default

    def why_nobody_computes(self) -> str | None:
        """Why no request can be answered though workers that decode are there; None: one can."""
        if self.flow == "nixl" or any(worker.is_ready and worker.role != "decode" for worker in self._fleet):
            return None
        return "none of its prefill workers is ready"

    def bootstrap_port(self, worker: WorkerId) -> int:
        return self._bootstrap_ports.get(worker, BOOTSTRAP_PORT)

    def room(self) -> int:
        """Where two workers meet, each once."""
        return self._rng.randrange(LARGEST_ROOM)

    def begin(self, half: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """*half* of a request, which goes on to its end, whatever becomes of the other, unless it is cancelled."""
        task = asyncio.get_running_loop().create_task(half)
        self._halves.add(task)
        task.add_done_callback(self._forget)
        return task

    def explain(self, explanation: Explanation, now: float) -> dict[str, Any]:
        """Which half of the request goes where at this moment, as values of JSON. It changes nothing."""
        request = self.prefill_request(explanation.request)
        candidates = self._fleet.prefill_candidates(request, now)
        order = admitting_first(self._strategies.named(self.strategy_of(request)).explain(request, candidates).order)
        decode = explanation.places[0].candidate if explanation.places else None
        ttft_s: float | None = None
        if order and decode is not None and decode.remote_tokens > 0.0 and self.by_load.pays(request, decode, order[0]):
            ttft_s = predicted_ttft_s(request, order[0]) + self.handover.seconds(decode.remote_tokens)
        least = float("inf") if decode is None else self.by_load.least_tokens(decode)
        return {
            "flow": self.flow,
            "divides": request.divides,
            "decode_worker": None if decode is None else decode.worker,
            "hops": ttft_s is not None,
            "predicted_ttft_s": None if ttft_s is None else round(ttft_s, 6),
            "least_uncached_tokens": None if least == float("inf") else round(least, 1),
            "fetched_tokens": 0.0 if decode is None else round(decode.remote_tokens, 1),
            "strategy": self.strategy_of(request),
            "workers": [
                {
                    "rank": rank,
                    "worker": candidate.worker,
                    "hit_blocks": candidate.hit_blocks,
                    "hit_tokens": round(candidate.hit_tokens, 1),
                    "hit_source": candidate.source,
                    "backlog_s": round(candidate.load.backlog_s, 6),
                    "predicted_prefill_s": round(predicted_ttft_s(request, candidate), 6),
                }
                for rank, candidate in enumerate(order, start=1)
            ],
        }

    async def aclose(self) -> None:
        """Cut the halves that are still going on."""
        halves = list(self._halves)
        for half in halves:
            half.cancel()
        if halves:
            await asyncio.wait(halves)

    def _forget(self, half: asyncio.Task[Any]) -> None:
        self._halves.discard(half)
        if not half.cancelled():
            half.exception()  # nobody else may ask for it, and asyncio would complain
