"""The discovery of each source that the settings name."""

import asyncio
import random
from contextlib import aclosing

from gateway.app.mapping.workers import access_of, pace_of, parsed_workers
from gateway.settings import KubernetesSettings
from gateway.workers.discovery.discoveries import Discoveries
from gateway.workers.discovery.dns import DnsDiscovery, DnsSource
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.file import FileDiscovery, FileSource
from gateway.workers.discovery.pods import PodsSource
from gateway.workers.discovery.source import WorkerSource
from tests.contracts.test_discovery import next_of
from tests.kubernetes_api import a_pod, a_slice, an_endpoint, kubernetes_api


def discoveries(**settings: object) -> Discoveries:
    kubernetes = KubernetesSettings.model_validate({"namespace": "default", **settings})
    return Discoveries(
        *(access_of(kubernetes), pace_of(kubernetes)),
        parse=parsed_workers,
        clock=asyncio.get_running_loop().time,
        rng=random.Random(1),
    )


async def test_services_and_pods_are_looked_for_where_the_settings_say() -> None:
    """Each with its own selector and port, and each with its source_status."""
    async with kubernetes_api(a_slice("s", an_endpoint("10.0.0.1", "a")), a_pod("b", "10.0.0.2")) as api:
        made = discoveries(api_url=api.url)
        service = made.make(WorkerSource("tiny", ServiceSource(name="vllm", port="http")), lambda _: None)
        pods = made.make(WorkerSource("tiny", PodsSource(selector="app=vllm", port="9000")), lambda _: None)
        async with aclosing(service.watch()) as endpoints, aclosing(pods.watch()) as others:
            urls = [(await next_of(sets))[0].url for sets in (endpoints, others)]
            reported = made.discovery_status.report()

    assert ["http://10.0.0.1:8000", "http://10.0.0.2:9000"] == urls
    assert {"pods": 1, "service": 1} == {kind: each["workers"] for kind, each in reported["tiny"].items()}


async def test_names_and_files_have_theirs() -> None:
    """No I/O happens before they watch."""
    made = discoveries()

    assert isinstance(made.make(WorkerSource("tiny", DnsSource(name="a", port=1)), lambda _: None), DnsDiscovery)
    assert isinstance(made.make(WorkerSource("tiny", FileSource("/nowhere/w.yaml")), lambda _: None), FileDiscovery)
    assert {} == made.discovery_status.report()
