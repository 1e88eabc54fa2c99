"""llm-d's side-car transfers the prompt, if a server in front of the gateway sends the request."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from cache_index import WorkerId
from gateway.backends.backend import Backend, WorkerBackend
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError, UpstreamRefused
from gateway.proxy.kv_transfer.kv_transfer import kv_transfer_for
from gateway.proxy.kv_transfer.sidecar import SidecarTransfer
from gateway.proxy.retry_policy import RetryPolicy
from tests.fakes.backends import Answers
from tests.gateway.examples import HELLO, an_exchange
from tests.gateway.proxy.kv_transfer.examples import FETCHED, DividedModel, Trial, divided_request

pytestmark = pytest.mark.interpreted


class Sends:
    """Delivery that sends the request itself, and remembers the prefill worker."""

    shows_answers = True
    may_begin = False
    wants_costs = False

    def __init__(self) -> None:
        self.prefills: list[str] = []

    async def begin(self, *_: object) -> None:
        pass

    def allowed(self, _: Mapping[WorkerId, WorkerBackend]) -> frozenset[WorkerId] | None:
        return None

    def to(
        self, worker: WorkerBackend, _others: Sequence[WorkerBackend], _on_served: Callable[[WorkerId], None]
    ) -> Backend:
        return worker

    def note_costs(self, costs_s: Mapping[WorkerId, float]) -> None:
        pass

    def status_of(self, error: GatewayError) -> int:
        return error.status

    def prefill_at(self, worker: WorkerBackend) -> None:
        self.prefills.append(worker.id)


async def test_the_prefill_worker_is_named_and_gets_no_request() -> None:
    """It holds a slot until the answer begins."""
    prefill, decode, delivery = Answers(), Answers(200, FETCHED), Sends()
    trial = Trial(DividedModel(prefill, decode=(decode,)))
    trial.exchange.delivery = delivery

    assert FETCHED == await trial.run()
    assert (["a"], 0, 1) == (delivery.prefills, len(prefill.calls), len(decode.calls))
    assert ("remote", "a", "b") == (trial.exchange.prefill, trial.exchange.prefill_worker, trial.exchange.backend)
    assert {"a": 0, "b": 0} == trial.divided.in_flight()


async def test_without_a_prefill_worker_the_decode_worker_computes() -> None:
    divided, delivery = DividedModel(Answers()), Sends()
    divided.fleet.set_up(WorkerId("a"), up=False)
    trial = Trial(divided)
    trial.exchange.delivery = delivery

    assert FETCHED == await trial.run()
    assert ([], "here", None) == (delivery.prefills, trial.exchange.prefill, trial.exchange.prefill_worker)


async def test_a_failed_request_holds_no_slot() -> None:
    """No other worker is tried, because the request was sent."""
    decodes = Answers(503), Answers(503)
    divided = DividedModel(Answers(), decode=decodes)
    trial = Trial(divided)
    trial.exchange.delivery = Sends()
    with pytest.raises(UpstreamRefused, match="answered 503"):
        await trial.run()

    assert 1 == sum(len(worker.calls) for worker in decodes)
    assert {"a": 0, "b": 0, "c": 0} == divided.in_flight()


def test_a_stream_passes_as_it_is() -> None:
    divided, exchange = DividedModel(Answers()), an_exchange()
    exchange.delivery = Sends()
    transfer = kv_transfer_for(
        divided.model,
        divided.prefill_decode,
        divided_request(),
        ENDPOINTS["/v1/chat/completions"],
        exchange,
        retry_policy=RetryPolicy(),
        clock=divided.clock,
    )

    assert isinstance(transfer, SidecarTransfer)
    assert HELLO == transfer.observer(strip_usage=True, max_held=1).feed(HELLO)
