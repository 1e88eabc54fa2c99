"""The chart in the mode ``picker``: pods that Envoy asks, and the InferencePool that names them."""

from typing import Any

import pytest
from helm_python import HelmError

from tests.deploy.chart import Release, install, tiny

ENVOY = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "envoy-gateway-system"}}}]
VALUES = tiny(
    mode="picker",
    config={"models": [{"name": "llama-70b", "inference_pool": {"name": "vllm-llama-70b"}}]},
    inferencePool={
        "create": True,
        "name": "vllm-llama-70b",
        "selector": {"app": "vllm", "model": "llama-70b"},
        "targetPorts": [8000, 8001],
        "appProtocol": "http",
        "failureMode": "FailOpen",
    },
    valkey={"enabled": True},
    httpRoute={"enabled": True, "parentRefs": [{"name": "inference"}]},
    networkPolicy={"enabled": True, "enginePorts": [8000, 8001], "from": ENVOY},
)
POOL = {"create": True, "selector": {"app": "vllm"}}


@pytest.fixture(scope="module")
def release() -> Release:
    return install(VALUES)


def test_pods_run_the_picker_and_listen_to_envoy(release: Release) -> None:
    """On all interfaces, with the HTTP server for probes, metrics and administrators beside."""
    assert ["picker", "--config", "/etc/warmgate/warmgate.yaml"] == release.container["args"]
    assert {"http": 8080, "metrics": 8082, "grpc-picker": 9002} == release.ports
    assert "0.0.0.0:9002" == release.config["picker"]["listen"]


def test_the_address_follows_from_the_settings() -> None:
    every = install(tiny(mode="picker", config={"server": {"host": "::"}}))

    assert "[::]:9002" == every.config["picker"]["listen"]


def test_a_picker_is_alive_if_its_grpc_server_answers_and_ready_if_it_knows_its_workers(release: Release) -> None:
    alive = {"port": 9002, "service": "liveness"}

    assert alive == release.container["startupProbe"]["grpc"] == release.container["livenessProbe"]["grpc"]
    assert {"path": "/readyz", "port": "metrics"} == release.container["readinessProbe"]["httpGet"]


def test_the_pool_names_the_service_and_the_port_of_the_picker(release: Release) -> None:
    (service,) = (each for each in release.of("Service") if each["metadata"]["name"] == "warmgate")
    (port,) = (each for each in service["spec"]["ports"] if each["name"] == "grpc-picker")

    assert (9002, "grpc-picker", "kubernetes.io/h2c") == (port["port"], port["targetPort"], port["appProtocol"])
    assert {
        "selector": {"matchLabels": {"app": "vllm", "model": "llama-70b"}},
        "targetPorts": [{"number": 8000}, {"number": 8001}],
        "appProtocol": "http",
        "endpointPickerRef": {"name": "warmgate", "port": {"number": 9002}, "failureMode": "FailOpen"},
    } == release.one("InferencePool")["spec"]
    assert "vllm-llama-70b" == release.one("InferencePool")["metadata"]["name"]


def test_the_route_leads_to_the_pool(release: Release) -> None:
    (rule,) = release.one("HTTPRoute")["spec"]["rules"]

    assert [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "vllm-llama-70b"}] == rule[
        "backendRefs"
    ]


def test_a_picker_may_read_the_pool_and_its_pods(release: Release) -> None:
    rules = {tuple(rule["apiGroups"]): (rule["resources"], rule["verbs"]) for rule in release.one("Role")["rules"]}

    assert {
        ("",): (["pods"], ["get", "list", "watch"]),
        ("inference.networking.k8s.io",): (["inferencepools"], ["get", "list", "watch"]),
    } == rules


def test_envoy_reaches_the_port_of_the_picker(release: Release) -> None:
    (policy,) = (each for each in release.of("NetworkPolicy") if each["metadata"]["name"] == "warmgate")
    (rule,) = (each for each in policy["spec"]["ingress"] if {"port": 9002, "protocol": "TCP"} in each["ports"])

    assert ENVOY == rule["from"]


def test_replicas_survive_the_end_of_a_node(release: Release) -> None:
    """They share their state by Redis, and one at a time is evicted."""
    assert 1 == release.one("PodDisruptionBudget")["spec"]["maxUnavailable"]
    assert 2 == release.one("Deployment")["spec"]["replicas"]
    assert 2 == release.config["store"]["replicas"]


def test_a_proxy_has_neither_port_nor_pool() -> None:
    release = install(tiny())

    assert "grpc-picker" not in release.ports
    assert [] == release.of("InferencePool")
    assert "picker" not in release.config


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"mode": "gateway"}, "/mode"),
        ({"inferencePool": POOL}, r"inferencePool\.create requires mode picker"),
        ({"mode": "picker", "inferencePool": {"create": True}}, r"inferencePool\.selector is empty"),
        (
            {"mode": "picker", "inferencePool": {**POOL, "targetPorts": list(range(1, 10))}},
            "/inferencePool/targetPorts",
        ),
        ({"mode": "picker", "inferencePool": {**POOL, "failureMode": "open"}}, "/inferencePool/failureMode"),
        ({"mode": "picker", "ingress": {"enabled": True}}, r"ingress\.enabled cannot be combined with mode picker"),
        ({"mode": "picker", "config": {"server": {"port": 9002}}}, "config uses port 9002 twice"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], reported: str) -> None:
    with pytest.raises(HelmError, match=f"(?s){reported}"):
        install(tiny(**values))
