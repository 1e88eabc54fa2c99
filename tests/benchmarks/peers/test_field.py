from pathlib import Path

import pytest

from benchmarks.bench import Bench, Target
from benchmarks.peers.entrants import CACHE_AWARE, ENTRANTS, LITELLM, Entrant, Stage, Wheel
from benchmarks.peers.field import Field, Setting, set_up_notes
from benchmarks.processes import ChildFailedError, Processes


def fails(stage: Stage, workers: object) -> Target:
    raise ChildFailedError("it fell over")


def a_field(processes: Processes, *entrants: Entrant) -> Field:
    bench = Bench(processes, proxy_core=0, load_core=0, connections=1, seed=1)
    return Field(Stage(bench, Wheel()), entrants)


def test_what_was_not_asked_for_is_the_scenarios_own() -> None:
    wanted = Setting(seed=7, rounds=2).or_else(rounds=5, seconds=3.0)

    assert (7, 2, 3.0) == (wanted.seed, wanted.rounds, wanted.seconds)
    assert list(CACHE_AWARE) == [entrant.name for entrant in wanted.entrants]


def test_who_does_not_start_is_named_and_the_others_go_on() -> None:
    """A report without a row says why."""
    with Processes() as processes:
        field = a_field(processes, Entrant("somebody", fails))

        assert [] == field.start(["http://127.0.0.1:1"])
        assert ["somebody did not start, or did not answer: it is not in the tables."] == field.missing


def test_without_ours_there_is_nothing_to_measure() -> None:
    with Processes() as processes, pytest.raises(ChildFailedError, match="it fell over"):
        a_field(processes, Entrant("warmgate", fails, is_ours=True)).start(["http://127.0.0.1:1"])


def test_the_slow_ones_are_named_where_there_are_some() -> None:
    all_of_them = Setting().or_else(rounds=1, seconds=1.0)
    one = Setting(entrants=(ENTRANTS["nginx"],), results=Path()).or_else(rounds=1, seconds=1.0)

    assert LITELLM in set_up_notes(all_of_them, workers="two")[-1]
    assert not any(LITELLM in note for note in set_up_notes(one, workers="two"))


def test_what_is_not_the_wheel_is_reported() -> None:
    """Figures of something else must not pass for ours."""
    given = Setting(wheel=Wheel(Path("somewhere"))).or_else(rounds=1, seconds=1.0)
    built = Setting(wheel=Wheel()).or_else(rounds=1, seconds=1.0)

    assert "not the wheel" in set_up_notes(given, workers="two")[1]
    assert "the wheel that the image holds" in set_up_notes(built, workers="two")[1]
