import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.routing.load import RATIO, LoadSearch, NoLoadFoundError


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0.2, 8.0), min_size=1), st.floats(0.5, 3.0))
def test_the_load_is_the_highest_that_any_of_them_keeps(bearable: dict[str, float], first: float) -> None:
    """Each router's p90 is above 4 s just above the load that it can bear."""
    search = LoadSearch(list(bearable), lambda router, load: 4.0 * load / bearable[router])
    found = search.highest(first)

    assert max(bearable.values()) / RATIO <= found <= max(bearable.values())


def test_a_load_that_is_kept_costs_one_look_once_the_best_is_known() -> None:
    search = LoadSearch(["slow", "fast"], lambda router, load: load * {"slow": 9.0, "fast": 1.0}[router])
    search.highest(2.0)
    kept = [look for look in search.looks if look.load < 4.0]

    assert "slow" == search.looks[0].router
    assert ["fast"] * (len(kept) - 1) == [look.router for look in kept[1:]]


def test_no_one_is_looked_at_above_a_load_that_was_too_much() -> None:
    search = LoadSearch(["slow", "fast"], lambda router, load: load * {"slow": 9.0, "fast": 1.0}[router])
    search.highest(2.0)

    assert [2.0] == [look.load for look in search.looks if look.router == "slow"]


def test_all_looks_are_reported() -> None:
    search = LoadSearch(["only"], lambda _, load: 5.0 * load)
    search.highest(1.0)

    assert (1.0, 5.0) == (search.looks[0].load, search.looks[0].ttft_p90_s)
    assert all(look.ttft_p90_s == 5.0 * look.load for look in search.looks)


@pytest.mark.parametrize(("p90_s", "reason"), [(0.1, "within"), (99.0, "above")])
def test_a_limit_that_no_load_reaches_ends_the_search(p90_s: float, reason: str) -> None:
    with pytest.raises(NoLoadFoundError, match=f"{reason} 4 s"):
        LoadSearch(["any"], lambda *_: p90_s).highest(1.0)
