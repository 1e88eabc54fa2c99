"""Fleets that share a worker see each other's load on it, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from cache_index import Prefix, WorkerId
from routing.booking import Booking, Outcome
from routing.bookings import Bookings
from routing.fleet import Fleet
from routing.shared_worker_load import SharedWorkerLoad
from tests.routing.examples import ABORTED, ANSWERED, A, B, C, a_fleet, a_request, an_index, book

NOTHING = Prefix(b"")


def sharing(*fleets: Fleet) -> SharedWorkerLoad:
    """*fleets* know of each other."""
    shared_load = SharedWorkerLoad()
    by_worker: dict[WorkerId, list[Bookings]] = {}
    for fleet in fleets:
        fleet.bookings.set_shared_load(shared_load)
        for worker in fleet:
            by_worker.setdefault(worker.id, []).append(fleet.bookings)
    shared_load.set_fleets({worker: found for worker, found in by_worker.items() if len(found) > 1})
    return shared_load


def in_flight(fleet: Fleet) -> dict[str, int]:
    return {worker.id: worker.in_flight for worker in fleet}


def test_what_one_fleet_books_is_load_for_the_other() -> None:
    """The shared worker has prefill first, then a running request, then nothing."""
    base, adapter = a_fleet(A, B), a_fleet(B, C)
    sharing(base, adapter)
    booking = book(base, a_request(prompt_tokens=2000.0), 0.0, on=B)
    pending = adapter.worker(B).load(0.0)
    base.bookings.first_byte(booking, 2.0)
    running = adapter.worker(B).load(2.0)
    base.bookings.release(booking, ANSWERED, 3.0)

    assert (1, 0, True) == (pending.pending, pending.decodes, pending.backlog_s > 1.9)
    assert (0, 1, 0.0) == (running.pending, running.decodes, running.backlog_s)
    assert {"b": 0, "c": 0} == in_flight(adapter)


def test_a_worker_that_only_one_has_is_load_for_that_one_alone() -> None:
    base, adapter = a_fleet(A, B), a_fleet(B, C)
    sharing(base, adapter)
    book(base, a_request("x"), 0.0, on=A)

    assert {"b": 0, "c": 0} == in_flight(adapter)


def test_own_requests_are_distinguished_from_those_of_others() -> None:
    """Draining and the use of adapters depend on it."""
    base, adapter = a_fleet(A), a_fleet(A)
    sharing(base, adapter)
    one = book(base, a_request("x"), 0.0)
    book(adapter, a_request("y"), 0.0)
    before = base.bookings.own_in_flight(A), adapter.bookings.own_in_flight(A), base.worker(A).in_flight
    base.bookings.release(one, ABORTED, 1.0)

    assert (1, 1, 2) == before
    assert (0, 1, 1) == (base.bookings.own_in_flight(A), adapter.bookings.own_in_flight(A), base.worker(A).in_flight)
    assert 0 == base.bookings.own_in_flight(C), "it is not there"


def test_a_shared_load_prompt_is_not_taken_to_be_cached_for_another_model() -> None:
    """Load is shared; what is held is another matter, and is known by the model's own name."""
    index = an_index()
    base, adapter = a_fleet(A, index=index), a_fleet(A, index=index)
    sharing(base, adapter)
    held = index.held(A)
    booking = book(base, a_request("abc"), 0.0)
    booked = index.held(A)
    base.bookings.release(booking, ANSWERED, 1.0)

    assert (0, 3) == (held, booked)
    assert 3 == index.held(A)


def test_what_another_gateway_gives_to_a_shared_worker_is_load_for_all_its_models() -> None:
    base, adapter = a_fleet(A), a_fleet(A)
    sharing(base, adapter)
    booking = base.bookings.book_elsewhere(
        A, NOTHING, (), uncached_tokens=1000.0, output_tokens=9.0, streams=True, now=0.0
    )
    assert booking is not None
    pending = adapter.worker(A).load(0.0).pending
    base.bookings.first_byte_elsewhere(booking, 1.0)
    decodes = adapter.worker(A).load(1.0).decodes
    base.bookings.release_elsewhere(booking, keep=True, now=2.0)

    assert (1, 1, 0) == (pending, decodes, adapter.worker(A).in_flight)


def test_three_fleets_each_see_it_once() -> None:
    """A booking that was passed on is not passed on again."""
    fleets = [a_fleet(A), a_fleet(A), a_fleet(A)]
    sharing(*fleets)
    book(fleets[0], a_request("x"), 0.0)

    assert [1, 1, 1] == [fleet.worker(A).in_flight for fleet in fleets]
    assert [1, 0, 0] == [fleet.bookings.own_in_flight(A) for fleet in fleets]


def test_a_lost_booking_is_lost_for_all() -> None:
    """Its lease ends; no one will ever release it."""
    base, adapter = a_fleet(A, lease_s=10.0), a_fleet(A, lease_s=10.0)
    sharing(base, adapter)
    book(base, a_request("x"), 0.0)
    base.tick(11.0)

    assert (0, 0) == (adapter.worker(A).in_flight, adapter.bookings.own_in_flight(A))


def test_who_waits_for_a_shared_worker_hears_that_it_has_less_to_do() -> None:
    base, adapter = a_fleet(A), a_fleet(A)
    shared_load = sharing(base, adapter)
    heard: list[object] = []
    shared_load.set_fleets({A: [base.bookings, adapter.bookings]}, heard.append)
    booking = book(base, a_request("x"), 0.0)
    booked = list(heard)
    base.bookings.first_byte(booking, 1.0)
    base.bookings.release(booking, ANSWERED, 2.0)

    assert ([], [adapter.bookings, adapter.bookings]) == (booked, heard)


def test_a_worker_that_left_a_neighbor_takes_nothing() -> None:
    """The end of the request causes no error either."""
    base, adapter = a_fleet(A), a_fleet(A)
    sharing(base, adapter)
    adapter.set_workers((), 0.0)
    booking = book(base, a_request("x"), 0.0)
    base.bookings.release(booking, ANSWERED, 1.0)

    assert {} == in_flight(adapter)


STEPS = st.lists(
    st.tuples(st.sampled_from(["book", "begin", "answer", "abort"]), st.integers(0, 2), st.sampled_from([A, B])),
    max_size=40,
)


@given(STEPS)
def test_all_fleets_agree_on_who_is_busy(steps: list[tuple[str, int, str]]) -> None:
    """Whatever happens, each counts on each worker all that any of them has there, and its own by themselves."""
    fleets = [a_fleet(A, B) for _ in range(3)]
    sharing(*fleets)
    open_: list[tuple[Fleet, Booking]] = []
    endings: dict[str, Outcome] = {"answer": ANSWERED, "abort": ABORTED}
    for now, (step, number, worker) in enumerate(steps):
        if step == "book":
            on = A if worker == A else B
            open_.append((fleets[number], book(fleets[number], a_request("xy"), float(now), on=on)))
        elif open_:
            fleet, booking = open_[number % len(open_)]
            if step == "begin":
                fleet.bookings.first_byte(booking, float(now))
            else:
                open_.remove((fleet, booking))
                fleet.bookings.release(booking, endings[step], float(now))
        for worker_id in (A, B):
            there = [each for each, booking in open_ if booking.worker == worker_id]
            assert [len(there)] * 3 == [fleet.worker(worker_id).in_flight for fleet in fleets]
            assert [there.count(fleet) for fleet in fleets] == [
                fleet.bookings.own_in_flight(worker_id) for fleet in fleets
            ]
