"""The chart's network policies let through what the settings need, and nothing else."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from gateway.settings import ModelSettings, Settings
from tests.deploy.chart import VALUES, Manifest, Release, install, tiny, values_of

RELEASES = {path.stem: install(values_of(path)) for path in VALUES}
POLICED = {
    name: release
    for name, release in RELEASES.items()
    if release.of("NetworkPolicy") and name != "existing-config-values"
}


def rules(policy: Manifest, direction: str) -> list[Manifest]:
    found: list[Manifest] = policy["spec"][direction]
    return found


def ports_of(rules: list[Manifest]) -> Iterator[int]:
    for rule in rules:
        for port in rule.get("ports", []):
            yield from range(port["port"], port.get("endPort", port["port"]) + 1)


def dialled(settings: Settings) -> Iterator[int]:
    """Ports that the gateway connects to by what its settings say, names among them."""
    for model in settings.models:
        yield from _of_workers(model)
        yield from _of_fallbacks(model)
    if settings.store.url is not None and settings.store.url.startswith("redis"):
        yield _port(settings.store.url, 6379)
    yield 53


def _of_workers(model: ModelSettings) -> Iterator[int]:
    for worker in model.workers:
        yield _port(worker.url)
        if worker.kv_events is not None:
            for address in filter(None, (worker.kv_events.endpoint, worker.kv_events.replay_endpoint)):
                yield from range(_port(address), _port(address) + worker.kv_events.ranks)
    for port in [each.port for each in (model.service, model.pods) if each is not None]:
        yield from (443, 6443)  # of the API server
        if port is not None and port.isdigit():
            yield int(port)
    if model.dns is not None:
        yield model.dns.port


def _of_fallbacks(model: ModelSettings) -> Iterator[int]:
    for fallback in model.fallbacks:
        if fallback.openai is not None:
            yield _port(fallback.openai.url)
    if model.bedrock is not None or any(fallback.bedrock is not None for fallback in model.fallbacks):
        yield from (443, 80)  # Bedrock and STS; the agent of Pod Identity


def _port(address: str, usual: int | None = None) -> int:
    parts = urlsplit(address)
    return parts.port or usual or {"http": 80, "https": 443}[parts.scheme]


@pytest.mark.parametrize("release", POLICED.values(), ids=POLICED)
def test_the_network_policy_lets_through_what_the_settings_need(release: Release) -> None:
    """Every port that is listened on, but for the admin's, which is opened by name; and every port that is dialled."""
    policy = next(each for each in release.of("NetworkPolicy") if not each["metadata"]["name"].endswith("-valkey"))
    settings = release.settings
    ingress, egress = set(ports_of(rules(policy, "ingress"))), set(ports_of(rules(policy, "egress")))

    assert set() == set(release.ports.values()) - {settings.admin.port} - ingress
    assert set() == set(dialled(settings)) - egress
    assert release.one("Deployment")["spec"]["selector"] == policy["spec"]["podSelector"]


def test_a_store_on_a_port_of_its_own_is_reached() -> None:
    """Where the settings name it; what a Secret holds the values have to name."""
    config = {"store": {"url": "redis://cache:6390/0"}}
    release = install(tiny(config=config, networkPolicy={"enabled": True, "storePorts": [6379, 6380]}))

    assert {6379, 6380, 6390} <= set(ports_of(rules(release.one("NetworkPolicy"), "egress")))


def test_nothing_else_is_let_through() -> None:
    """Of a gateway with two workers: their ports, and names."""
    workers = [{"url": "http://10.0.0.5:8000"}, {"url": "http://10.0.0.6:8001"}]
    release = install(tiny(networkPolicy={"enabled": True}, config={"models": [{"name": "a", "workers": workers}]}))

    assert [53, 53, 8000, 8001] == sorted(ports_of(rules(release.one("NetworkPolicy"), "egress")))
    assert [8080, 8082] == sorted(ports_of(rules(release.one("NetworkPolicy"), "ingress")))


def test_the_admin_port_is_open_to_whom_the_values_name() -> None:
    """And to nobody where they name nobody."""
    ops = [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}]
    config = {"admin": {"port": 8081}}
    closed = install(tiny(config=config, networkPolicy={"enabled": True})).one("NetworkPolicy")
    opened = install(tiny(config=config, networkPolicy={"enabled": True, "adminFrom": ops})).one("NetworkPolicy")

    assert 8081 not in ports_of(rules(closed, "ingress"))
    assert [ops] == [rule["from"] for rule in rules(opened, "ingress") if 8081 in ports_of([rule])]


def test_engines_that_dial_in_are_let_in() -> None:
    """On the port of `kv_events.bind`."""
    config = {"kv_events": {"bind": "tcp://*:5557"}}
    release = install(tiny(config=config, replicas=1, networkPolicy={"enabled": True}))

    assert 5557 == release.ports["kv-events"]
    assert 5557 in ports_of(rules(release.one("NetworkPolicy"), "ingress"))
