import os
from pathlib import Path

import pytest
import yaml

from gateway.settings import SettingsError, build, environment, load, masked
from tests.gateway.settings.examples import EXAMPLE, SMALLEST, parsed, sentences, with_worker


def test_the_smallest_file_is_enough(tmp_path: Path) -> None:
    """Host, port and one model with a worker; all else has a default."""
    path = tmp_path / "warmgate.yaml"
    path.write_text(SMALLEST)

    settings = load(path, {})

    assert ("127.0.0.1", 8080) == (settings.server.host, settings.server.port)
    model = settings.models[0]
    assert ("tiny", ("gpt-4o",), "prefix_aware") == (model.name, model.aliases, model.strategy)
    assert "tiny" == model.upstream_model
    assert "http://127.0.0.1:18101" == model.workers[0].url
    assert "worker-651d3da8" == model.workers[0].id
    assert () == model.fallbacks


def test_an_empty_file_lacks_models(tmp_path: Path) -> None:
    """Nothing but models has to be given."""
    path = tmp_path / "warmgate.yaml"
    path.write_text("# nothing\n")

    with pytest.raises(SettingsError, match=r"^models is missing; it must be given\.$"):
        load(path, {})


def test_a_variable_beats_the_file() -> None:
    """Levels are parted by two underscores, entries of a list are numbered."""
    settings = parsed(
        WARMGATE_SERVER__PORT="9000",
        WARMGATE_MODELS__0__STRATEGY="round_robin",
        WARMGATE_LOGGING__REQUESTS="false",
        WARMGATE_TIMEOUTS__CONNECT_S="0.5",
        WARMGATE_RETRY__MAX_ATTEMPTS="null",
        WARMGATE_MODELS__0__ALIASES="[a, b]",
        WARMGATE_MODELS__0__WORKERS__1__URL="http://b:2",
        WARMGATE_MODELS__0__WORKERS__1__MAX_CONNECTIONS="4",
    )

    assert 9000 == settings.server.port
    assert "round_robin" == settings.models[0].strategy
    assert settings.logging.requests is False
    assert 0.5 == settings.timeouts.connect_s
    assert settings.retry.max_attempts is None
    assert ("a", "b") == settings.models[0].aliases
    assert [("http://127.0.0.1:18101", None), ("http://b:2", 4)] == [
        (worker.url, worker.max_connections) for worker in settings.models[0].workers
    ]


def test_variables_alone_are_enough() -> None:
    """Without a file, lists are built from index 0 up."""
    settings = load(
        None,
        {f"WARMGATE_MODELS__0__WORKERS__{i}__URL": f"http://w{i}:80" for i in (10, *range(10))}
        | {"WARMGATE_MODELS__0__NAME": "tiny"},
    )

    assert [f"http://w{i}:80" for i in range(11)] == [worker.url for worker in settings.models[0].workers]


def test_a_gap_in_a_list_is_a_fault() -> None:
    """Entry 3 of a list with one entry has nothing to override."""
    assert ["WARMGATE_MODELS__3__NAME leaves a gap: models has 1 entries, so the next number is 1."] == sentences(
        WARMGATE_MODELS__3__NAME="x"
    )


def test_a_wrong_value_names_the_variable_that_set_it() -> None:
    """The operator reads the name that was written, and the place it stands for."""
    assert ["WARMGATE_SERVER__PORT (server.port) is 70000; the value must be at most 65535."] == sentences(
        WARMGATE_SERVER__PORT="70000"
    )


def test_a_file_that_is_wrong_above_a_variable_is_a_fault() -> None:
    """Where the file holds a single value there is nothing to set inside it."""
    assert [
        "WARMGATE_SERVER__PORT cannot be used: server is a single value.",
        "server is not valid; the value must be a mapping.",
    ] == sentences("server: 3\nmodels: [{name: t, workers: [{url: 'http://a'}]}]", WARMGATE_SERVER__PORT="1")


def test_the_data_given_is_left_alone() -> None:
    """Overrides go into a copy."""
    data = yaml.safe_load(SMALLEST)

    build(data, {"WARMGATE_SERVER__PORT": "1"})

    assert 8080 == data["server"]["port"]


def test_the_environment_is_that_of_the_process() -> None:
    """It is handed to `load` by the command line."""
    assert os.environ["PATH"] == environment()["PATH"]


def test_the_effective_settings_mask_them() -> None:
    """What `warmgate check` prints can be pasted into an issue."""
    text = masked(parsed(with_worker(api_key="sk-hidden")))

    assert "hidden" not in text
    assert "**********" == yaml.safe_load(text)["models"][0]["workers"][0]["api_key"]


def test_the_effective_settings_are_a_configuration() -> None:
    """The printed YAML loads again and means the same."""
    settings = load(EXAMPLE, {})

    assert settings == build(yaml.safe_load(masked(settings)), {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:hidden@h:1/0", "redis://**********@h:1/0"),
        ("rediss://h/0?ssl_password=hidden&db=1", "rediss://h/0?ssl_password=**********&db=1"),
        ("redis://h", "redis://h"),
        ("sqlite:///warmgate.db", "sqlite:///warmgate.db"),
    ],
)
def test_the_password_of_a_store_is_not_shown(url: str, shown: str) -> None:
    assert shown == yaml.safe_load(masked(parsed(f"{SMALLEST}\nstore: {{url: '{url}'}}")))["store"]["url"]
