import pytest
from pydantic import ValidationError

from gateway.settings import (
    AdminSettings,
    BedrockSettings,
    BreakerSettings,
    DrainSettings,
    HealthSettings,
    IndexSettings,
    KubernetesSettings,
    LoggingSettings,
    ModelSettings,
    QueueSettings,
    QuotaSettings,
    RetrySettings,
    RoutingSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    TimeoutSettings,
    WorkerSettings,
    describe,
    load,
)
from tests.gateway.settings.examples import EXAMPLE, SMALLEST, parsed, sentences, with_worker


def test_the_example_shows_every_setting_with_its_default() -> None:
    """The commented example loads; each group but models holds the defaults; each name occurs in it."""
    settings = load(EXAMPLE, {})

    assert settings.server == ServerSettings()
    assert settings.routing == RoutingSettings()
    assert settings.index == IndexSettings()
    assert settings.timeouts == TimeoutSettings()
    assert settings.health == HealthSettings()
    assert settings.breaker == BreakerSettings()
    assert settings.retry == RetrySettings()
    assert settings.drain == DrainSettings()
    assert settings.kubernetes == KubernetesSettings()
    assert settings.logging == LoggingSettings()
    assert settings.bedrock == BedrockSettings()
    assert settings.admin == AdminSettings()
    assert settings.store == StoreSettings()
    assert settings.quota == QuotaSettings()
    assert settings.queue == QueueSettings()
    assert () == settings.teams
    text = EXAMPLE.read_text()
    assert [] == [row.path for row in describe() if f"{row.path.split('.')[-1]}:" not in text]


def test_a_group_with_nothing_under_it_is_its_defaults() -> None:
    """`logging:` whose lines are all commented out is not a fault."""
    assert LoggingSettings() == parsed(f"{SMALLEST}\nlogging:\n").logging


def test_settings_are_built_from_parts() -> None:
    """A test or a benchmark needs no file."""
    settings = Settings(models=(ModelSettings(name="tiny", workers=(WorkerSettings(url="http://a"),)),))

    assert "worker-677a0eb9" == settings.models[0].workers[0].id


@pytest.mark.parametrize(
    ("setting", "environ"),
    [("bedrock: {region: eu-west-1}", {}), ("bedrock: {}", {"AWS_DEFAULT_REGION": "eu-west-1"})],
)
def test_the_region_of_bedrock_must_come_from_somewhere(setting: str, environ: dict[str, str]) -> None:
    """The model's own, the shared one, or that of AWS's variables; without any nothing starts."""
    text = "models: [{name: claude, fallbacks: [{bedrock: {model_id: m}}]}]"

    assert "eu-west-1" == parsed(f"{text}\n{setting}", **environ).bedrock.region
    assert [
        "models[0].fallbacks[0].bedrock.region is required. Set it, or bedrock.region, or AWS_REGION."
    ] == sentences(text)


def test_settings_do_not_change() -> None:
    """They are handed to many and belong to no one."""
    settings = parsed()

    with pytest.raises(ValidationError, match="frozen"):
        settings.server.port = 1


def test_a_lease_is_not_shorter_than_the_longest_answer() -> None:
    """Else a stream that still runs would no longer count as load."""
    assert [
        "routing.lease_s is shorter than timeouts.total_s, so a long answer would lose its reservation on its worker."
    ] == sentences(f"{SMALLEST}\nrouting: {{lease_s: 60}}\n")


@pytest.mark.parametrize("bind", ["tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557", "tcp://gateway:5557"])
def test_an_address_that_other_machines_reach_needs_a_list_of_engines(bind: str) -> None:
    """Anybody could publish there."""
    fault = (
        "kv_events.allowed_cidrs is required, because other machines can reach kv_events.bind. "
        "List the networks of engines, e.g. 10.0.0.0/8."
    )
    assert [fault] == sentences(f"{SMALLEST}\nkv_events: {{bind: '{bind}'}}\n")
    settings = parsed(f"{SMALLEST}\nkv_events: {{bind: '{bind}', allowed_cidrs: [10.0.0.0/8]}}\n")
    assert ("10.0.0.0/8",) == settings.kv_events.allowed_cidrs


@pytest.mark.parametrize(
    "bind", ["tcp://127.0.0.1:5557", "tcp://[::1]:5557", "tcp://localhost:5557", "ipc:///run/warmgate/events"]
)
def test_an_address_of_this_machine_needs_no_list(bind: str) -> None:
    assert bind == parsed(f"{SMALLEST}\nkv_events: {{bind: '{bind}'}}\n").kv_events.bind


def test_an_engine_that_dials_needs_somebody_who_waits_for_it() -> None:
    """The address is one for all engines that do."""
    assert ["models[0].workers[0].kv_events.endpoint is required, because kv_events.bind is not set."] == sentences(
        with_worker(kv_events={"topic": "kv@a"})
    )
