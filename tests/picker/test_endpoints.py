"""The endpoints from which the picker chooses: the cases of the conformance tests that concern a picker.

The conformance tests of the Gateway API Inference Extension need a cluster. These tests, and those of
`test_failures` and `test_pools`, play the same cases against a real Envoy. Their docstrings begin with the name of the
conformance test.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.kubernetes_api import a_pod, a_pool, kubernetes_api
from tests.picker.configuration import BodyMode, Pool
from tests.picker.rig import Rig, before, picker, requests_of, rig, simulated

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES: tuple[BodyMode, ...] = ("FULL_DUPLEX_STREAMED", "BUFFERED")
SELECTION = "test-epp-endpoint-selection"
SERVED = "x-conformance-test-served-endpoint"
SELECTED = "x-conformance-test-selected-endpoint"
REQUESTS = 10
NOWHERE = "127.0.0.1:1"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with rig(tmp_path_factory.mktemp("rig"), body_mode=request.param, conformance=True) as running:
        yield running


async def served(there: Rig, headers: Mapping[str, str] | None = None, *, count: int = REQUESTS) -> set[str]:
    """Return the endpoints that answer *count* requests with *headers*, according to Envoy."""
    answers = [await there.chat(f"request {number}", headers=headers) for number in range(count)]
    assert {200} == {answer.status_code for answer in answers}, answers[0].text
    return {answer.headers[SERVED] for answer in answers}


async def test_all_requests_go_to_the_endpoint_that_a_header_names(there: Rig) -> None:
    """GatewayFollowingEPPRouting: one designated pod."""
    for worker in there.workers:
        before_ = await there.served()
        assert {worker} == await served(there, {SELECTION: worker})
        after = await there.served()
        assert {worker: REQUESTS} == {
            each: after[each] - before_[each] for each in after if after[each] != before_[each]
        }


async def test_requests_go_to_two_of_three_endpoints(there: Rig) -> None:
    """GatewayFollowingEPPRouting: two designated pods."""
    two = there.workers[:2]

    assert await served(there, {SELECTION: ",".join(two)}) <= {*two}


async def test_requests_go_to_all_endpoints_that_a_header_names(there: Rig) -> None:
    """GatewayFollowingEPPRouting: all available pods. An address without a port means all ports of a pod."""
    assert await served(there, {SELECTION: ",".join(there.workers)}) <= {*there.workers}
    assert await served(there, {SELECTION: "127.0.0.1"}) <= {*there.workers}


async def test_an_address_that_no_endpoint_has_is_status_503(there: Rig) -> None:
    """GatewayFollowingEPPRouting: an address that no pod has. The status is that of a subset without endpoints."""
    answer = await there.chat(headers={SELECTION: "256.256.256.256"})

    assert 503 == answer.status_code


async def test_the_endpoint_that_has_answered_is_reported(there: Rig) -> None:
    """GatewayDestinationEndpointServed: the worker that has read the request, by the metadata of Envoy. It is the
    chosen one, because no request was repeated.
    """
    for number in range(REQUESTS):
        text = f"which of them, number {number}"
        answer = await there.chat(text)

        assert 200 == answer.status_code, answer.text
        assert await there.holders(text) == [answer.headers[SERVED]] == [answer.headers[SELECTED]]


async def test_without_a_header_any_endpoint_may_answer(there: Rig) -> None:
    assert await served(there) <= {*there.workers}


@pytest.mark.parametrize("header", ["x-test-subset", "x-test-subset-list"])
async def test_only_endpoints_of_the_subset_are_picked(there: Rig, header: str) -> None:
    """A subset is one string with commas, or a list; endpoints that are not workers do not matter."""
    one, two, three = there.workers

    assert {two} == await served(there, {header: two})
    assert await served(there, {header: f"{NOWHERE},{one},{three}"}) <= {one, three}


@pytest.mark.parametrize(
    ("header", "subset"),
    [("x-test-subset", ""), ("x-test-subset", ","), ("x-test-subset", NOWHERE), ("x-test-subset-list", NOWHERE)],
)
async def test_without_an_endpoint_in_the_subset_the_answer_is_503(there: Rig, header: str, subset: str) -> None:
    """An empty subset accepts no endpoint, instead of all."""
    total = sum((await there.served()).values())
    answer = await there.chat(headers={header: subset})

    assert 503 == answer.status_code
    assert {"message", "type", "param", "code"} <= answer.json()["error"].keys()
    assert total == sum((await there.served()).values())


@pytest.mark.parametrize("count", [1, 2])
async def test_a_pool_may_have_fewer_endpoints(count: int, tmp_path: Path) -> None:
    async with rig(tmp_path, count, conformance=True) as there:
        assert await served(there) <= {*there.workers}
        for worker in there.workers:
            assert {worker} == await served(there, {SELECTION: worker}, count=3)


async def test_each_port_of_a_pod_in_a_pool_is_an_endpoint(tmp_path: Path) -> None:
    """GatewayFollowingEPPRoutingWithDataParallelism: two pods with three target ports each, found by their
    InferencePool. A header or a subset names a pod with all its ports, or with some.
    """
    async with AsyncExitStack() as exits:
        first = await exits.enter_async_context(simulated(3))
        ports = [int(endpoint.rpartition(":")[2]) for endpoint in first]
        for port in ports:
            await exits.enter_async_context(serving(SimulatorOptions(host="127.0.0.2", port=port, speed=0)))
        endpoints = [*first, *(f"127.0.0.2:{port}" for port in ports)]
        pods = a_pod("a", "127.0.0.1"), a_pod("b", "127.0.0.2")
        api = await exits.enter_async_context(kubernetes_api(a_pool("llama", *ports), *pods))
        model, kubernetes = {"inference_pool": {"name": "llama"}}, {"api_url": api.url, "namespace": "default"}
        started = picker(tmp_path, [], conformance=True, model=model, kubernetes=kubernetes)
        one = await exits.enter_async_context(started)
        await one.until_up(6)
        there = await exits.enter_async_context(before([Pool(one.address, endpoints)], [one], endpoints))
        for endpoint in endpoints:
            assert {endpoint} == await served(there, {SELECTION: endpoint}, count=3)
        assert await served(there, {SELECTION: "127.0.0.2"}) <= {*endpoints[3:]}
        some = f"127.0.0.1,{endpoints[4]},{endpoints[5]}"
        assert await served(there, {SELECTION: some}) <= {*endpoints[:3], *endpoints[4:]}
        assert await served(there, {"x-test-subset-list": some, SELECTION: "127.0.0.2"}) <= {*endpoints[4:]}
        subset = {endpoints[0], endpoints[4]}
        assert await served(there, {"x-test-subset": ",".join(sorted(subset))}) <= subset


@pytest.mark.parametrize("mode", MODES)
async def test_ranks_at_one_address_are_named_by_a_header(mode: BodyMode, tmp_path: Path) -> None:
    """Envoy sends the requests of all ranks to one endpoint. The picker sets the rank, and callers cannot."""
    async with AsyncExitStack() as exits:
        [worker] = await exits.enter_async_context(simulated(1, ranks=3))
        model = {"strategy": "round_robin", "workers": [{"id": "gpu", "url": f"http://{worker}", "ranks": 3}]}
        one = await exits.enter_async_context(picker(tmp_path, [], model=model))
        await one.until_up(3)
        there = await exits.enter_async_context(before([Pool(one.address, [worker], body_mode=mode)], [one], [worker]))
        answers = [await there.chat(f"request {number}", headers={"x-data-parallel-rank": "9"}) for number in range(6)]
        headers = [each["headers"] for each in await requests_of(worker)]

    named = [answer.headers["x-warmgate-worker"] for answer in answers]
    assert {"gpu#0": 2, "gpu#1": 2, "gpu#2": 2} == Counter(named)
    ranks = [[value for name, value in each if name == "x-data-parallel-rank"] for each in headers]
    assert [[name[-1]] for name in named] == ranks
