"""The chart's network policies let through what the settings need, and nothing else."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import urlsplit

import pytest
from pydantic.fields import FieldInfo

from gateway.protocol import field_types
from gateway.protocol.field_names import dotted
from gateway.settings import ModelSettings, Settings
from gateway.settings import rules as rules_of_settings
from gateway.settings.fields import entry_of, fields_of
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
    if model.inference_pool is not None:
        yield from (443, 6443)  # of the API server
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
    if any(fallback.bedrock is not None for fallback in model.fallbacks):
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
    workers = [{"url": "http://10.0.0.5:8000"}, {"url": "http://10.0.0.6:8001"}]
    release = install(tiny(networkPolicy={"enabled": True}, config={"models": [{"name": "a", "workers": workers}]}))

    assert [53, 53, 8000, 8001] == sorted(ports_of(rules(release.one("NetworkPolicy"), "egress")))
    assert [8080, 8082] == sorted(ports_of(rules(release.one("NetworkPolicy"), "ingress")))


def test_the_admin_port_is_open_to_whom_the_values_name() -> None:
    ops = [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}]
    config = {"admin": {"port": 8081}}
    closed = install(tiny(config=config, networkPolicy={"enabled": True})).one("NetworkPolicy")
    opened = install(tiny(config=config, networkPolicy={"enabled": True, "adminFrom": ops})).one("NetworkPolicy")

    assert 8081 not in ports_of(rules(closed, "ingress"))
    assert [ops] == [rule["from"] for rule in rules(opened, "ingress") if 8081 in ports_of([rule])]


def test_the_admin_port_is_only_in_the_service_of_single_pods() -> None:
    """The public Service, which an ingress opens, has no way to the admin API and the console."""
    release = install(tiny(config={"admin": {"port": 8081}}))
    ports = {
        each["metadata"]["name"]: {port["name"]: (port["port"], port["targetPort"]) for port in each["spec"]["ports"]}
        for each in release.of("Service")
    }

    assert (8081, "admin") == ports["warmgate-pods"]["admin"]
    assert 8081 == release.ports["admin"]
    assert "admin" not in ports["warmgate"]
    assert 8081 not in {port for port, _ in ports["warmgate"].values()}


EVENTS = {"bind": "tcp://*:5557", "allowed_cidrs": ["10.1.0.0/16", "10.2.0.9", "fd00::9"]}


@pytest.mark.parametrize("enabled", [True, False])
def test_engines_that_dial_in_are_let_in_and_no_one_else(enabled: bool) -> None:
    """On the port of `kv_events.bind`: the addresses that the settings allow, also where no other policy is wanted."""
    policy = install(tiny(config={"kv_events": EVENTS}, replicaCount=1, networkPolicy={"enabled": enabled})).one(
        "NetworkPolicy"
    )
    (rule,) = [each for each in rules(policy, "ingress") if 5557 in ports_of([each])]

    assert [{"ipBlock": {"cidr": cidr}} for cidr in ("10.1.0.0/16", "10.2.0.9/32", "fd00::9/128")] == rule["from"]
    assert [5557] == [*ports_of([rule])]


def test_a_policy_for_events_alone_closes_nothing_else() -> None:
    """All other ports stay open to everybody, and so does the way out."""
    config = {"kv_events": EVENTS, "admin": {"port": 8081}}
    release = install(tiny(config=config, replicaCount=1))
    policy = release.one("NetworkPolicy")
    opened = [each for each in rules(policy, "ingress") if "from" not in each]

    assert set(release.ports.values()) - {5557} == set(ports_of(opened))
    assert ["Ingress"] == policy["spec"]["policyTypes"]
    assert release.one("Deployment")["spec"]["selector"] == policy["spec"]["podSelector"]
    assert [] == install(tiny(config=config, replicaCount=1, networkPolicy={"events": False})).of("NetworkPolicy")
    assert [] == install(tiny()).of("NetworkPolicy")


def test_the_values_may_name_engines_by_their_pods() -> None:
    pods = [{"podSelector": {"matchLabels": {"app": "vllm"}}}]
    values = tiny(config={"kv_events": EVENTS}, replicaCount=1, networkPolicy={"enginesFrom": pods})
    (rule,) = [each for each in rules(install(values).one("NetworkPolicy"), "ingress") if 5557 in ports_of([each])]

    assert pods == rule["from"]


# ---- every setting that names where the gateway connects to

WORKER = {"url": "http://10.0.0.5:8000"}
STREAM = {"endpoint": "tcp://10.0.0.5:5601", "replay_endpoint": "tcp://10.0.0.5:5701"}


def model(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "a", "workers": [WORKER], **fields}]}


def issuer(**fields: Any) -> dict[str, Any]:
    """Settings with one issuer of tokens."""
    rules = [{"value": "admins", "team": "blue"}]
    entry = {"name": "staff", "issuer": "https://login.example.com:8443/realms/ai", "audiences": ["warmgate"]}
    return {"identity": {"issuers": [entry | {"rules": rules} | fields]}}


DESTINATIONS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "models[].workers[].url": (model(), {8000}),
    "identity.issuers[].issuer": (issuer(), {8443}),
    "identity.issuers[].jwks_url": (issuer(jwks_url="https://keys.example.com:9443/jwks"), {8443, 9443}),
    "models[].workers[].kv_events.endpoint": (model(workers=[WORKER | {"kv_events": STREAM}]), {5601}),
    "models[].workers[].kv_events.replay_endpoint": (model(workers=[WORKER | {"kv_events": STREAM}]), {5701}),
    "models[].workers[].kv_events.ranks": (
        model(workers=[WORKER | {"kv_events": STREAM | {"ranks": 3}}]),
        {5601, 5602, 5603, 5701, 5702, 5703},
    ),
    "models[].workers[].dynamo.instances[].kv_events.endpoint": (
        model(workers=[WORKER | {"dynamo": {"instances": [{"id": "7", "kv_events": STREAM}]}}]),
        {5601},
    ),
    "models[].workers[].dynamo.instances[].kv_events.replay_endpoint": (
        model(workers=[WORKER | {"dynamo": {"instances": [{"id": "7", "kv_events": STREAM}]}}]),
        {5701},
    ),
    "models[].workers[].dynamo.streams[].endpoint": (
        model(workers=[WORKER | {"dynamo": {"streams": [STREAM]}}]),
        {5601},
    ),
    "models[].workers[].dynamo.streams[].replay_endpoint": (
        model(workers=[WORKER | {"dynamo": {"streams": [STREAM]}}]),
        {5701},
    ),
    "models[].workers[].dynamo.kv_events_port": (
        model(workers=[WORKER | {"dynamo": {"kv_events_port": 5557, "kv_replay_port": 5558}}]),
        {5557, 5558},
    ),
    "models[].dns.name": (model(workers=[], dns={"name": "engines", "port": 8002}), {8002}),
    "models[].service.port": (model(workers=[], service={"name": "vllm", "port": 8003}), {8003, 443, 6443}),
    "models[].fallbacks[].openai.url": (model(fallbacks=[{"openai": {"url": "https://llm.example.com/v1"}}]), {443}),
    "models[].fallbacks[].bedrock.endpoint_url": (
        model(fallbacks=[{"bedrock": {"model_id": "m", "region": "r", "endpoint_url": "http://vpce:8443"}}]),
        {8443, 443, 80},
    ),
    "bedrock.endpoint_url": (model() | {"bedrock": {"endpoint_url": "http://vpce:8445"}}, {8445}),
    "guardrails[].url": (
        model() | {"guardrails": [{"name": "g", "kind": "http", "url": "http://guard:8090/x"}]},
        {8090},
    ),
    "guardrails[].endpoint_url": (
        model()
        | {
            "guardrails": [
                {"name": "g", "kind": "bedrock", "guardrail_id": "i", "region": "r", "endpoint_url": "http://vpce:8446"}
            ]
        },
        {8446, 443, 80},
    ),
    "alerts.webhooks[].url": (
        model()
        | {"alerts": {"webhooks": [{"name": "ops", "url": "https://ops.example.com:9444/hook", "secret_env": "HOOK"}]}},
        {9444},
    ),
    "batches.webhooks[].url": (
        model()
        | {"batches": {"webhooks": [{"name": "jobs", "url": "https://jobs.example.com:9445/x", "secret_env": "HOOK"}]}},
        {9445},
    ),
    "alerts.slack[].secret": (model() | {"alerts": {"slack": [{"name": "chat", "secret_env": "CHAT"}]}}, {443}),
    "alerts.email[].host": (
        model()
        | {
            "alerts": {
                "email": [
                    {"name": name, "host": "mail", "sender": "a@example.com", "recipients": ["b@example.com"], **port}
                    for name, port in (("mail", {}), ("other", {"port": 2525}))
                ]
            }
        },
        {587, 2525},
    ),
    "files.s3.endpoint_url": (
        model()
        | {
            "store": {"url": "redis://cache"},
            "files": {"s3": {"bucket": "files", "endpoint_url": "http://objects:9000"}},
        },
        {9000, 6379},
    ),
    "files.s3.bucket": (
        model() | {"store": {"url": "redis://cache"}, "files": {"s3": {"bucket": "files"}}},
        {443, 80, 6379},
    ),
    "tracing.endpoint": (model() | {"tracing": {"endpoint": "http://collector:4318"}}, {4318}),
    "teams[].tracing.endpoint": (
        model() | {"teams": [{"name": "blue", "tracing": {"endpoint": "https://traces.example.com"}}]},
        {443},
    ),
    "store.url": (model() | {"store": {"url": "redis://cache"}}, {6379}),
    "kubernetes.api_url": (
        model(workers=[], service={"name": "vllm", "port": 8003}) | {"kubernetes": {"api_url": "https://api:16443"}},
        {16443},
    ),
}
LISTENED = {"console.allowed_hosts", "kv_events.bind"}
"""Settings of the same types that name where the gateway listens, or by which names it is called."""
ADDRESSES: tuple[Any, ...] = (
    field_types.Url,
    field_types.WorkerUrl,
    rules_of_settings.ZmqAddress,
    rules_of_settings.StoreUrl,
    rules_of_settings.HostName,
)


def addresses(
    fields: Mapping[str, FieldInfo] = Settings.model_fields, above: tuple[str | int, ...] = ()
) -> Iterator[str]:
    """Every setting that holds an address, by the type of its field."""
    for name, field in fields.items():
        place = (*above, name)
        if inner := fields_of(field.annotation):
            yield from addresses(inner, place)
        elif inner := fields_of(entry_of(field.annotation)):
            yield from addresses(inner, (*place, 0))
        elif _is_address(field):
            yield dotted(place).replace("[0]", "[]")


def _is_address(field: FieldInfo) -> bool:
    checks = {get_args(each)[1] for each in ADDRESSES}
    found = [*field.metadata]
    for option in (field.annotation, *get_args(field.annotation)):
        found += get_args(option)[1:] if get_origin(option) is Annotated else []
    return any(each in checks for each in found)


def test_every_setting_with_an_address_has_a_case() -> None:
    """A new one belongs into the table, and its port into the policy."""
    found = set(addresses())

    assert {"store.url", "tracing.endpoint", "guardrails[].url", "models[].workers[].url"} <= found
    assert set() == found - set(DESTINATIONS) - LISTENED


@pytest.mark.parametrize(("config", "ports"), DESTINATIONS.values(), ids=DESTINATIONS)
def test_the_gateway_may_go_where_a_setting_sends_it(config: dict[str, Any], ports: set[int]) -> None:
    """Through the network policy, without a word in the values."""
    hook = {"env": {name: {"name": "alerts", "key": name} for name in ("HOOK", "CHAT")}}
    release = install(tiny(config=config, secrets=hook, networkPolicy={"enabled": True, "storePorts": [6380]}))

    assert set() == ports - set(ports_of(rules(release.one("NetworkPolicy"), "egress")))
    assert release.settings.models
