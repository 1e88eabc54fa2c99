"""What a request in the queue says of itself."""

import math

import pytest

from routing.request import HIGH, NORMAL
from routing.waiting import Waiting, longest_wait_s
from tests.routing.examples import A, a_request

ASKED = a_request().changed(team="blue", weight=2.0, priority=HIGH, wanted_in_s=20.0, deadline_s=10.0)


def test_who_shares_has_a_team_a_weight_and_a_class() -> None:
    """And a time at which its caller goes; it becomes urgent while a fifth of that is left."""
    each = Waiting(ASKED, 5.0, begins_session=False)

    assert ("blue", 2.0, HIGH) == (each.team, each.weight, each.level)
    assert (15.0, 8.0) == (each.gives_up_at, each.due_in_s)


def test_who_is_alone_has_none_of_them() -> None:
    """Only when it is wanted counts."""
    each = Waiting(ASKED, 5.0, begins_session=False, shares=False)

    assert ("", 1.0, NORMAL) == (each.team, each.weight, each.level)
    assert (math.inf, 20.0) == (each.gives_up_at, each.due_in_s)


def test_who_says_nothing_waits_for_ever() -> None:
    """Nothing is urgent."""
    each = Waiting(a_request(), 5.0, begins_session=False)

    assert (math.inf, math.inf) == (each.gives_up_at, each.due_in_s)


def test_who_may_go_elsewhere_says_when() -> None:
    """Also where no teams are told apart."""
    asked = a_request().changed(spill_in_s=3.0)

    assert [3.0, 3.0] == [
        Waiting(asked, 0.0, begins_session=False, shares=shares).spill_in_s for shares in (True, False)
    ]
    assert Waiting(a_request(), 0.0, begins_session=False).spill_in_s is None


def test_what_one_worker_keeps_nobody_else_can_go_on_with() -> None:
    """It does not go elsewhere, whatever it says."""
    asked = a_request(pinned=A).changed(spill_in_s=3.0)

    assert Waiting(asked, 0.0, begins_session=False).spill_in_s is None


@pytest.mark.parametrize(
    ("within_s", "prefill_s", "longest_s"), [(10.0, 4.0, 6.0), (10.0, 9.0, 2.0), (10.0, 60.0, 2.0)]
)
def test_a_fifth_of_the_time_is_always_there_to_wait_in(within_s: float, prefill_s: float, longest_s: float) -> None:
    """However long the prefill is believed to take."""
    assert longest_s == longest_wait_s(within_s, prefill_s)
