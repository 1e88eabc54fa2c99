"""EndpointSlices as workers."""

from typing import Any

import msgspec
import pytest

from gateway.workers.discovery.endpoints import ServiceSource, pod_id, workers_of
from gateway.workers.discovery.found import Found
from gateway.workers.kubernetes.objects import EndpointSlice
from tests.kubernetes_api import a_slice, an_endpoint

SERVICE = ServiceSource(name="vllm")
TWO_PORTS = ({"name": "http", "port": 8000}, {"name": "metrics", "port": 9000})


def found(*slices: dict[str, Any], service: ServiceSource = SERVICE) -> Found:
    return workers_of([msgspec.convert(each, EndpointSlice) for each in slices], service)


def urls(*slices: dict[str, Any], service: ServiceSource = SERVICE) -> list[str]:
    return [worker.url for worker in found(*slices, service=service).workers]


def test_an_endpoint_is_a_worker_called_as_its_pod() -> None:
    """With the identity of the pod, and its zone."""
    (worker,) = found(a_slice("s", an_endpoint("10.0.0.1", "a", uid="7", zone="z1"))).workers

    assert ("http://10.0.0.1:8000", "a", "7", "z1", False) == (
        *(worker.url, worker.id, worker.uid, worker.zone, worker.draining),
    )


def test_ranks_are_said_of_the_whole_service() -> None:
    (worker,) = found(a_slice("s", an_endpoint("10.0.0.1", "a")), service=ServiceSource(name="vllm", ranks=4)).workers

    assert 4 == worker.ranks


def test_where_no_pod_stands_behind_it_its_id_comes_from_the_address() -> None:
    """The id does not show the address."""
    (worker,) = found(a_slice("s", an_endpoint("10.0.0.1"))).workers

    assert ("worker-3a8c9b14", None, None) == (worker.id, worker.uid, worker.zone)


@pytest.mark.parametrize(
    ("conditions", "draining"),
    [
        ({}, False),  # no one knows: that is ready
        ({"ready": True}, False),
        ({"ready": None, "serving": None, "terminating": None}, False),
        ({"ready": False}, True),
        ({"ready": False, "serving": True, "terminating": True}, True),
        ({"ready": True, "terminating": True}, True),  # where publishNotReadyAddresses is set
    ],
)
def test_who_is_not_ready_or_is_to_end_drains(conditions: dict[str, Any], draining: bool) -> None:
    """It gets no requests, and what is known of it is kept."""
    (worker,) = found(a_slice("s", {"addresses": ["10.0.0.1"], "conditions": conditions})).workers

    assert draining == worker.draining


def test_all_slices_are_one_set() -> None:
    """In the order of their ids, anyone who comes first."""
    one, other = a_slice("s1", an_endpoint("10.0.0.2", "b")), a_slice("s2", an_endpoint("10.0.0.1", "a"))

    assert ["http://10.0.0.1:8000", "http://10.0.0.2:8000"] == urls(one, other) == urls(other, one)


def test_an_endpoint_in_two_slices_is_one_worker() -> None:
    """Slices overlap while they are split or merged."""
    assert 1 == len(urls(a_slice("s1", an_endpoint("10.0.0.1", "a")), a_slice("s2", an_endpoint("10.0.0.1", "a"))))


def test_an_address_belongs_to_the_pod_that_does_not_end() -> None:
    """Whatever the order in which they are notified."""
    old, new = an_endpoint("10.0.0.1", "old", terminating=True), an_endpoint("10.0.0.1", "new")

    assert [["new"], ["new"]] == [
        [worker.id for worker in found(a_slice("s", *each)).workers] for each in ((old, new), (new, old))
    ]


def test_a_pod_with_two_families_of_addresses_is_one_worker() -> None:
    """The IPv4 one; one that has none is reached by the other."""
    four = a_slice("s4", an_endpoint("10.0.0.1", "a"))
    six = a_slice("s6", an_endpoint("fd00::1", "a"), an_endpoint("fd00::2", "b"), family="IPv6")

    assert ["http://10.0.0.1:8000", "http://[fd00::2]:8000"] == urls(six, four)
    assert [] == urls(a_slice("s", an_endpoint("vllm.example.com"), family="FQDN"))


@pytest.mark.parametrize(
    ("wanted", "ports", "url"),
    [
        ("http", TWO_PORTS, "http://10.0.0.1:8000"),
        ("9000", TWO_PORTS, "http://10.0.0.1:9000"),
        ("8001", None, "http://10.0.0.1:8001"),  # null: all ports
        (None, ({"port": 1}, {"port": 2, "protocol": "UDP"}), "http://10.0.0.1:1"),
        (None, ({"port": 1, "appProtocol": "HTTPS"},), "https://10.0.0.1:1"),
        (None, ({"port": 1, "appProtocol": "kubernetes.io/h2c"},), "http://10.0.0.1:1"),
    ],
)
def test_the_port_is_the_one_that_is_wanted(wanted: str | None, ports: Any, url: str) -> None:
    """A name or a number selects it, or it is the only one."""
    service = ServiceSource(name="vllm", port=wanted)

    assert [url] == urls(a_slice("s", an_endpoint("10.0.0.1"), ports=ports), service=service)


@pytest.mark.parametrize(
    ("wanted", "ports", "why"),
    [
        (None, TWO_PORTS, "it has several ports; set the one to use"),
        (None, (), "it has no port"),
        ("grpc", TWO_PORTS, "it has no port grpc"),
    ],
)
def test_why_no_port_fits_is_reported(wanted: str | None, ports: Any, why: str) -> None:
    """No one is made up."""
    service = ServiceSource(name="vllm", port=wanted)

    assert Found((), (f"service vllm: {why}, see its EndpointSlice s.",)) == found(
        a_slice("s", an_endpoint("10.0.0.1"), ports=ports), service=service
    )
    assert Found() == found(a_slice("s", ports=ports), service=service)


def test_an_endpoint_without_an_address_is_no_one() -> None:
    assert [] == urls(a_slice("s", {"addresses": [], "conditions": {}}))


def test_a_pod_of_another_namespace_has_that_in_its_id() -> None:
    """Two namespaces may have a pod of one name."""
    service = ServiceSource(name="vllm", namespace="models")

    assert ["models/a"] == [
        worker.id for worker in found(a_slice("s", an_endpoint("10.0.0.1", "a")), service=service).workers
    ]
    assert "a" == pod_id("a", None)
