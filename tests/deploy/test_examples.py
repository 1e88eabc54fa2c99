"""The examples of model servers, and the values beside them, are what Kubernetes takes and agree with each other."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings import ModelSettings
from tests.deploy import schemas
from tests.deploy.chart import ROOT, Manifest, Release, install, manifests_in, values_of

EXAMPLES = ROOT / "deploy" / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
SERVERS = [path for path in FOLDERS if (path / "model-server.yaml").exists()]

each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
each_server = pytest.mark.parametrize("folder", SERVERS, ids=lambda path: path.name)
TEAM: dict[str, Any] = {
    "image": {"repository": "registry.example.com/warmgate"},
    "config": {"teams": [{"name": "blue", "keys": [{"id": "a", "secret_env": "BLUE_KEY"}]}]},
    "secrets": {"env": {"BLUE_KEY": {"name": "warmgate", "key": "blue"}}},
}


def installed(folder: Path) -> Release:
    """With a team beside, as every example needs one."""
    values = values_of(folder / "values.yaml")
    return install({**TEAM, **values, "config": {**TEAM["config"], **values["config"]}})


def server(folder: Path) -> list[Manifest]:
    return list(manifests_in((folder / "model-server.yaml").read_text(encoding="utf-8")))


def pods_of(manifest: Manifest) -> list[Manifest]:
    """Templates of pods, whichever kind they are in."""
    spec = manifest["spec"]
    if manifest["kind"] == "Deployment":
        return [spec["template"]]
    if manifest["kind"] == "LeaderWorkerSet":
        return [spec["leaderWorkerTemplate"][name] for name in ("leaderTemplate", "workerTemplate")]
    if manifest["kind"] == "RayService":
        cluster = spec["rayClusterConfig"]
        return [cluster["headGroupSpec"]["template"], *(each["template"] for each in cluster["workerGroupSpecs"])]
    return []


def serving(folder: Path) -> list[tuple[Manifest, Manifest]]:
    """Pods that the Service of *folder* selects, each with its first container."""
    manifests = server(folder)
    selectors = [each["spec"]["selector"].items() for each in manifests if each["kind"] == "Service"]
    pods = [pod for manifest in manifests for pod in pods_of(manifest)]
    return [
        (pod, pod["spec"]["containers"][0])
        for pod in pods
        if any(selector <= pod.get("metadata", {}).get("labels", {}).items() for selector in selectors)
    ]


def said(container: Manifest) -> str:
    """All of its command line."""
    return " ".join(str(each) for each in [*container.get("command", []), *container.get("args", [])])


@each_folder
def test_the_gateway_reads_the_values(folder: Path) -> None:
    release = installed(folder)

    assert release.settings.models
    schemas.check(release.manifests, schemas.VERSIONS[0])


@each_server
@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_kubernetes_takes_the_model_server(folder: Path, version: str) -> None:
    """Pods in resources of others too, as pods."""
    manifests = server(folder)
    pods = [pod for manifest in manifests if manifest["kind"] != "Deployment" for pod in pods_of(manifest)]
    wrapped = [{"metadata": {"name": "a"}, **pod, "apiVersion": "v1", "kind": "Pod"} for pod in pods]

    schemas.check([*manifests, *wrapped], version)


def workers(folder: Path) -> tuple[ModelSettings, Manifest | None]:
    """The model, and the Service beside it, where there is one."""
    (model,) = installed(folder).settings.models
    services = [each for each in server(folder) if each["kind"] == "Service"] if folder in SERVERS else []
    return model, services[0] if services else None


@each_server
def test_the_gateway_looks_where_the_model_server_is(folder: Path) -> None:
    """The same Service, namespace and port; the port is that of a container that the Service selects."""
    model, service = workers(folder)
    if service is None:
        assert "ray-vllm" == folder.name
        return
    assert model.service is not None
    metadata = service["metadata"]
    ports = {port["containerPort"] for _, container in serving(folder) for port in container["ports"]}

    assert (metadata["name"], metadata["namespace"]) == (model.service.name, model.service.namespace)
    assert str(service["spec"]["ports"][0]["port"]) == model.service.port
    assert int(model.service.port) in ports


def test_ray_is_asked_by_the_service_that_kuberay_makes() -> None:
    """NAME-serve-svc, of each RayService."""
    model, _ = workers(EXAMPLES / "ray-vllm")
    (ray,) = server(EXAMPLES / "ray-vllm")

    assert f"http://{ray['metadata']['name']}-serve-svc.{ray['metadata']['namespace']}:8000" == model.workers[0].url
    assert yaml.safe_load(ray["spec"]["serveConfigV2"])["applications"][0]["route_prefix"] == "/"


@each_server
def test_weights_may_take_their_time(folder: Path) -> None:
    """A startup probe gives half an hour; and what says ready is not what says alive."""
    for _, container in serving(folder):
        startup = container["startupProbe"]
        assert 1800 <= startup["periodSeconds"] * startup["failureThreshold"]
        assert container["readinessProbe"] != container["livenessProbe"]
        assert 60 <= container["livenessProbe"]["periodSeconds"] * container["livenessProbe"]["failureThreshold"]


@each_server
def test_streams_have_time_to_end(folder: Path) -> None:
    """The platform's grace is above preStop and the engine's own drain together."""
    for pod, container in serving(folder):
        drain = re.search(r"--shutdown-timeout=(\d+)", said(container))
        hook = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert hook + int(drain[1] if drain else 0) < pod["spec"]["terminationGracePeriodSeconds"]
        assert ("vllm serve" in said(container)) == (drain is not None)


def reported_events(container: Manifest) -> dict[str, Any] | None:
    found = re.search(r"--kv-events-config='?(\{[^}]*\})", said(container))
    return None if found is None else dict(json.loads(found[1]))


@each_server
def test_events_are_where_gateways_can_listen(folder: Path) -> None:
    """Bound, not dialled; with a replay; on ports of the container that the network policy lets out to."""
    model, _ = workers(folder)
    opened = {
        port
        for span in values_of(folder / "values.yaml")["networkPolicy"].get("eventPorts", [])
        for port in range(span["from"], span["to"] + 1)
    }
    for _, container in serving(folder):
        events = reported_events(container)
        assert (model.strategy == "kv_aware") == (events is not None)
        if events is None:
            continue
        addresses = [events["endpoint"], events["replay_endpoint"]]
        assert all(address.startswith("tcp://*:") for address in addresses)
        assert {int(address.rpartition(":")[2]) for address in addresses} == opened
        assert opened <= {port["containerPort"] for port in container["ports"]}
        assert ("enable_kv_cache_events" in events) == ("vllm serve" in said(container))


def test_every_example_is_in_the_table() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert [] == [folder.name for folder in FOLDERS if f"[{folder.name}]({folder.name})" not in page]
    assert [] == [
        folder.name for folder in SERVERS if "not run" not in _head(folder) and "never run" not in _head(folder)
    ]


def _head(folder: Path) -> str:
    return "".join((folder / "model-server.yaml").read_text(encoding="utf-8").splitlines(keepends=True)[:4])
