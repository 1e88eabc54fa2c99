"""Two pools, each with a picker of its own, and endpoints that speak HTTP/2."""

from contextlib import AsyncExitStack
from pathlib import Path

from tests.picker.configuration import Pool, forwarding
from tests.picker.envoy import envoy
from tests.picker.rig import before, picker, simulated


async def test_envoy_may_call_the_picker_over_tls(tmp_path: Path) -> None:
    """With any certificate, as gateways of the Gateway API Inference Extension do. The health check uses TLS too."""
    async with (
        simulated(2) as workers,
        picker(tmp_path, workers) as one,
        before([Pool(one.address, workers, has_tls=True)], [one], workers) as there,
    ):
        answers = [await there.chat(), await there.chat(stream=True)]
        encrypted = await there.envoy.counter("cluster.picker-of-pool.ssl.handshake")

    assert [200, 200] == [answer.status_code for answer in answers]
    assert 1 <= encrypted


async def test_two_pools_share_requests_by_weight(tmp_path: Path) -> None:
    """GatewayWeightedAcrossTwoInferencePools: each request goes to an endpoint that the picker of its pool has
    named.
    """
    async with (
        simulated(2) as left,
        simulated(2) as right,
        picker(tmp_path, left, name="left", conformance=True) as of_left,
        picker(tmp_path, right, name="right", conformance=True) as of_right,
    ):
        pools = [
            Pool(of_left.address, left, name="left", weight=3),
            Pool(of_right.address, right, name="right", weight=1, body_mode="BUFFERED"),
        ]
        async with before(pools, [of_left, of_right], [*left, *right]) as there:
            answers = [await there.chat(f"request {number}") for number in range(160)]
            served = await there.served()
            named = [answer.headers["x-conformance-test-served-endpoint"] for answer in answers]

    assert {200} == {answer.status_code for answer in answers}
    assert served == {worker: named.count(worker) for worker in served}
    # By chance, three of four on average: 120 of 160. One in a million runs is below 92 or above 146.
    assert 92 <= sum(served[worker] for worker in left) <= 146


async def test_endpoints_may_speak_http_2(tmp_path: Path) -> None:
    """InferencePoolAppProtocol: Envoy then speaks h2c to them. The picker itself asks for their health and metrics
    by HTTP/1.1.
    """
    async with simulated(2) as workers, AsyncExitStack() as exits:
        endpoints = []
        for worker in workers:
            translating = await exits.enter_async_context(envoy(forwarding(worker, to_http2=False)))
            endpoints.append(translating.address)
        one = await exits.enter_async_context(picker(tmp_path, endpoints))
        pool = Pool(one.address, endpoints, speaks_http2=True)
        there = await exits.enter_async_context(before([pool], [one], workers))
        answer = await there.chat()
        streamed = await there.chat(stream=True)
        connections = await there.envoy.counter("cluster.pool.upstream_cx_http2_total")

    assert [200, 200] == [answer.status_code, streamed.status_code]
    assert 1 <= connections
