"""Envoy knows its endpoints by IP address and port."""

import pytest

from cache_index import WorkerId
from gateway.picker.destinations import KEPT_S, Destinations
from gateway.protocol.errors import ConnectFailed
from tests.gateway.examples import Clock
from tests.gateway.picker.envoy import At


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "endpoint"),
        [("10.0.0.1:8000", "10.0.0.1:8000"), ("10.0.0.1", "10.0.0.1:80"), ("[fd00::0:1]:8000", "[fd00::1]:8000")],
    )
    async def test_an_address_needs_no_resolving(self, address: str, endpoint: str) -> None:
        destinations = Destinations(Clock())

        assert (endpoint, endpoint) == (destinations.known(At(address)), await destinations.of(At(address)))

    async def test_a_name_is_resolved_and_kept(self) -> None:
        clock = Clock()
        destinations, worker = Destinations(clock), At("localhost:8000")
        assert destinations.known(worker) is None
        await destinations.resolve([worker.url])
        found = destinations.known(worker)

        assert found in {"127.0.0.1:8000", "[::1]:8000"}
        assert found == await destinations.of(worker)
        clock.now += KEPT_S + 1.0
        assert destinations.known(worker) is None

    async def test_an_unknown_name_fails_when_its_worker_is_chosen(self) -> None:
        destinations, worker = Destinations(Clock()), At("no-such-host.invalid:8000")
        await destinations.resolve([worker.url])

        with pytest.raises(ConnectFailed, match=r"'no-such-host\.invalid'"):
            await destinations.of(worker)


async def test_an_endpoint_stands_for_one_worker() -> None:
    """Ranks at one address cannot be distinguished."""
    a, b, c = WorkerId("a"), WorkerId("b"), WorkerId("c")
    workers = {a: At("10.0.0.1:1"), b: At("10.0.0.2:1"), c: At("10.0.0.2:1")}
    destinations = Destinations(Clock())

    assert [a, None, None] == [destinations.worker_at(f"10.0.0.{n}:1", workers) for n in (1, 2, 3)]
