import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.fallbacks.spill_budget import HeldBudget, NoRoom, SpillBudget, SpillLimits

DOLLAR = SpillLimits(usd_per_hour=1.0)


def test_what_is_held_counts_before_it_is_spent() -> None:
    """500 requests at once get no more than the budget."""
    budget = SpillBudget()
    let_in = 0
    for _ in range(500):
        if budget.lack(DOLLAR, 0.01, 0.0) is None:
            budget.reserve(0.01, 0.0)
            let_in += 1

    assert 100 == let_in
    assert (1.0, 0.0) == pytest.approx((budget.held_usd, budget.spent_usd(0.0)))


def test_what_was_not_spent_is_free_again() -> None:
    budget = SpillBudget()
    spill = budget.reserve(1.0, 0.0)
    assert NoRoom("budget", 5.0) == budget.lack(DOLLAR, 0.5, 0.0)
    budget.settle(spill, 0.25, 10.0)

    assert budget.lack(DOLLAR, 0.5, 10.0) is None
    assert (0.25, 0.0) == (budget.spent_usd(10.0), budget.held_usd)


def test_after_an_hour_there_is_room_again() -> None:
    budget = SpillBudget()
    budget.settle(budget.reserve(1.0, 0.0), 1.0, 30.0)

    assert NoRoom("budget", 3600.0) == budget.lack(DOLLAR, 0.5, 60.0)
    assert budget.lack(DOLLAR, 0.5, 3660.0) is None


def test_a_request_that_costs_more_than_an_hour_may_never_goes() -> None:
    assert NoRoom("budget", None) == SpillBudget().lack(DOLLAR, 1.5, 0.0)


def test_a_budget_of_nothing_lets_nothing_pass() -> None:
    assert NoRoom("budget", None) == SpillBudget().lack(SpillLimits(usd_per_hour=0.0), 0.01, 0.0)
    assert SpillBudget().lack(SpillLimits(usd_per_hour=0.0), 0.0, 0.0) is None


def test_no_more_than_a_share_of_the_requests_spills() -> None:
    limits, budget = SpillLimits(share=0.2), SpillBudget()
    let_in = 0
    for second in range(50):
        budget.note_request(float(second))
        if budget.lack(limits, 0.0, float(second)) is None:
            budget.reserve(0.0, float(second))
            let_in += 1

    assert 10 == let_in


def test_a_few_spill_however_small_the_share_is() -> None:
    limits, budget = SpillLimits(share=0.01), SpillBudget()
    budget.note_request(0.0)
    for _ in range(3):
        assert budget.lack(limits, 0.0, 0.0) is None
        budget.reserve(0.0, 0.0)

    assert NoRoom("share", 61.0) == budget.lack(limits, 0.0, 0.0)
    assert budget.lack(limits, 0.0, 61.0) is None


def test_a_share_of_nothing_is_nothing() -> None:
    assert NoRoom("share", None) == SpillBudget().lack(SpillLimits(share=0.0), 0.0, 0.0)


def test_who_was_not_served_did_not_spill() -> None:
    limits, budget = SpillLimits(share=0.01), SpillBudget()
    spills = [budget.reserve(0.5, 0.0) for _ in range(3)]
    budget.give_back(spills[0], 1.0)

    assert budget.lack(limits, 0.0, 1.0) is None
    assert 1.0 == budget.held_usd


def test_what_is_given_back_late_is_not_taken_from_others() -> None:
    """The minute in which it spilled is over."""
    limits, budget = SpillLimits(share=0.01), SpillBudget()
    late = budget.reserve(0.0, 0.0)
    for _ in range(3):
        budget.reserve(0.0, 90.0)
    budget.give_back(late, 100.0)

    assert NoRoom("share", 51.0) == budget.lack(limits, 0.0, 100.0)


def test_without_limits_everything_passes() -> None:
    assert SpillBudget().lack(SpillLimits(), 1e9, 0.0) is None


STEPS = st.lists(
    st.tuples(st.floats(0, 900), st.floats(0, 0.5), st.sampled_from(["ask", "settle", "give back"]), st.floats(0, 1)),
    max_size=80,
)


@given(STEPS)
def test_spent_and_held_never_exceed_the_hour(steps: list[tuple[float, float, str, float]]) -> None:
    """Against every single sum; and what fits by a minute more than an hour is let in."""
    budget, now = SpillBudget(), 0.0
    held: list[tuple[HeldBudget, float]] = []
    spent: list[tuple[float, float]] = []
    for pause_s, usd, what, share in steps:
        now += pause_s
        if what == "ask":
            standing = sum(each for _, each in held) + usd
            refused = budget.lack(DOLLAR, usd, now) is not None
            assert refused or standing + sum(each for at, each in spent if at > now - 3600.0) <= 1.0 + 1e-6
            assert not refused or standing + sum(each for at, each in spent if at >= now - 3660.0) > 1.0 - 1e-6
            if not refused:
                held.append((budget.reserve(usd, now), usd))
        elif held and what == "settle":
            spill, reserved = held.pop(int(share * (len(held) - 1)))
            budget.settle(spill, reserved * share, now)
            spent.append((now, reserved * share))
        elif held:
            budget.give_back(held.pop(0)[0], now)
