"""InferencePools and their pods as workers."""

from typing import Any

import msgspec
import pytest

from gateway.workers.discovery.found import Found
from gateway.workers.discovery.inference_pool import PoolSource, workers_in
from gateway.workers.kubernetes.objects import InferencePool, Pod
from gateway.workers.worker_spec import EventsSpec, WorkerSpec
from tests.kubernetes_api import a_pod, a_pool


def found(pool: dict[str, Any] | None, *pods: dict[str, Any], namespace: str | None = None) -> Found:
    pools = [] if pool is None else [msgspec.convert(pool, InferencePool)]
    objects: list[InferencePool | Pod] = [*pools, *(msgspec.convert(pod, Pod) for pod in pods)]
    return workers_in(objects, PoolSource("llama", namespace))


def test_a_pod_is_a_worker_at_the_target_port() -> None:
    """The ports of the container do not matter."""
    pods = a_pod("a", "10.0.0.1", uid="7"), a_pod("b", "10.0.0.2", ready=False)

    assert Found(
        (
            WorkerSpec(url="http://10.0.0.1:9000", id="a", uid="7"),
            WorkerSpec(url="http://10.0.0.2:9000", id="b", uid="uid-of-b", draining=True),
        )
    ) == found(a_pool("llama", 9000), *pods)


def test_each_target_port_is_a_data_parallel_rank() -> None:
    """Each rank publishes KV events at the port after that of the rank before it."""
    events = {"warmgate/kv-events-port": "5557", "warmgate/kv-replay-port": "5600", "warmgate/dp-size": "2"}
    pods = found(a_pool("llama", 3000, 3002), a_pod("a", "10.0.0.1", annotations=events), namespace="models")

    assert [
        ("models/a-rank-0", "http://10.0.0.1:3000", 1, EventsSpec("tcp://10.0.0.1:5557", "tcp://10.0.0.1:5600")),
        ("models/a-rank-1", "http://10.0.0.1:3002", 1, EventsSpec("tcp://10.0.0.1:5558", "tcp://10.0.0.1:5601")),
    ] == [(worker.id, worker.url, worker.ranks, worker.kv_events) for worker in pods.workers]


def test_one_target_port_may_serve_several_ranks() -> None:
    (worker,) = found(a_pool("llama", 8000), a_pod("a", "10.0.0.1", annotations={"warmgate/dp-size": "4"})).workers

    assert ("a", 4) == (worker.id, worker.ranks)


def test_an_invalid_annotation_is_reported_once() -> None:
    pods = found(a_pool("llama", 1, 2), a_pod("a", "10.0.0.1", annotations={"warmgate/kv-events-port": "x"}))

    assert ("pod a: warmgate/kv-events-port must be a number from 1 to 65535.",) == pods.sentences


def test_without_the_pool_there_are_no_workers() -> None:
    assert Found() == found(None, a_pod("a", "10.0.0.1"))


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        (a_pool("llama"), "it has no target ports"),
        (a_pool("llama", 8000, labels={}), "it has no labels in its selector"),
    ],
)
def test_an_unusable_pool_is_reported(pool: dict[str, Any], why: str) -> None:
    assert Found((), (f"InferencePool llama: {why}.",)) == found(pool, a_pod("a", "10.0.0.1"))


def test_http_2_is_reported_because_the_gateway_does_not_speak_it() -> None:
    """The pods are workers all the same: engines also answer HTTP/1.1."""
    pods = found(a_pool("llama", 8000, protocol="kubernetes.io/h2c"), a_pod("a", "10.0.0.1"))

    assert ["a"] == [worker.id for worker in pods.workers]
    assert (
        "InferencePool llama: its appProtocol is kubernetes.io/h2c, but Warmgate itself uses HTTP/1.1.",
    ) == pods.sentences
    assert () == found(a_pool("llama", 8000, protocol="http"), a_pod("a", "10.0.0.1")).sentences
