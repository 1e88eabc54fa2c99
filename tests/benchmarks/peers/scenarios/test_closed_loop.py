import pytest

from benchmarks.peers.entrants import ENTRANTS, LITELLM, NGINX, OURS, SGLANG
from benchmarks.peers.scenarios.closed_loop import (
    STUB,
    Case,
    bar_against,
    beside_ours,
    best_of,
    by_processor_time,
    by_rate,
    connections,
    errors_of_ours,
    remarks,
    table,
)
from tests.benchmarks.measurements import measured

CASE = Case("Requests")


def test_a_bar_is_against_the_same_round() -> None:
    """Half the rate on a machine that became twice as slow is no change."""
    found = [measured(OURS, 120), measured(SGLANG, 100), measured(OURS, 60, round_number=1)]
    found.append(measured(SGLANG, 50, round_number=1))
    (bar,) = bar_against(found, SGLANG, "requests", "requests per s", 1.0)

    assert pytest.approx(1.2) == bar.value
    assert bar.is_met


@pytest.mark.parametrize("other", [None, "nobody"])
def test_there_is_no_bar_against_somebody_who_is_not_there(other: str | None) -> None:
    assert [] == bar_against([measured(OURS, 120)], other, "requests", "requests per s", 1.0)


def test_the_best_is_who_has_the_highest_median_of_those_asked_about() -> None:
    found = [measured("a", 100), measured("b", 300), measured("c", 900)]

    assert "b" == best_of(found, "requests", ["a", "b", "nobody"])
    assert best_of(found, "requests", ["nobody"]) is None


def test_processor_time_counts_where_the_clock_deceives() -> None:
    found = [measured(OURS, 500, cpu=0.5), measured(NGINX, 1_000, cpu=1.0)]

    ratio = by_processor_time(found, OURS, NGINX)

    assert ratio is not None
    assert pytest.approx(1.0) == ratio.median


def test_there_is_no_ratio_to_somebody_who_answered_nothing() -> None:
    """In the time there was: slow ones on a busy machine."""
    found = [measured(OURS, 500), measured(LITELLM, 0.0), measured(NGINX, 0.0, cpu=0.0)]

    assert by_rate(found, OURS, "requests", LITELLM) is None
    assert by_processor_time(found, OURS, NGINX) is None
    assert [] == bar_against(found, LITELLM, "requests", "requests per s", 1.0)


def test_the_table_has_a_line_for_each_and_no_ratio_for_the_worker_itself() -> None:
    found = [measured(STUB, 2_000), measured(NGINX, 1_000), measured(OURS, 200)]
    rows = {row[0]: row for row in table(CASE, found).rows}

    assert {STUB, NGINX, OURS} == set(rows)
    assert rows[STUB][2] is None
    assert "0.2 (0.2 – 0.2)" == str(rows[OURS][2])


def test_ours_stands_beside_everybody_but_the_worker() -> None:
    beside = beside_ours(CASE, [measured(STUB, 2_000), measured(NGINX, 1_000), measured(OURS, 200)])

    assert beside is not None
    assert [NGINX] == [row[0] for row in beside.rows]
    assert beside_ours(CASE, [measured(NGINX, 1_000)]) is None


def test_slow_ones_get_no_more_than_32_connections() -> None:
    many = Case("512 connections", connections=512)

    assert [512, 512, 32] == [connections(many, each) for each in (None, ENTRANTS[OURS], ENTRANTS[LITELLM])]
    assert 1 == connections(Case("1 connection", connections=1), ENTRANTS[LITELLM])


def test_a_machine_that_was_not_quiet_and_an_idle_nginx_are_reported() -> None:
    notes = remarks({CASE: [measured(NGINX, 1_000, cpu=0.5, noise=0.3)]})

    assert ["30% of the proxy's core" in notes[0], "nginx left its core idle" in notes[1]] == [True, True]
    assert [] == remarks({CASE: [measured(NGINX, 1_000, cpu=0.99)]})


def test_errors_are_counted_of_ours_only() -> None:
    assert 0 == errors_of_ours({CASE: [measured(OURS, 1.0), measured(SGLANG, 1.0)]})
