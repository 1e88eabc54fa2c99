"""The example of a collector agrees with itself, with the chart and with the gateway's metrics."""

import re
from typing import Any

import pytest
import yaml

from tests.deploy import schemas
from tests.deploy.chart import ROOT, Manifest, manifests_in, values_of
from tests.deploy.test_examples import installed

FOLDER = ROOT / "deploy" / "examples" / "otel"
CONFIGS = ("gateway.yaml", "agent.yaml")


def manifests() -> list[Manifest]:
    return list(manifests_in((FOLDER / "collector.yaml").read_text(encoding="utf-8")))


def one(kind: str) -> Manifest:
    (found,) = [each for each in manifests() if each["kind"] == kind]
    return found


def config(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load(one("ConfigMap")["data"][name]))


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_kubernetes_takes_it(version: str) -> None:
    schemas.check(manifests(), version)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_pipeline_is_of_parts_that_are_there(name: str) -> None:
    parts = config(name)
    pipelines = parts["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert set(parts[kind]) == {part for pipeline in pipelines for part in pipeline[kind]}
    assert set(parts.get("extensions", {})) == set(parts["service"].get("extensions", []))


def test_traces_find_their_way() -> None:
    """The gateway's endpoint is the Service, its port the container's and the receiver's; the policy lets them out."""
    settings = installed(FOLDER).settings
    service = one("Service")
    port = service["spec"]["ports"][0]["port"]
    containers = one("Deployment")["spec"]["template"]["spec"]["containers"]

    assert (
        f"http://{service['metadata']['name']}.{service['metadata']['namespace']}:{port}" == settings.tracing.endpoint
    )
    assert f"0.0.0.0:{port}" == config("gateway.yaml")["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    assert port in [each["containerPort"] for each in containers[0]["ports"]]
    (egress,) = values_of(FOLDER / "values.yaml")["networkPolicy"]["extraEgress"]
    assert [port] == [each["port"] for each in egress["ports"]]
    assert "json" == settings.logging.format


def test_metrics_are_those_of_the_gateway() -> None:
    table = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    labels = dict(re.findall(r"^\| `(warmgate_\w+)` \| \w+ \| ([^|]*?) ?\|", table, re.MULTILINE))
    declared = config("gateway.yaml")["exporters"]["awsemf"]["metric_declarations"]
    for each in declared:
        for selector in each["metric_name_selectors"]:
            name = selector.removeprefix("^").removesuffix("$")
            assert name in labels
            for dimensions in each["dimensions"]:
                assert set(dimensions) <= {"model", *re.split(r",\s*", labels[name])}
    (job,) = config("gateway.yaml")["receivers"]["prometheus"]["config"]["scrape_configs"]
    release = installed(FOLDER)
    ports = {
        port["port"]
        for manifest in release.manifests
        if manifest["kind"] == "Service"
        and f"{manifest['metadata']['name']}.warmgate" in job["dns_sd_configs"][0]["names"]
        for port in manifest["spec"]["ports"]
    }
    assert job["dns_sd_configs"][0]["port"] in ports
