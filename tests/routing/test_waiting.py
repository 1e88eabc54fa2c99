"""What a request in the queue says of itself."""

import math

import msgspec

from routing.request import HIGH, NORMAL
from routing.waiting import Waiting
from tests.routing.examples import a_request

ASKED = msgspec.structs.replace(a_request(), team="blue", weight=2.0, priority=HIGH, wanted_in_s=20.0, deadline_s=10.0)


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
