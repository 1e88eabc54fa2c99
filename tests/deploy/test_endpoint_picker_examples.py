"""The examples of endpoint pickers name the same Services, ports and workers as the chart that they are used with."""

from typing import Any

import pytest
import yaml

from tests.deploy import schemas
from tests.deploy.chart import Manifest, Release, install, values_of
from tests.deploy.test_examples import EXAMPLES, TEAM

FOLDER = EXAMPLES / "endpoint-picker"
MANIFESTS = ("envoy-gateway.yaml", "istio.yaml", "kgateway.yaml")
DESTINATION = "x-gateway-destination-endpoint"


def manifests(name: str) -> list[Manifest]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def one(kind: str, name: str = "envoy-gateway.yaml") -> Any:
    (found,) = (each for each in manifests(name) if each["kind"] == kind)
    return found


@pytest.fixture(scope="module")
def release() -> Release:
    values = values_of(FOLDER / "envoy-gateway-values.yaml")
    return install({**TEAM, **values, "config": {**TEAM["config"], **values["config"]}})


def test_kubernetes_takes_the_manifests(release: Release) -> None:
    own = [each for each in manifests("envoy-gateway.yaml") if each["kind"] == "Service"]

    schemas.check([*release.manifests, *own], schemas.VERSIONS[0])


def test_all_objects_are_in_the_namespace_of_the_picker() -> None:
    assert {"llm"} == {each["metadata"]["namespace"] for name in MANIFESTS for each in manifests(name)}


def test_envoy_gateway_asks_the_service_of_the_chart(release: Release) -> None:
    (processor,) = one("EnvoyExtensionPolicy")["spec"]["extProc"]
    (service,) = (each for each in release.of("Service") if each["metadata"]["name"] == "warmgate")
    (port,) = (each["port"] for each in service["spec"]["ports"] if each["name"] == "grpc-picker")

    assert [{"name": "warmgate", "port": port}] == processor["backendRefs"]
    assert {"FullDuplexStreamed"} == {mode["body"] for mode in processor["processingMode"].values()}
    assert "readiness" == processor["backendSettings"]["healthCheck"]["active"]["grpc"]["service"]


def test_envoy_gateway_sends_requests_to_the_workers_of_the_picker(release: Release) -> None:
    service, route = one("Service"), one("HTTPRoute")
    (model,) = release.settings.models
    (rule,) = route["spec"]["rules"]
    (port,) = service["spec"]["ports"]

    assert model.service is not None
    assert (service["metadata"]["name"], port["name"]) == (model.service.name, model.service.port)
    assert [{"name": model.service.name, "port": port["port"]}] == rule["backendRefs"]
    assert [{"header": DESTINATION}] == one("BackendTrafficPolicy")["spec"]["loadBalancer"]["endpointOverride"][
        "extractFrom"
    ]


def test_policies_belong_to_the_route() -> None:
    route = one("HTTPRoute")["metadata"]["name"]

    for kind in ("EnvoyExtensionPolicy", "BackendTrafficPolicy"):
        assert [("HTTPRoute", route)] == [(each["kind"], each["name"]) for each in one(kind)["spec"]["targetRefs"]]


@pytest.mark.parametrize(("name", "kind"), [("istio.yaml", "istio"), ("kgateway.yaml", "kgateway")])
def test_the_route_of_the_values_belongs_to_the_gateway(name: str, kind: str) -> None:
    gateway = one("Gateway", name)
    (parent,) = values_of(FOLDER / "values.yaml")["httpRoute"]["parentRefs"]

    assert (parent["name"], kind) == (gateway["metadata"]["name"], gateway["spec"]["gatewayClassName"])


def test_istio_calls_the_service_of_the_chart_without_tls() -> None:
    rule = one("DestinationRule", "istio.yaml")

    assert ("warmgate.llm.svc.cluster.local", "DISABLE") == (
        rule["spec"]["host"],
        rule["spec"]["trafficPolicy"]["tls"]["mode"],
    )
