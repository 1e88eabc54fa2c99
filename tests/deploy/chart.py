"""The chart as Helm's own library renders it, and what a test wants to know of the result."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from helm_python import Chart

from gateway.app.application import create_app
from gateway.settings import Settings, build

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "warmgate"
VALUES = sorted([*CHART.glob("ci/*.yaml"), *CHART.glob("values-examples/*.yaml")])
"""Every file of values that ships, or that says what has to render."""

NAMESPACE = "llm"
STAND_INS = {
    "HOOK": "whsec_" + "A" * 32,
    "CHAT": "https://chat.example.com/hooks/1",
    "WARMGATE_STORE__URL": "rediss://:secret@store:6379/0",
    "WARMGATE_SERVER__ZONE": "",
}
"""Values of variables that come from elsewhere; the others are any text. Before Kubernetes 1.35 no pod has a zone."""

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Release:
    manifests: tuple[Manifest, ...]
    notes: str

    def of(self, kind: str) -> list[Manifest]:
        return [manifest for manifest in self.manifests if kind == manifest["kind"]]

    def one(self, kind: str) -> Manifest:
        (found,) = self.of(kind)
        return found

    @property
    def pod(self) -> Manifest:
        """The spec of the gateway's pods."""
        spec: Manifest = self.one("Deployment")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Manifest:
        (found,) = (each for each in self.pod["containers"] if "warmgate" == each["name"])
        return dict(found)

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}

    @property
    def variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.container["env"]:
            text = each["value"] if "value" in each else STAND_INS.get(each["name"], "stand-in")
            # As Kubernetes does it: variables that stand above.
            found[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found.get(name[1], name[0]), text)
        return found

    @property
    def config(self) -> Manifest:
        (found,) = (each for each in self.of("ConfigMap") if "warmgate.yaml" in each.get("data", {}))
        data: Manifest = yaml.safe_load(found["data"]["warmgate.yaml"])
        return data

    @property
    def settings(self) -> Settings:
        return build(self.config, self.variables)


def values_of(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return values


def install(values: Mapping[str, Any], *, chart: Chart | None = None, name: str = "warmgate") -> Release:
    """Render the chart with *values*.

    Raises:
        HelmError: the schema, or a template, refuses them.
    """
    chart = chart or Chart.load(str(CHART))
    rendered = chart.render(dict(values), name=name, namespace=NAMESPACE)
    notes = "".join(text for path, text in rendered.items() if path.endswith("NOTES.txt"))
    texts = (text for path, text in sorted(rendered.items()) if not path.endswith("NOTES.txt"))
    return Release(tuple(each for text in texts for each in manifests_in(text)), notes)


def manifests_in(text: str) -> Iterator[Manifest]:
    for manifest in yaml.safe_load_all(text):
        if manifest:
            yield manifest


def tiny(**values: Any) -> dict[str, Any]:
    """The least that the chart takes, and *values* beside; `config` is merged, group by group."""
    config = {"models": [{"name": "tiny", "workers": [{"url": "http://vllm:8000"}]}]}
    image = {"repository": "registry.example.com/warmgate"}
    return {"image": image, **values, "config": {**config, **values.get("config", {})}}


def metric_families(settings: Settings) -> set[str]:
    """Names of the metrics that a gateway shows, without `_total`."""

    async def ask() -> str:
        transport = httpx.ASGITransport(create_app(settings).probes)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.get("/metrics")).text

    return {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\w+) ", asyncio.run(ask()), re.MULTILINE)}
