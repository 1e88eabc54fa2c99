"""Transfer computed prompts with llm-d's side-car, for requests that a server in front of the gateway sends.

The side-car stands in front of the decode worker. It reads the address of the prefill worker in a header of the
request, lets the prefill worker compute the prompt, and passes the request on. The gateway sends nothing to the prefill
worker, but holds a slot on it until the decode worker begins to answer.
"""

from gateway.backends.backend import Call
from gateway.backends.delivery import Delivery
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.sse import StreamObserver
from gateway.proxy.attempt import Attempt
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.prefill_workers import Asked, PrefillWorkers
from routing.candidate import Candidate


class SidecarTransfer:
    """Prompt transfer of one request. Implements `gateway.proxy.kv_transfer.kv_transfer.KvTransfer`."""

    def __init__(self, delivery: Delivery, prefills: PrefillWorkers, endpoint: Endpoint, exchange: Exchange) -> None:
        self._delivery = delivery
        self._prefills = prefills
        self._endpoint = endpoint
        self._exchange = exchange

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """Return the answer of the decode worker *decode*, whose side-car calls the prefill worker."""
        reserved = self._prefills.reserve(decode)
        if reserved is None:
            self._exchange.prefill = "here"
            return await asked(call, False)
        backend, slot = reserved
        self._delivery.prefill_at(backend)
        self._exchange.prefill = "remote"
        with slot:
            attempt = await asked(call, True)
            slot.began()
            slot.answered(None)
        return attempt

    def observer(self, *, strip_usage: bool, max_held: int) -> StreamObserver:  # noqa: ARG002  # nothing is held
        """Return an observer for the decode worker's stream (see `KvTransfer.observer`)."""
        return self._endpoint.observer(strip_usage=strip_usage)
