"""Interface for the transfer of a computed prompt to the worker that answers, and the choice of its implementation."""

from collections.abc import Callable
from typing import Protocol

from gateway.backends.backend import Call
from gateway.models.model import Model
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.sse import StreamObserver
from gateway.proxy.attempt import Attempt
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.bootstrap import BootstrapTransfer
from gateway.proxy.kv_transfer.nixl import NixlTransfer
from gateway.proxy.kv_transfer.prefill_workers import Asked, PrefillWorkers
from gateway.proxy.kv_transfer.sidecar import SidecarTransfer
from gateway.proxy.retry_policy import RetryPolicy
from routing.candidate import Candidate
from routing.request import Request


class KvTransfer(Protocol):
    """Prompt transfers of one request: one for each decode worker, and another for each prefill worker that fails."""

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """Return the answer to *call* from the worker *decode*, which fetches the computed prompt.

        The function *asked*, which sends a request to the decode worker, may be called more than once.

        Raises:
            UpstreamError: if *asked* raises it, or no prefill worker computes the prompt (`PrefillFailed`).
        """
        ...

    def observer(self, *, strip_usage: bool, max_held: int) -> StreamObserver:
        """Return an observer for the decode worker's stream that reports the prefill worker's cached tokens."""
        ...


def kv_transfer_for(
    model: Model,
    plan: PrefillDecodePlan,
    request: Request,
    endpoint: Endpoint,
    exchange: Exchange,
    *,
    retry_policy: RetryPolicy,
    clock: Callable[[], float],
) -> KvTransfer:
    """Return the object that transfers the prompt of *request* with the protocol that *plan* names."""
    prefills = PrefillWorkers(model, plan, request, exchange, retry_policy=retry_policy, clock=clock)
    if exchange.delivery is not None:
        return SidecarTransfer(exchange.delivery, prefills, endpoint, exchange)
    if plan.flow == "sglang":
        return BootstrapTransfer(plan, prefills, endpoint, exchange)
    return NixlTransfer(plan, prefills, endpoint, exchange, clock=clock)
