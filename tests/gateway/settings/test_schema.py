import pytest
from pydantic import ValidationError

from gateway.settings import (
    BedrockSettings,
    BreakerSettings,
    HealthSettings,
    IndexSettings,
    LoggingSettings,
    ModelSettings,
    RetrySettings,
    RoutingSettings,
    ServerSettings,
    Settings,
    TimeoutSettings,
    WorkerSettings,
    describe,
    load,
)
from tests.gateway.settings.examples import EXAMPLE, SMALLEST, parsed, sentences, with_model, with_worker


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
    assert settings.logging == LoggingSettings()
    assert settings.bedrock == BedrockSettings()
    text = EXAMPLE.read_text()
    assert [] == [row.path for row in describe() if f"{row.path.split('.')[-1]}:" not in text]


def test_a_group_with_nothing_under_it_is_its_defaults() -> None:
    """`logging:` whose lines are all commented out is not a fault."""
    assert LoggingSettings() == parsed(f"{SMALLEST}\nlogging:\n").logging


def test_a_model_may_have_a_file_of_workers_only() -> None:
    """Which may be empty, or not there yet."""
    model = parsed("models: [{name: tiny, workers_file: workers.yaml}]").models[0]

    assert ((), "workers.yaml") == (model.workers, model.workers_file)


def test_the_admin_token_is_a_secret() -> None:
    """It is not shown, nor repeated where it is wrong; without one the admin routes are closed."""
    assert "**********" == str(parsed(f"{SMALLEST.replace('8080', '8080, admin_token: t-1')}").server.admin_token)
    assert parsed().server.admin_token is None
    assert [
        "WARMGATE_SERVER__ADMIN_TOKEN (server.admin_token) is not valid; "
        "it must be printable ASCII without spaces or line ends."
    ] == sentences(WARMGATE_SERVER__ADMIN_TOKEN="t 1")


def test_a_model_may_have_bedrock_only() -> None:
    """No worker is needed where Bedrock answers."""
    model = parsed("models: [{name: claude, bedrock: {model_id: m, region: us-east-1}}]").models[0]

    assert () == model.workers
    assert model.bedrock is not None
    assert (4096, "m") == (model.bedrock.default_max_tokens, model.bedrock.model_id)


def test_settings_are_built_from_parts() -> None:
    """A test or a benchmark needs no file."""
    settings = Settings(models=(ModelSettings(name="tiny", workers=(WorkerSettings(url="http://a"),)),))

    assert "http://a" == settings.models[0].workers[0].id


@pytest.mark.parametrize(
    ("setting", "environ"),
    [("bedrock: {region: eu-west-1}", {}), ("bedrock: {}", {"AWS_DEFAULT_REGION": "eu-west-1"})],
)
def test_the_region_of_bedrock_must_come_from_somewhere(setting: str, environ: dict[str, str]) -> None:
    """The model's own, the shared one, or that of AWS's variables; without any nothing starts."""
    text = "models: [{name: claude, bedrock: {model_id: m}}]"

    assert "eu-west-1" == parsed(f"{text}\n{setting}", **environ).bedrock.region
    assert ["models[0].bedrock.region is needed: set it, or bedrock.region, or AWS_REGION."] == sentences(text)


def test_the_rules_hold_for_parts_too() -> None:
    """A model without anything to answer is refused at once."""
    with pytest.raises(ValidationError, match="needs at least one worker, or a workers_file, or bedrock"):
        ModelSettings(name="tiny")


def test_settings_do_not_change() -> None:
    """They are handed to many and belong to nobody."""
    settings = parsed()

    with pytest.raises(ValidationError, match="frozen"):
        settings.server.port = 1


def test_a_lease_is_not_shorter_than_the_longest_answer() -> None:
    """Else a stream that still runs would no longer count as load."""
    assert [
        "routing.lease_s is shorter than timeouts.total_s: a long answer would lose its place on its worker."
    ] == sentences(f"{SMALLEST}\nrouting: {{lease_s: 60}}\n")


def test_an_engine_that_dials_needs_somebody_who_waits_for_it() -> None:
    """The address is one for all engines that do."""
    assert ["models[0].workers[0].kv_events.endpoint is needed: kv_events.bind is not set."] == sentences(
        with_worker(kv_events={"topic": "kv@a"})
    )


def test_a_local_tokenizer_needs_its_folder() -> None:
    """Where the engine may be asked instead, it does not."""
    assert ["models[0].tokenizer.path is needed where source is local."] == sentences(
        with_model(tokenizer={"source": "local"})
    )
    assert "auto" == parsed(with_model(tokenizer={})).models[0].tokenizer.source
