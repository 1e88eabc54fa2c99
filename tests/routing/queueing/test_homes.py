"""Prompts have 16 tokens to the letter, at 1 ms per token."""

import numpy as np
import pytest

from routing.fleet import Fleet
from routing.queueing.homes import Homes
from routing.queueing.release_policy import ReleasePolicy
from routing.queueing.waiting import Waiting
from routing.request import Request
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.routing.examples import ANSWERED, A, B, a_fleet, a_request, book, seeded


def a_stage(fleet: Fleet, request: Request, strategy: str = "kv_aware") -> tuple[Homes, Waiting]:
    """*request* has been looked up at 0.0."""
    strategies = StrategiesByName(strategy, lambda name: STRATEGIES[name](seeded()))
    homes = Homes(fleet, strategies, ReleasePolicy(), seeded(), None)
    each = Waiting(request, 0.0, begins_session=True)
    homes.note_workers([each])
    homes.look_up(each, 0.0)
    return homes, each


def warm_fleet() -> Fleet:
    """Worker B holds the prompt "abcdef"."""
    fleet = a_fleet(A, B)
    fleet.bookings.release(book(fleet, a_request("abcdef"), 0.0, B), ANSWERED, 0.0)
    return fleet


def test_the_home_is_the_worker_that_holds_the_prompt() -> None:
    homes, each = a_stage(warm_fleet(), a_request("abcdef"))
    view = homes.view([each], 0.0, counts_room=False)

    assert 1 == homes.find(each, view, view.is_free())


def test_requests_that_stand_before_it_count() -> None:
    """A second of them costs more than computing the prompt elsewhere."""
    homes, each = a_stage(warm_fleet(), a_request("abcdef"))
    view = homes.view([each], 0.0, counts_room=False)
    view.backlog_s[1] += 1.0

    assert 0 == homes.find(each, view, view.is_free())


def test_a_pinned_request_has_one_home() -> None:
    homes, each = a_stage(warm_fleet(), a_request("abcdef").changed(pinned=A))
    view = homes.view([each], 0.0, counts_room=False)

    assert 0 == homes.find(each, view, view.is_free())


@pytest.mark.parametrize("strategy", ["least_loaded", "session"])
def test_without_a_session_any_free_worker_will_do(strategy: str) -> None:
    """The worker with the shortest backlog is chosen, whatever its cache holds."""
    homes, each = a_stage(warm_fleet(), a_request("abcdef"), strategy)
    view = homes.view([each], 0.0, counts_room=False)
    view.backlog_s[:] = (0.5, 1.0)

    assert 0 == homes.find(each, view, np.array([True, True]))
    assert 1 == homes.find(each, view, np.array([False, True])), "a free worker goes before a busy one"


def test_workers_that_change_are_looked_up_again() -> None:
    fleet = a_fleet(A)
    homes, each = a_stage(fleet, a_request("abc"))
    found = list(each.order)
    fleet.set_workers([B], 1.0)
    homes.note_workers([each])

    assert (["a"], []) == ([candidate.worker for candidate in found], each.order)


def test_the_choice_goes_first_and_all_candidates_follow() -> None:
    homes, each = a_stage(warm_fleet(), a_request("abcdef"))

    place, order = homes.choose(each, 0, np.array([True, False]))

    assert (0, ["a", "b"]) == (place, [candidate.worker for candidate in order])


@pytest.mark.parametrize(("begins_session", "home"), [(True, 0), (False, 1)])
def test_a_new_session_begins_where_fewer_sessions_live(begins_session: bool, home: int) -> None:
    """Worker B holds the prompt and has 12 live sessions. A request of a known session stays there."""
    fleet = warm_fleet()
    fleet.set_capacity(B, blocks=100, block_size=16)
    for number in range(12):
        for _ in range(4):
            request = a_request("abcd", session=str(number))
            fleet.sessions.begins(request)
            fleet.sessions.sent(request, B, 64.0)
    homes, each = a_stage(fleet, a_request("abcdef"))
    each.begins_session = begins_session
    homes.look_up(each, 0.0)
    view = homes.view([each], 0.0, counts_room=False)

    assert home == homes.find(each, view, view.is_free())
