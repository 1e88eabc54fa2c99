"""Disaggregation of requests: some workers compute the prompts (prefill), and others generate answers (decode)."""

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, Literal, TypeVar

from cache_index import WorkerId
from gateway.protocol.body import Body
from routing.candidate import Candidate
from routing.disaggregation import ByDecodeLoad, Handover
from routing.dispatcher import admitting_first
from routing.explanation import Explanation, predicted_ttft_s
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.by_name import StrategiesByName

T = TypeVar("T")

Flow = Literal["nixl", "sglang"]
"""Protocol that transfers KV blocks to the decode worker.

``nixl``: vLLM's NIXL connector, which gets the location of the blocks after the prefill. ``sglang``: both workers get
the request at the same time, and find each other by a room number.
"""

PATHS = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths whose request bodies can contain KV transfer parameters. Requests to other paths are not split."""

LARGEST_ROOM = 2**63 - 2**20
"""Largest room number (KV transfer id) for SGLang. Higher numbers are for further answers to the same prompt."""

BOOTSTRAP_PORT = 8998
"""Default bootstrap port of SGLang's prefill workers, from sglang/srt/server_args.py."""


class PrefillDecodePlan:
    """Plan that decides which requests are split and which prefill workers are tried, and that runs both halves of a
    request.
    """

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
        """Create the plan. *strategies* rank prefill workers, *by_load* ranks decode workers, *handover* has costs.

        With *replace_loopback*, a loopback ``remote_host`` of a prefill worker is replaced by the worker's address.
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
        """Return *request*, sent to *path* with *body*. It is marked as split if two workers are allowed to share it.

        Requests for a single token are not split. Neither are requests for several answers, because vLLM's blocks can
        be fetched only once.
        """
        if path not in PATHS or not body.reads_cache or not body.writes_cache or request.pinned is not None:
            return request
        if self.flow == "nixl" and (body.n != 1 or body.max_tokens == 1):
            return request
        return request.changed(divides=True)

    def prefill_request(self, request: Request) -> Request:
        """Return the prefill half of *request*, whose answer ends when the prefill ends."""
        return request.changed(output_tokens=1.0, streams=True, spill_in_s=None)

    def order(self, request: Request, now: float) -> list[Candidate]:
        """Return the prefill workers for *request*, best first, ranked by the strategy of the request or the model."""
        candidates = self._fleet.prefill_candidates(request, now)
        return admitting_first(self._strategies.named(self.strategy_of(request)).rank(request, candidates))

    def strategy_of(self, request: Request) -> str:
        """Return the name of the strategy by which `order` ranks prefill workers for *request*."""
        return request.strategy or self._strategies.default

    def why_no_prefill(self) -> str | None:
        """Return the reason why requests fail although decode workers are ready, or None if requests succeed."""
        if self.flow == "nixl" or any(worker.is_ready and worker.role != "decode" for worker in self._fleet):
            return None
        return "no prefill worker is ready"

    def bootstrap_port(self, worker: WorkerId) -> int:
        return self._bootstrap_ports.get(worker, BOOTSTRAP_PORT)

    def room(self) -> int:
        """Return a random room number (KV transfer id) for SGLang."""
        return self._rng.randrange(LARGEST_ROOM)

    def begin(self, half: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run *half* of a request in its own task, which ends or is canceled independently of the other half."""
        task = asyncio.get_running_loop().create_task(half)
        self._halves.add(task)
        task.add_done_callback(self._forget)
        return task

    def explain(self, explanation: Explanation, now: float) -> dict[str, Any]:
        """Return, as JSON values, where both halves of the request would go now, without any change of state."""
        request = self.prefill_request(explanation.request)
        candidates = self._fleet.prefill_candidates(request, now)
        order = admitting_first(self._strategies.named(self.strategy_of(request)).explain(request, candidates).order)
        decode = explanation.places[0].candidate if explanation.places else None
        ttft_s: float | None = None
        if order and decode is not None and decode.remote_tokens > 0.0 and self.by_load.pays(request, decode, order[0]):
            ttft_s = predicted_ttft_s(request, order[0]) + self.handover.seconds(decode.remote_tokens)
        least = float("inf") if decode is None else self.by_load.min_tokens(decode)
        return {
            "flow": self.flow,
            "divides": request.divides,
            "decode_worker": None if decode is None else decode.worker,
            "hops": ttft_s is not None,
            "predicted_ttft_s": None if ttft_s is None else round(ttft_s, 6),
            "min_uncached_tokens": None if least == float("inf") else round(least, 1),
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
        """Cancel the request halves that are still running."""
        halves = list(self._halves)
        for half in halves:
            half.cancel()
        if halves:
            await asyncio.wait(halves)

    def _forget(self, half: asyncio.Task[Any]) -> None:
        self._halves.discard(half)
        if not half.cancelled():
            half.exception()  # otherwise asyncio logs an exception that was never retrieved
