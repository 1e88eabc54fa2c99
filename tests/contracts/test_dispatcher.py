"""The contract that the proxy expects of any `Dispatcher`."""

from collections.abc import Callable
from typing import Protocol

import pytest

from cache_index import RadixTree
from routing.dispatcher import Dispatch, Dispatcher, Immediate, Refusal
from routing.fleet import Fleet
from routing.queueing.fair_queue import Fairness
from routing.queueing.late_binding import LateBinding
from routing.request import Request
from routing.strategies import NAMES, STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.routing.examples import ABORTED, ANSWERED, FAILED, A, B, C, a_fleet, a_request, book, seeded

DISPATCHERS: list[Callable[[Fleet, StrategiesByName], Dispatcher]] = [
    Immediate,
    lambda fleet, strategies: LateBinding(fleet, strategies, seeded()),
    lambda fleet, strategies: LateBinding(fleet, strategies, seeded(), fairness=Fairness()),
]


class Make(Protocol):
    def __call__(self, fleet: Fleet, strategy: str = "least_loaded") -> Dispatcher:
        """A dispatcher over *fleet*, ranking by *strategy*."""
        ...


@pytest.fixture(params=DISPATCHERS)
def make(request: pytest.FixtureRequest) -> Make:
    factory: Callable[[Fleet, StrategiesByName], Dispatcher] = request.param

    def made(fleet: Fleet, strategy: str = "least_loaded") -> Dispatcher:
        rng = seeded()
        return factory(fleet, StrategiesByName(strategy, lambda name: STRATEGIES[name](rng)))

    return made


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


def test_an_idle_fleet_keeps_no_one_waiting(make: Make) -> None:
    """The first poll releases the request."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    dispatcher.submit(a_request("abc"), 5.0)

    assert 1 == len(dispatcher.poll(5.0))


def test_all_who_wait_are_of_some_team(make: Make) -> None:
    fleet = a_fleet(A)
    dispatcher = make(fleet, "kv_aware")
    for team in ("blue", "blue", "red"):
        dispatcher.submit(a_request("x" * 500).changed(team=team), 0.0)
    released = dispatcher.poll(0.0)
    assert dispatcher.waiting == sum(dispatcher.waiting_by_team.values())
    assert 3 == dispatcher.waiting + len(released)
    assert [] == dispatcher.refused()
    dispatcher.hand_over()

    assert {} == dispatcher.waiting_by_team


def test_who_is_handed_over_is_not_there_any_more(make: Make) -> None:
    """Whether polled before or not."""
    fleet = a_fleet(A)
    dispatcher = make(fleet, "kv_aware")
    for _ in range(3):
        dispatcher.submit(a_request("x" * 500), 0.0)
    released = dispatcher.poll(0.0)
    dispatcher.submit(a_request("y" * 500), 1.0)
    since = [each[1] for each in dispatcher.hand_over()]

    assert sorted(since) == since
    assert 0 == dispatcher.waiting
    assert 4 >= len(since) + len(released) >= 3


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


@pytest.mark.parametrize("strategy", NAMES)
def test_the_dispatch_says_whose_order_it_is(make: Make, strategy: str) -> None:
    """The model's strategy, or the one that the request asks for."""
    fleet = a_fleet(A, B)
    dispatcher = make(fleet, strategy)
    dispatcher.submit(a_request("abc"), 0.0)
    dispatcher.submit(a_request("abc", strategy="session"), 0.0)

    assert {strategy, "session"} == {each.strategy for each in drain(dispatcher, fleet)}


@pytest.mark.parametrize("strategy", NAMES)
def test_an_explanation_is_what_the_request_gets(make: Make, strategy: str) -> None:
    """Order, hits, reason and strategy, while the fleet is idle and while it is not."""
    fleet = a_fleet(A, B, C)
    dispatcher = make(fleet, strategy)
    for i, letters in enumerate(["", "pqr", "pqrst", "xyz", "pqrstuvw", "xyzpq"]):
        request = a_request(letters, session=None if i % 2 else letters)
        explained = dispatcher.explain(request, 0.1 * i)
        dispatcher.submit(request, 0.1 * i)
        if not (polled := dispatcher.poll(0.1 * i)):
            dispatcher.cancel(request)  # it would have to wait
            continue
        (released,) = polled

        assert released.order == [place.candidate for place in explained.places]
        assert (released.request, released.reason, released.strategy) == (
            explained.request,
            explained.reason,
            explained.strategy,
        )


@pytest.mark.parametrize("strategy", NAMES)
def test_explaining_changes_nothing(make: Make, strategy: str) -> None:
    """Two gateways get the same traffic, and one explains all the time: turns, ties, loads, what was learned,
    breakers' probes and what full caches evict are the same in both.
    """
    silent, asked = (Traffic(make, strategy) for _ in range(2))
    for step in range(120):
        for other in ("abcdef", "pqrstu", "xyz"):
            asked.dispatcher.explain(a_request(other, session=other), asked.now)
        silent.step(step)
        asked.step(step)

        assert silent.seen == asked.seen
        assert silent.state == asked.state


