import pytest

from benchmarks.report import Spread
from benchmarks.scenarios.outcome import Outcome
from benchmarks.scenarios.tables import change, costs, median, sensitivity, times
from tests.benchmarks.scenarios.examples import OUTCOME, outcome


def with_p50(*values: float) -> list[Outcome]:
    return [outcome(ttft_p50_s=value) for value in values]


FOUND = {"round_robin": with_p50(1.0, 2.0, 4.0), "kv_aware": with_p50(0.1, 0.4, 0.2)}


def test_each_seed_is_compared_with_its_own_round_robin() -> None:
    """A tenth, a fifth, a twentieth are left: not the ratio of the medians."""
    found = change(FOUND, "kv_aware", "ttft_p50_s")

    assert pytest.approx((-0.9, -0.95, -0.8)) == (found.median, found.lowest, found.highest)
    assert 0.2 == median(FOUND, "kv_aware", "ttft_p50_s")


def test_times_have_a_spread_only_where_there_are_seeds() -> None:
    """One figure alone is shown as it is."""
    one = times("one", {"round_robin": [OUTCOME], "kv_aware": with_p50(0.1)})
    many = times("many", FOUND)

    assert ("kv_aware", 70, 0.2, 1.0, 0.1) == tuple(one.rows[1][:5])
    assert "-90 %" == one.rows[1][8]
    assert Spread(0.2, 0.1, 0.4, 3) == many.rows[1][4]
    assert "-90 % (-95 – -80)" == many.rows[1][8]


def test_costs_are_gpu_seconds_times_the_price() -> None:
    """1,000 GPU-seconds at 7.2 USD an hour are 2 USD."""
    table = costs("costs", {"round_robin": [OUTCOME], "kv_aware": with_p50(0.1)}, 7.2)

    assert ("kv_aware", 10.0, 100.0, 0.5, 1_000.0, 2.0, "+0 %", "+0 %") == tuple(table.rows[1])


def test_a_row_for_each_case_has_round_robin_s_figure_and_the_changes() -> None:
    table = sensitivity("knob", "users", {"5": FOUND}, {"ttft_p50_s": "p50"})

    assert ("users", "hit rate: round robin", "hit rate: kv_aware", "p50: round robin", "p50: kv_aware") == tuple(
        table.columns
    )
    assert [["5", 0.2, 0.2, 2.0, "-90 %"]] == [list(row) for row in table.rows]
