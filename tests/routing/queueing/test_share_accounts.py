"""Accounts of those who share something."""

import random

from hypothesis import given
from hypothesis import strategies as st

from routing.queueing import share_accounts as module
from routing.queueing.share_accounts import ShareAccounts


def test_who_was_served_comes_after_who_was_not() -> None:
    """The charge is the cost."""
    turns: ShareAccounts[str] = ShareAccounts()
    turns.charge("blue", 3.0)
    turns.charge("red", 1.0)

    assert [3.0, 1.0, 0.0] == [turns.account(name) for name in ("blue", "red", "green")]


def test_who_was_idle_has_saved_nothing() -> None:
    """It stands where the one is that was served last, not at the beginning."""
    turns: ShareAccounts[str] = ShareAccounts()
    for _ in range(10):
        turns.charge("blue", 1.0)

    assert (10.0, 9.0) == (turns.account("blue"), turns.account("red"))


def test_who_owes_nothing_is_forgotten_where_there_are_too_many() -> None:
    """Names come and go; what is remembered stays bounded."""
    turns: ShareAccounts[int] = ShareAccounts()
    for name in range(3 * module.MAX_NAMES):
        turns.charge(name, 1.0)
        turns.charge(-1, 2.0)

    assert module.MAX_NAMES >= len(turns._accounts)


@given(
    st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.01, 5.0)), min_size=2, max_size=6),
    st.randoms(use_true_random=False),
)
def test_shares_differ_from_weights_by_a_request_of_each(owners: list[tuple[float, float]], rng: random.Random) -> None:
    """Any two who always wait have had work in proportion to their weights, but for the greatest request of each."""
    turns: ShareAccounts[int] = ShareAccounts()
    served = [0.0] * len(owners)
    for _ in range(200):
        owner = min(range(len(owners)), key=turns.account)
        weight, most = owners[owner]
        cost = rng.uniform(0.0, most)
        served[owner] += cost / weight
        turns.charge(owner, cost / weight)
        allowed = [most / weight for weight, most in owners]

        for one in range(len(owners)):
            for other in range(one):
                assert abs(served[one] - served[other]) <= allowed[one] + allowed[other] + 1e-9


def test_who_has_had_nothing_since_it_was_idle_stands_first() -> None:
    """No later owner can be before it. A served owner stands behind until the others were served."""
    turns: ShareAccounts[str] = ShareAccounts()
    used = [turns.is_used]
    turns.charge("blue", 3.0)
    assert [False, True] == [turns.stands_first(name) for name in ("blue", "red")]
    turns.charge("red", 1.0)
    assert [False, False, True] == [turns.stands_first(name) for name in ("blue", "red", "green")]
    for _ in range(3):
        turns.charge("red", 1.0)

    assert [False, True] == [*used, turns.is_used]
    assert [True, False] == [turns.stands_first(name) for name in ("blue", "red")]