def test_what_is_explained_is_not_held(make: Make) -> None:
    """Nothing is released of it, and nothing booked."""
    fleet = a_fleet(A)
    dispatcher = make(fleet)
    dispatcher.explain(a_request("abc"), 0.0)

    assert [] == dispatcher.poll(0.0)
    assert [0] == [worker.in_flight for worker in fleet]


def test_an_explanation_leaves_no_worker_out(make: Make) -> None:
    """One that is no candidate stands there with the reason."""
    fleet = a_fleet(A, B, C)
    fleet.set_up(A, up=False)
    fleet.set_asleep(C, asleep=True)
    explained = make(fleet).explain(a_request("abc"), 0.0)

    assert [(1, B)] == [(place.rank, place.candidate.worker) for place in explained.places]
    assert [(A, "down"), (C, "asleep")] == [(each.candidate.worker, each.why_not) for each in explained.excluded]
    assert "only_candidate" == explained.effective


def test_an_explanation_of_no_one(make: Make) -> None:
    """There is nothing to choose from."""
    explained = make(a_fleet()).explain(a_request("abc"), 0.0)

    assert ([], [], "none", "none") == (explained.places, explained.excluded, explained.reason, explained.effective)


def test_what_goes_on_at_once_waits_for_no_one(make: Make) -> None:
    """Every worker is busy and others wait: it is booked on the first of its order, and they wait on."""
    fleet = a_fleet(A, B)
    dispatcher = make(fleet, "kv_aware")
    for _ in range(4):
        dispatcher.submit(a_request("x" * 500), 0.0)
    dispatcher.poll(0.0)
    waiting = dispatcher.waiting
    request = a_request("y" * 500)
    released = dispatcher.at_once(request, 1.0)

    assert request is released.request
    assert released.booking is not None
    assert released.order[0].worker == released.booking.worker
    assert [A, B] == sorted(candidate.worker for candidate in released.order)
    assert waiting == dispatcher.waiting
    assert [] == [each for each in dispatcher.poll(1.0) if each.request is request]


def test_what_goes_on_at_once_is_never_refused(make: Make) -> None:
    """It has been answered in part: however late the rest comes, nothing else can give it."""
    fleet = a_fleet(A)
    teach(fleet)
    dispatcher = make(fleet)
    book(fleet, a_request("x" * 500), 10.0)
    released = dispatcher.at_once(a_request("abc").changed(spill_in_s=1.0, deadline_s=1.0), 10.0)

    assert released.booking is not None
    assert [] == dispatcher.refused()


def test_what_goes_on_at_once_finds_no_one_where_no_one_is(make: Make) -> None:
    """It is reported so."""
    released = make(a_fleet()).at_once(a_request("abc"), 0.0)

    assert ([], None, "none") == (released.order, released.booking, released.reason)


@pytest.mark.parametrize("strategy", NAMES)
def test_pools_are_tried_in_their_order(make: Make, strategy: str) -> None:
    """Whatever the strategy: workers of the first pool, then the reserves, each once; an explanation says the same."""
    fleet = a_fleet(A, B, C)
    fleet.members.set_tiers({A: 2, B: 1})
    dispatcher = make(fleet, strategy)
    request = a_request("abc", session="bob")
    explained = [place.candidate.worker for place in dispatcher.explain(request, 0.0).places]
    dispatcher.submit(request, 0.0)
    (released,) = dispatcher.poll(0.0)

    assert [C, B, A] == [candidate.worker for candidate in released.order] == explained
    assert [C, B, A] == [candidate.worker for candidate in dispatcher.at_once(a_request("xyz"), 0.0).order]


@pytest.mark.parametrize("strategy", NAMES)
def test_the_next_pool_is_used_where_the_first_is_too_busy(make: Make, strategy: str) -> None:
    fleet = a_fleet(A, B, C)
    fleet.members.set_tiers({C: 1})
    dispatcher = make(fleet, strategy)
    used = []
    for number, letter in enumerate("pqrstuvw"):
        dispatcher.submit(a_request(letter * 500, session=letter), 0.0)
        used += [(number, each.booking.worker) for each in dispatcher.poll(0.0) if each.booking is not None]
    first = [number for number, worker in used if worker == C]

    assert {A, B} <= {worker for number, worker in used if number < first[0]}


