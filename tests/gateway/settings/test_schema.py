import textwrap

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
    with pytest.raises(ValidationError, match="needs at least one worker, or a workers_file, or a fallback"):
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


def test_teams_are_declared_beside_models() -> None:
    """The smallest form, as the README has it."""
    text = """
    teams: [{name: blue, weight: 1, models: [tiny], limits: {requests_per_minute: 600, tokens_per_minute: 50000,
             concurrent: 50, usd_per_month: 100}, keys: [{id: ci, secret_env: BLUE_KEY}]}]
    admin: {port: 8081, keys: [{role: owner, secret_env: WARMGATE_ADMIN_KEY}]}
    store: {url: "sqlite:///warmgate.db"}
    """
    settings = parsed(SMALLEST + textwrap.dedent(text), BLUE_KEY="b", WARMGATE_ADMIN_KEY="a")

    assert ("blue", ("tiny",), 50000, 100) == (
        settings.teams[0].name,
        settings.teams[0].models,
        settings.teams[0].limits.tokens_per_minute,
        settings.teams[0].limits.usd_per_month,
    )
    assert (8081, "owner", "sqlite:///warmgate.db") == (
        settings.admin.port,
        settings.admin.keys[0].id,
        settings.store.url,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "teams: [{name: no spaces}]",
            "teams[0].name is 'no spaces'; it must be a name with a letter, of at most 63 letters, digits, dots, "
            "dashes and underscores.",
        ),
        (
            "teams: [{name: blue}, {name: blue}]",
            "teams[1].name is 'blue'; each must be its own, and this is that of teams[0].name.",
        ),
        (
            "teams: [{name: a, keys: [{id: k, secret: x}]}, {name: b, keys: [{id: k, secret: y}]}]",
            "teams[1].keys[0].id is 'k'; each must be its own, and this is that of teams[0].keys[0].id.",
        ),
        (
            "teams: [{name: a, keys: [{id: k, secret: x, networks: [10.0.0.1/8]}]}]",
            "teams[0].keys[0].networks[0] is '10.0.0.1/8'; it must be an address or a network such as 10.0.0.0/8.",
        ),
        ("teams: [{name: a, limits: {concurrent: 0}}]", "teams[0].limits.concurrent is 0; it must be at least 1."),
        (
            "teams: [{name: a, model_limits: {tiny: {concurent: 1}}}]",
            "teams[0].model_limits.tiny.concurent is not a setting; did you mean 'concurrent'.",
        ),
        (
            "quota: {time_zone: Mars/Olympus}",
            "quota.time_zone is 'Mars/Olympus'; it must be a time zone such as Europe/Berlin, and known on this "
            "machine.",
        ),
        ("quota: {burst: 0}", "quota.burst is 0; it must be greater than 0."),
        (
            "store: {url: 'mysql://root:pw@db'}",
            "store.url is not valid; it must begin with sqlite:///, redis://, rediss:// or unix://.",
        ),
        (
            "admin: {keys: [{role: root, secret: x}]}",
            "admin.keys[0].role is 'root'; allowed are 'viewer', 'operator' or 'owner'.",
        ),
        (
            "admin: {keys: [{role: owner, secret: x}, {role: owner, secret: y}]}",
            "admin.keys[1].id is 'owner'; each must be its own, and this is that of admin.keys[0].id.",
        ),
    ],
)
def test_what_is_wrong_with_teams_is_told_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")


def test_prices_are_of_tokens_or_of_hours() -> None:
    assert ["models[0].price.gpu_hour_usd stands beside prices of tokens; a model has the one or the others."] == (
        sentences(with_model(price={"gpu_hour_usd": 4, "input_usd": 1}))
    )
