from pathlib import Path

import pytest

from benchmarks.peers.environment import PEERS
from benchmarks.peers.routers import Place, SglangGateway
from benchmarks.peers.routing.entrants import DEFAULT, ENTRANTS, Ours, Pace, Theirs, settings_of, smg
from gateway.settings.source import build

WORKERS = ["http://127.0.0.1:1"]


def test_settings_are_ones_that_the_gateway_takes() -> None:
    settings = build(settings_of("kv_aware", WORKERS, Path("folder"), Pace(1.0, 1)), {})

    assert "kv_aware" == settings.models[0].strategy
    assert ("local", "folder") == (settings.models[0].tokenizer.source, settings.models[0].tokenizer.path)
    assert WORKERS == [worker.url for worker in settings.models[0].workers]


def test_in_earnest_they_are_the_defaults() -> None:
    data = settings_of("kv_aware", WORKERS, Path("folder"), Pace(1.0, 1))
    settings, plain = build(data, {}), build({"models": data["models"]}, {})

    for group in ("routing", "kv_events", "queue", "health"):
        assert getattr(plain, group) == getattr(settings, group)


def test_what_is_said_in_seconds_is_as_fast_as_the_workers() -> None:
    settings = build(settings_of("kv_aware", WORKERS, Path("folder"), Pace(5.0, 4)), {})

    assert (0.01, 24.0) == (settings.advanced.release_depth_s, settings.routing.max_wait_s)
    assert 2500.0 == settings.advanced.initial_prefill_tokens_per_s
    assert 1.0 == settings.advanced.kv_prediction_s


@pytest.mark.parametrize("name", list(ENTRANTS))
def test_everybody_has_a_name_of_their_own_and_others_a_version(name: str) -> None:
    entrant = ENTRANTS[name](None)

    assert 1 == sum(ENTRANTS[other](None).name == entrant.name for other in ENTRANTS)
    assert entrant.is_ours == (entrant.pins == ())


def test_who_is_compared_where_no_one_says_is_known() -> None:
    assert set(DEFAULT) <= set(ENTRANTS)


def test_a_version_is_that_of_the_environment() -> None:
    assert PEERS["sglang"].requirements == Theirs(lambda _: SglangGateway()).pins


@pytest.mark.parametrize(("speed", "interval"), [(1.0, "10"), (4.0, "2"), (100.0, "1")])
def test_what_smg_has_in_seconds_is_as_fast_as_the_workers(speed: float, interval: str, tmp_path: Path) -> None:
    command = smg(Pace(speed, 1)).command(Place(tmp_path, tmp_path, 4001, 4002), WORKERS)

    assert interval == command[command.index("--load-monitor-interval") + 1]


def test_ours_needs_nothing_to_be_installed() -> None:
    entrant = Ours("kv_aware")
    entrant.prepare()

    assert "warmgate kv_aware" == entrant.name