@pytest.mark.parametrize("strategy", NAMES)
def test_who_may_go_elsewhere_does_so_where_all_are_too_busy(make: Make, strategy: str) -> None:
    """It would wait for nine seconds, and wants its first token in two. Who may not is served here."""
    fleet = a_fleet(A, B)
    teach(fleet)
    for worker in (A, B):
        book(fleet, a_request("x" * 500), 10.0, worker)
    dispatcher = make(fleet, strategy)
    may, may_not = a_request("abc").changed(spill_in_s=2.0), a_request("abc")
    refused = ended(dispatcher, may, may_not, until=13.0)

    assert [(may, "spill")] == [(refusal.request, refusal.why) for refusal in refused]
    assert all(refusal.wait_s > 1.9 and refusal.retry_after_s >= 1.0 for refusal in refused)
    assert 0 == len([each for each in dispatcher.hand_over() if each[0] is may])


@pytest.mark.parametrize("strategy", NAMES)
def test_who_may_go_elsewhere_is_served_by_anyone_who_has_time(make: Make, strategy: str) -> None:
    """However long its own prefill is believed to take: nine seconds, and it wants its first token in two."""
    fleet = a_fleet(A, B)
    teach(fleet)
    dispatcher = make(fleet, strategy)
    dispatcher.submit(a_request("z" * 500).changed(spill_in_s=2.0), 10.0)

    assert 1 == len(dispatcher.poll(10.0))
    assert [] == dispatcher.refused()


def test_what_one_worker_keeps_is_waited_for(make: Make) -> None:
    """No one else can go on with it, so it is not refused for being late."""
    fleet = a_fleet(A, B)
    teach(fleet)
    book(fleet, a_request("x" * 500), 10.0, A)
    dispatcher = make(fleet)

    assert [] == ended(dispatcher, a_request("abc", pinned=A).changed(spill_in_s=2.0), until=14.0)


def teach(fleet: Fleet) -> None:
    """Each worker computed a prompt as fast as was believed."""
    for worker in fleet:
        booking = book(fleet, a_request("t" * 100), 0.0, worker.id)
        fleet.bookings.first_byte(booking, booking.work_s)
        fleet.bookings.release(booking, ANSWERED, booking.work_s)


def ended(dispatcher: Dispatcher, *requests: Request, until: float) -> list[Refusal]:
    """Refused requests among *requests*, which come at 10.0, if the dispatcher is polled as often as it asks for."""
    for request in requests:
        dispatcher.submit(request, 10.0)
    now: float | None = 10.0
    refused: list[Refusal] = []
    while now is not None and now <= until:
        dispatcher.poll(now)
        refused += dispatcher.refused()
        now = dispatcher.next_poll_at(now)
    return refused


class Traffic:
    """Three workers with small caches, one of which fails, under requests that come faster than they are answered."""

    def __init__(self, make: Make, strategy: str) -> None:
        self.index = RadixTree(max_bytes=10_000_000, default_capacity=8)
        self.fleet = a_fleet(A, B, C, index=self.index)
        self.dispatcher = make(self.fleet, strategy)
        self.now = 0.0
        self.seen: list[tuple[object, str]] = []
        self._running: list[Dispatch] = []

    def step(self, step: int) -> None:
        self.now += 0.3 if step % 50 else 15.0
        letters = ("abcdef", "pqrstu", "abcxyz", "abcd", "xyz")[step % 5]
        self.dispatcher.submit(a_request(letters, session=str(step % 7), streams=step % 3 > 0), self.now)
        for released in self.dispatcher.poll(self.now):
            order = [(candidate.worker, candidate.hit_blocks) for candidate in released.order]
            self.seen.append((order, released.reason))
            self._running.append(released)
        if step % 4:
            booking = self._running.pop(0).booking
            assert booking is not None
            self.fleet.bookings.first_byte(booking, self.now)
            self.fleet.bookings.release(booking, FAILED if booking.worker == A and step < 100 else ANSWERED, self.now)

    @property
    def state(self) -> list[object]:
        """What is known of each worker, times to the microsecond."""
        return [
            (
                worker.id,
                worker.in_flight,
                worker.breaker.is_open,
                worker.breaker.allows(self.now),
                worker.warmup.admits(worker.in_flight),
                self.index.held(worker.id),
                round(worker.load(self.now).backlog_s, 6),
                round(worker.load(self.now).busy_share, 6),
                round(worker.speed.prefill_tokens_per_s, 6),
            )
            for worker in self.fleet
        ]


def drain(dispatcher: Dispatcher, fleet: Fleet, now: float = 0.0) -> list[Dispatch]:
    """Poll until nothing comes, ending what was released: answered, failed or aborted in turn."""
    released: list[Dispatch] = []
    while batch := dispatcher.poll(now):
        for each in batch:
            assert each.booking is not None
            now += 0.01
            fleet.bookings.first_byte(each.booking, now)
            fleet.bookings.release(each.booking, (ANSWERED, FAILED, ABORTED)[len(released) % 3], now)
            released.append(each)
    return released
