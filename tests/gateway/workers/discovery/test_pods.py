"""Pods as workers."""

from typing import Any

import msgspec
import pytest

from gateway.workers.discovery.found import Found
from gateway.workers.discovery.pods import PodsSource, workers_among
from gateway.workers.kubernetes.objects import Pod
from gateway.workers.worker_spec import EventsSpec, WorkerSpec
from tests.kubernetes_api import a_pod

WANTED = PodsSource(selector="app=vllm")
TWO_PORTS = ({"name": "http", "containerPort": 8000}, {"name": "metrics", "containerPort": 9000})


def found(*pods: dict[str, Any], wanted: PodsSource = WANTED) -> Found:
    return workers_among([msgspec.convert(pod, Pod) for pod in pods], wanted)


def only(pod: dict[str, Any], wanted: PodsSource = WANTED) -> WorkerSpec:
    (worker,) = found(pod, wanted=wanted).workers
    return worker


def test_a_pod_is_a_worker() -> None:
    """With its identity, and its zone where the cluster copies that."""
    pod = a_pod("a", "10.0.0.1", uid="7", labels={"topology.kubernetes.io/zone": "z1"})

    assert WorkerSpec(url="http://10.0.0.1:8000", id="a", uid="7", zone="z1") == only(pod)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("a", None),  # pending, or evicted: production-stack #1008
        a_pod("a", "10.0.0.1", phase="Failed"),
        a_pod("a", "10.0.0.1", phase="Succeeded"),
    ],
)
def test_a_pod_that_cannot_be_asked_is_not_one(pod: dict[str, Any]) -> None:
    assert Found() == found(pod)


@pytest.mark.parametrize("more", [{"ready": False}, {"deleted": True}])
def test_who_is_not_ready_or_is_to_end_drains(more: dict[str, Any]) -> None:
    """A deletion is known as soon as it is asked for."""
    assert only(a_pod("a", "10.0.0.1", **more)).draining
    assert not only(a_pod("a", "10.0.0.1")).draining


def test_annotations_report_event_ports_ranks_and_tier() -> None:
    """A label does too."""
    events = {"warmgate/kv-events-port": "5557", "warmgate/kv-replay-port": "5600", "warmgate/dp-size": "4"}
    worker = only(a_pod("a", "fd00::1", annotations=events, labels={"warmgate/tier": "1"}))

    assert 1 == worker.tier
    assert (
        EventsSpec(endpoint="tcp://[fd00::1]:5557", replay_endpoint="tcp://[fd00::1]:5600", ranks=4) == worker.kv_events
    )
    assert 4 == worker.ranks


def test_without_a_port_for_events_the_engine_is_asked() -> None:
    worker = only(a_pod("a", "10.0.0.1", annotations={"warmgate/dp-size": "4"}))

    assert (None, 4) == (worker.kv_events, worker.ranks)


def test_a_pod_may_have_its_engine_asked_how_many_ranks_it_has() -> None:
    """Then of its events only the ports of the first are known."""
    annotations = {"warmgate/dp-size": "0", "warmgate/kv-events-port": "5557"}
    worker = only(a_pod("a", "10.0.0.1", annotations=annotations))

    assert (0, EventsSpec(endpoint="tcp://10.0.0.1:5557")) == (worker.ranks, worker.kv_events)


@pytest.mark.parametrize("text", ["", "x", "-1", "100", "1.5", "²"])
def test_an_annotation_that_is_no_good_counts_as_not_given(text: str) -> None:
    """The operator is notified; the pod serves all the same."""
    pods = found(a_pod("a", "10.0.0.1", annotations={"warmgate/tier": text}))

    assert [0] == [worker.tier for worker in pods.workers]
    assert ("pod a: warmgate/tier must be a number from 0 to 99.",) == pods.sentences


@pytest.mark.parametrize(("wanted", "port"), [("http", 8000), ("metrics", 9000), ("7000", 7000)])
def test_the_port_is_the_one_that_is_wanted(wanted: str, port: int) -> None:
    """A number may be one that the container does not name."""
    settings = PodsSource(selector="app=vllm", port=wanted)

    assert f"http://10.0.0.1:{port}" == only(a_pod("a", "10.0.0.1", ports=TWO_PORTS), settings).url


@pytest.mark.parametrize(
    ("wanted", "ports", "why"),
    [
        (None, TWO_PORTS, "it has several ports; set the one to use"),
        (None, (), "it has no port"),
        ("grpc", TWO_PORTS, "it has no port grpc"),
    ],
)
def test_why_no_port_fits_is_reported(wanted: str | None, ports: Any, why: str) -> None:
    """The other pods are taken."""
    wanted_ports = PodsSource(selector="app=vllm", port=wanted)

    assert Found((), (f"pod a: {why}.",)) == found(a_pod("a", "10.0.0.1", ports=ports), wanted=wanted_ports)


def test_annotations_tell_what_half_of_a_request_a_pod_does() -> None:
    """Labels count as well: Deployments of either half have them anyway."""
    port = {"warmgate/bootstrap-port": "9000"}
    prefill = only(a_pod("a", "10.0.0.1", annotations=port, labels={"warmgate/role": "prefill"}))

    assert ("prefill", 9000) == (prefill.role, prefill.bootstrap_port)
    assert ("both", None) == (only(a_pod("a", "10.0.0.1")).role, only(a_pod("a", "10.0.0.1")).bootstrap_port)


def test_a_role_that_is_not_one_is_reported_and_counts_as_not_given() -> None:
    pods = found(a_pod("a", "10.0.0.1", labels={"warmgate/role": "encode"}))

    assert ("both",) == tuple(worker.role for worker in pods.workers)
    assert ("pod a: warmgate/role must be prefill, decode or both.",) == pods.sentences
