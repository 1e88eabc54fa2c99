"""The discovery of each source that the settings name."""

import asyncio
import random
from contextlib import aclosing
from pathlib import Path

from gateway.discovery.discoveries import Discoveries, access_of
from gateway.discovery.dns import DnsDiscovery
from gateway.discovery.file import FileDiscovery
from gateway.discovery.source import Source
from gateway.kubernetes.access import IN_CLUSTER, Access
from gateway.settings import DnsSettings, KubernetesSettings, PodsSettings, ServiceSettings
from tests.contracts.test_discovery import next_of
from tests.kubernetes_api import a_pod, a_slice, an_endpoint, kubernetes_api


def discoveries(**settings: object) -> Discoveries:
    kubernetes = KubernetesSettings.model_validate({"namespace": "default", **settings})
    return Discoveries(kubernetes, clock=asyncio.get_running_loop().time, rng=random.Random(1))


async def test_services_and_pods_are_looked_for_where_the_settings_say() -> None:
    """Each with its own selector and port, and each with its sighting."""
    async with kubernetes_api(a_slice("s", an_endpoint("10.0.0.1", "a")), a_pod("b", "10.0.0.2")) as api:
        made = discoveries(api_url=api.url)
        service = made.of(Source("tiny", ServiceSettings(name="vllm", port="http")), lambda _: None)
        pods = made.of(Source("tiny", PodsSettings(selector="app=vllm", port="9000")), lambda _: None)
        async with aclosing(service.watch()) as endpoints, aclosing(pods.watch()) as others:
            urls = [(await next_of(sets))[0].url for sets in (endpoints, others)]
            told = made.sightings.told()

    assert ["http://10.0.0.1:8000", "http://10.0.0.2:9000"] == urls
    assert {"pods": 1, "service": 1} == {kind: each["workers"] for kind, each in told["tiny"].items()}


async def test_names_and_files_have_theirs() -> None:
    """No I/O happens before they watch."""
    made = discoveries()

    assert isinstance(made.of(Source("tiny", DnsSettings(name="a", port=1)), lambda _: None), DnsDiscovery)
    assert isinstance(made.of(Source("tiny", "/nowhere/w.yaml"), lambda _: None), FileDiscovery)
    assert {} == made.sightings.told()


def test_what_the_settings_leave_open_is_the_pods_own() -> None:
    """Address, token, certificates, namespace."""
    given = KubernetesSettings(api_url="https://k:6443", token_file="/t", ca_file="/c", namespace="n")

    assert Access(IN_CLUSTER) == access_of(KubernetesSettings())
    assert Access("https://k:6443", Path("/t"), Path("/c"), "n") == access_of(given)
