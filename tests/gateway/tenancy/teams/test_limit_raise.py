"""Temporary raises: which limits they raise, and for how long."""

from gateway.tenancy.teams.limit_raise import LimitRaise, live_raises, raised_amount

LAUNCH = LimitRaise("r1", "user", "alice", "tokens_per_day", 500.0, 100.0, "launch")
LATER = LimitRaise("r2", "user", "alice", "tokens_per_day", 300.0, 200.0, "evaluation")


def amount_at(now: float, name: str = "alice", model: str | None = None) -> float:
    return raised_amount(
        200.0, (LAUNCH, LATER), scope="user", name=name, model=model, measure="tokens_per_day", now=now
    )


def test_the_highest_raise_counts_until_it_ends() -> None:
    assert [500.0, 300.0, 300.0, 200.0] == [amount_at(now) for now in (99.9, 100.0, 199.9, 200.0)]


def test_a_raise_is_one_of_its_own_limit_only() -> None:
    assert [200.0, 200.0] == [amount_at(50.0, name="bob"), amount_at(50.0, model="tiny")]


def test_a_raise_below_the_limit_changes_nothing() -> None:
    found = raised_amount(900.0, (LAUNCH,), scope="user", name="alice", model=None, measure="tokens_per_day", now=50.0)

    assert 900.0 == found


def test_raises_that_have_ended_are_left_out() -> None:
    assert (LATER,) == live_raises((LAUNCH, LATER), 100.0)
