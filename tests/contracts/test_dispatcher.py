"""What the proxy expects of any `Dispatcher`."""

from collections.abc import Callable

import pytest

from routing.dispatcher import Dispatch, Dispatcher, Immediate
from routing.fleet import Fleet
from routing.strategies.least_loaded import LeastLoaded
from routing.strategy import Strategy
from tests.routing.examples import ABORTED, ANSWERED, FAILED, A, B, C, a_fleet, a_request, book, seeded

DISPATCHERS: list[Callable[[Fleet, Strategy], Dispatcher]] = [Immediate]


@pytest.fixture(params=DISPATCHERS)
def make(request: pytest.FixtureRequest) -> Callable[[Fleet], Dispatcher]:
    """A dispatcher over a fleet, ranking by least load."""
    factory: Callable[[Fleet, Strategy], Dispatcher] = request.param
    return lambda fleet: factory(fleet, LeastLoaded(seeded()))


Make = Callable[[Fleet], Dispatcher]


def test_every_request_is_released_once(make: Make) -> None:
    """A hundred at once, some of which fail or lose their caller on the way."""
    fleet = a_fleet(A, B, C)
    dispatcher = make(fleet)
    requests = [a_request("x" * (i % 7)) for i in range(100)]
    for request in requests:
        dispatcher.submit(request, 0.0)
    released = drain(dispatcher, fleet)

    assert sorted(map(id, requests)) == sorted(id(each.request) for each in released)


def test_requests_that_come_one_by_one_are_all_released(make: Make) -> None:
    """An idle fleet answers each before the next is submitted."""
    fleet = a_fleet(A, B)
    dispatcher = make(fleet)
    for i in range(20):
        request = a_request("x" * i)
        dispatcher.submit(request, 10.0 * i)
        (released,) = drain(dispatcher, fleet, 10.0 * i)

        assert request is released.request


def test_an_idle_fleet_keeps_nobody_waiting(make: Make) -> None:
    """The first poll releases the request."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    dispatcher.submit(a_request("abc"), 5.0)

    assert 1 == len(dispatcher.poll(5.0))


def test_equal_requests_are_two(make: Make) -> None:
    """Two callers may ask the same; cancelling one leaves the other."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    one, other = a_request("abc"), a_request("abc")
    dispatcher.submit(one, 0.0)
    dispatcher.submit(other, 0.0)
    dispatcher.cancel(one)
    (released,) = drain(dispatcher, fleet)

    assert other is released.request


def test_a_cancelled_request_is_never_released(make: Make) -> None:
    """Its caller went away while it was held."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    requests = [a_request("x" * i) for i in range(10)]
    for request in requests:
        dispatcher.submit(request, 0.0)
    for request in requests[::2]:
        dispatcher.cancel(request)

    assert requests[1::2] == [each.request for each in drain(dispatcher, fleet)]


def test_cancelling_what_is_not_held_changes_nothing(make: Make) -> None:
    """It was released already, or was never submitted."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    request = a_request("abc")
    dispatcher.submit(request, 0.0)
    (released,) = dispatcher.poll(0.0)
    dispatcher.cancel(request)
    dispatcher.cancel(a_request("never"))

    assert [] == dispatcher.poll(1.0)
    assert released.booking is not None
    assert 1 == sum(worker.in_flight for worker in fleet)


def test_a_released_request_is_booked_on_the_first_of_its_order(make: Make) -> None:
    """The order holds every candidate once, and the booking counts as load."""
    fleet = a_fleet(A, B, C)
    for worker in (A, B):
        book(fleet, a_request(), 0.0, worker)
    dispatcher = make(fleet)
    request = a_request("abc")
    dispatcher.submit(request, 0.0)
    (released,) = dispatcher.poll(0.0)

    assert C == released.order[0].worker
    assert [A, B, C] == sorted(candidate.worker for candidate in released.order)
    assert released.booking is not None
    assert (C, request) == (released.booking.worker, released.booking.request)
    assert [1, 1, 1] == [worker.in_flight for worker in fleet]


def test_without_candidates_there_is_no_booking(make: Make) -> None:
    """The request is released all the same, so that the next tier can answer it."""
    dispatcher = make(a_fleet())
    dispatcher.submit(a_request("abc"), 0.0)
    (released,) = dispatcher.poll(0.0)

    assert ([], None, "none") == (released.order, released.booking, released.reason)


def test_workers_that_are_down_get_nothing(make: Make) -> None:
    """Not even as the last of the order."""
    fleet = a_fleet(A, B)
    fleet.set_up(A, up=False)
    dispatcher = make(fleet)
    dispatcher.submit(a_request("abc"), 0.0)
    (released,) = dispatcher.poll(0.0)

    assert [B] == [candidate.worker for candidate in released.order]


def test_requests_keep_their_identity(make: Make) -> None:
    """What comes out is the very object that went in, so that its caller can be found."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    request = a_request("abc")
    dispatcher.submit(request, 0.0)

    assert request is dispatcher.poll(0.0)[0].request


def drain(dispatcher: Dispatcher, fleet: Fleet, now: float = 0.0) -> list[Dispatch]:
    """Poll until nothing comes, ending what was released: answered, failed or aborted in turn."""
    released: list[Dispatch] = []
    while batch := dispatcher.poll(now):
        for each in batch:
            assert each.booking is not None
            now += 0.01
            fleet.first_byte(each.booking, now)
            fleet.release(each.booking, (ANSWERED, FAILED, ABORTED)[len(released) % 3], now)
            released.append(each)
    return released
