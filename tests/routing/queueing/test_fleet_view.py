"""Workers as those who wait for one see them at one moment."""

import numpy as np

from routing.fleet import Fleet
from routing.queueing.fleet_view import FleetView
from routing.queueing.release_policy import ReleasePolicy
from tests.routing.examples import A, B, C, a_fleet, a_request, book


def view_of(fleet: Fleet, *, counts_room: bool = False, **policy: float) -> FleetView:
    return FleetView.at(list(fleet), ReleasePolicy(**policy), 0.0, counts_room=counts_room)  # type: ignore[arg-type]


def a_busy_fleet() -> Fleet:
    """a has a prompt of four letters to compute, b nothing, c is down."""
    fleet = a_fleet(A, B, C)
    book(fleet, a_request("wxyz"), 0.0, A)
    fleet.set_up(C, up=False)
    return fleet


def test_backlogs_are_those_that_the_fleet_believes() -> None:
    """To who is down nothing can be sent, however long one waits."""
    fleet = a_busy_fleet()
    believed_s = fleet.worker(A).load(0.0).backlog_s

    assert believed_s > 0.05
    assert [believed_s, 0.0, np.inf] == list(view_of(fleet).backlog_s)


def test_who_is_about_to_be_free_takes_more() -> None:
    """The policy sets how soon that is."""
    fleet = a_busy_fleet()

    assert [False, True, False] == list(view_of(fleet).is_free())
    assert [True, True, False] == list(view_of(fleet, depth_s=1.0).is_free())


def test_room_counts_only_where_it_is_wanted() -> None:
    """Else a backlog alone says who takes more."""
    fleet = a_busy_fleet()

    assert [np.inf, np.inf, np.inf] == list(view_of(fleet).room)
    assert view_of(fleet, counts_room=True).room[0] < 1.0 <= view_of(fleet, counts_room=True).room[1]


def test_who_has_no_room_left_takes_nothing() -> None:
    """Sent work is added to the view."""
    view = view_of(a_busy_fleet(), counts_room=True)
    view.room[1] = 0.0

    assert [False, False, False] == list(view.is_free())


def test_a_second_of_prefill_is_worth_more_waiting_on_a_busy_fleet() -> None:
    """The price is 1 while all workers are idle, and never above that of the policy."""
    fleet = a_fleet(A)
    idle = view_of(fleet).price
    book(fleet, a_request("x" * 1500), 0.0)  # 28 s
    busy = FleetView.at(list(fleet), ReleasePolicy(), 25.0, counts_room=False).price

    assert 1.0 == idle
    assert 1.5 < busy <= 3.0
    assert 1.25 == FleetView.at(list(fleet), ReleasePolicy(price=1.25), 25.0, counts_room=False).price
