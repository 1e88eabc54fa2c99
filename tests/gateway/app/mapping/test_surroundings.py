"""Values for the server, the admin API and telemetry, from settings."""

from pathlib import Path

import pytest

from gateway.api.admin_access import AdminKey
from gateway.app.mapping.surroundings import (
    admin_keys,
    configured_models,
    console_rules,
    file_contents,
    limits_of,
    picker_rules,
    process_rules,
    receiver_of,
    serving_options,
    team_receivers,
)
from gateway.app.mapping.tenancy import identity_rules
from gateway.batch.bucket import Bucket
from gateway.batch.folder import Folder
from gateway.picker.rules import PickerRules
from gateway.settings import ServerSettings, Settings, SettingsError, build
from gateway.telemetry.trace_export.tracing import Receiver
from tests.gateway.settings.examples import SMALLEST, parsed

MODELS = [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:18101"}]}]


def test_one_address_has_nine_tenths_of_the_connections_unless_said() -> None:
    assert 9 == limits_of(ServerSettings(max_connections=10)).max_per_address
    assert 3 == limits_of(ServerSettings(max_connections=10, max_connections_per_address=3)).max_per_address


def test_options_name_the_address_and_the_grace() -> None:
    options = serving_options(parsed())

    assert ("127.0.0.1 port 8080", "info") == (options.address, options.log_level)
    assert parsed().server.shutdown_grace_s == options.shutdown_grace_s


def test_the_keys_are_those_of_the_settings() -> None:
    """The id of one that has none is its role."""
    keys = [{"role": "owner", "secret": "s-1"}, {"id": "grafana", "role": "viewer", "secret": "s-2"}]
    settings = build({"models": [{"name": "m", "workers": [{"url": "http://a"}]}], "admin": {"keys": keys}}, {})

    assert (AdminKey("owner", "owner", "s-1"), AdminKey("grafana", "viewer", "s-2")) == admin_keys(settings.admin)


def test_a_cached_token_costs_as_much_as_another_unless_said() -> None:
    (model,) = configured_models(parsed("models: [{name: m, workers: [{url: http://a}], price: {input_usd: 2}}]"))

    assert (2, 2, 0, None) == (model.input_usd, model.cached_input_usd, model.output_usd, model.bedrock)


def test_a_receiver_has_an_address_and_headers() -> None:
    tracing = "tracing: {endpoint: 'http://o:4318', secret: s, content: true}"
    red = "{name: red, tracing: {endpoint: 'http://r', headers: {x-a: b}}}"
    settings = parsed(f"{SMALLEST}\n{tracing}\nteams: [{{name: blue}}, {red}]")

    assert Receiver("http://o:4318", {"authorization": "Bearer s"}, content=True) == receiver_of(settings.tracing)
    assert {"red": Receiver("http://r", {"x-a": "b"})} == team_receivers(settings)
    assert None is receiver_of(parsed().tracing)


def test_the_picker_has_the_limits_of_the_server() -> None:
    data = {
        "models": [{"name": "tiny", "workers": [{"url": "http://a"}]}],
        "server": {"shutdown_grace_s": 7, "max_body_bytes": 1000},
        "picker": {
            "listen": "0.0.0.0:9002",
            "max_fallbacks": 1,
            "endpoint_scores": True,
            "session_header_decides": True,
            "conformance": True,
        },
    }

    assert picker_rules(build(data, {})) == PickerRules(
        listen="0.0.0.0:9002",
        grace_s=7.0,
        max_body_bytes=1000,
        max_fallbacks=1,
        endpoint_scores=True,
        session_header_decides=True,
        is_conformance_test=True,
    )


def test_the_console_answers_at_the_address_to_which_a_provider_leads_back() -> None:
    issuer = {
        "name": "okta",
        "issuer": "https://login.example.com",
        "audiences": ["warmgate"],
        "rules": [{"value": "a", "team": "blue"}],
        "admin_roles": [{"value": "owners", "role": "owner"}],
        "console": {"client_id": "console", "public_url": "https://Gateway.example.com:8443/"},
    }
    settings = Settings.model_validate(
        {
            "models": [{"name": "tiny", "workers": [{"url": "http://10.0.0.5:8000"}]}],
            "admin": {"keys": [{"role": "owner", "secret": "s"}]},
            "console": {"enabled": True},
            "identity": {"issuers": [issuer]},
        }
    )
    rules = console_rules(settings)

    assert rules is not None
    assert "gateway.example.com" in rules.allowed_hosts
    assert "https://Gateway.example.com:8443" == identity_rules(settings.identity).logins["okta"].public_url


def test_processes_share_the_limits_of_the_server() -> None:
    server = {
        "max_connections": 1001,
        "max_concurrent_requests": 5,
        "max_memory_bytes": 2**30,
        "max_bodies_bytes": 2**30,
        "stop_delay_s": 5,
        "probes_port": 9090,
    }
    rules = process_rules(build({"models": MODELS, "server": server, "admin": {"port": 9091}}, {}), 2)

    assert {
        "WARMGATE_STORE__REPLICAS": "2",
        "WARMGATE_SERVER__MAX_CONNECTIONS": "501",
        "WARMGATE_SERVER__MAX_CONCURRENT_REQUESTS": "3",
        "WARMGATE_SERVER__MAX_MEMORY_BYTES": str(2**29),
        "WARMGATE_SERVER__MAX_BODIES_BYTES": str(2**29),
    } == rules.variables
    assert (35, ("127.0.0.1", 9090), ("127.0.0.1", 9091)) == (rules.stop_s, rules.probes, rules.admin)


@pytest.mark.parametrize(
    ("url", "file"),
    [(None, None), ("redis://127.0.0.1:6379/0", None), ("sqlite:////data/warmgate.db", Path("/data/warmgate.db"))],
)
def test_processes_know_the_file_of_their_store(url: str | None, file: Path | None) -> None:
    store = {} if url is None else {"store": {"url": url}}
    rules = process_rules(build({"models": MODELS, **store}, {}), 2)

    assert (url, file) == (rules.store_url, rules.store_file)


def test_settings_that_only_one_process_can_use_are_named_together() -> None:
    settings = {
        "models": MODELS,
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": "s" * 20}]},
        "store": {"url": "sqlite:///:memory:"},
        "kv_events": {"bind": "tcp://127.0.0.1:5557"},
    }
    with pytest.raises(SettingsError) as refused:
        process_rules(build(settings, {}), 2)

    assert ["admin.port", "store.url", "kv_events.bind"] == [each.split()[0] for each in refused.value.sentences]


def test_contents_of_files_are_where_the_settings_say() -> None:
    store = {"url": "sqlite:///x.db"}
    folder = file_contents(build({"models": MODELS, "store": store, "files": {"folder": "/there"}}, {}))
    bucket = file_contents(build({"models": MODELS, "store": store, "files": {"s3": {"bucket": "there"}}}, {}))
    bucket.close()

    assert isinstance(folder, Folder)
    assert "/there" == str(folder.path)
    assert isinstance(bucket, Bucket)
