"""The values that a held request derives from its limits."""

import math

from routing.queueing.waiting import Waiting
from routing.request import HIGH, NORMAL
from tests.routing.examples import A, a_request

ASKED = a_request().changed(team="blue", weight=2.0, priority=HIGH, wanted_in_s=20.0, deadline_s=10.0)


def test_who_shares_has_a_team_a_weight_and_a_class() -> None:
    """A deadline sets when its caller goes; it becomes urgent while a fifth of that is left."""
    each = Waiting(ASKED, 5.0, begins_session=False)

    assert ("blue", 2.0, HIGH) == (each.team, each.weight, each.level)
    assert (15.0, 8.0) == (each.gives_up_at, each.due_in_s)


def test_who_is_alone_has_none_of_them() -> None:
    """Only the wanted time counts."""
    each = Waiting(ASKED, 5.0, begins_session=False, shares=False)

    assert ("", 1.0, NORMAL) == (each.team, each.weight, each.level)
    assert (math.inf, 20.0) == (each.gives_up_at, each.due_in_s)


def test_who_says_nothing_waits_for_ever() -> None:
    """Nothing is urgent."""
    each = Waiting(a_request(), 5.0, begins_session=False)

    assert (math.inf, math.inf) == (each.gives_up_at, each.due_in_s)


def test_who_may_go_elsewhere_says_when() -> None:
    """This holds without teams as well."""
    asked = a_request().changed(spill_in_s=3.0)

    assert [3.0, 3.0] == [
        Waiting(asked, 0.0, begins_session=False, shares=shares).spill_in_s for shares in (True, False)
    ]
    assert Waiting(a_request(), 0.0, begins_session=False).spill_in_s is None


def test_only_the_worker_that_keeps_a_response_can_continue_it() -> None:
    """It does not go elsewhere, whatever it says."""
    asked = a_request(pinned=A).changed(spill_in_s=3.0)

    assert Waiting(asked, 0.0, begins_session=False).spill_in_s is None
