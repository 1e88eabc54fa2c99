from cache_index import Prefix, WorkerId
from gateway.batch.gate import Gate
from routing.booking import Booking, Ending, Outcome
from routing.fleet import Fleet
from routing.request import Request
from routing.worker import Worker
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model

LONG = 100_000.0


def a_fleet(workers: int) -> tuple[Fleet, list[Worker]]:
    fleet = a_model(*(Answers() for _ in range(workers))).fleet
    return fleet, list(fleet)


def may_begin(gate: Gate, fleet: Fleet, worker: Worker, *, step: float = 1.0, now: float = 0.0) -> bool:
    return gate.may_begin(fleet, worker, step_tokens=step, tokens=step, now=now)


def booked(fleet: Fleet, worker: WorkerId, tokens: float = 1.0) -> Booking:
    request = Request(Prefix(b""), 4, tokens, 1.0, streams=False, allowed=frozenset([worker]))
    booking = fleet.bookings.book(request, fleet.candidates(request, 0.0)[0], 0.0)
    assert booking is not None
    return booking


def test_a_worker_has_a_limit_of_lines() -> None:
    """A further line has to wait until the last one has arrived."""
    gate = Gate(per_worker=2)
    fleet, (worker,) = a_fleet(1)
    found = [gate.has_place(worker)]
    for _ in range(2):
        gate.begin(worker.id, 1.0)
        found.append(gate.has_place(worker))
        booked(fleet, worker.id)
        found.append(gate.has_place(worker))
    gate.end(worker.id, 1.0)

    assert ([True, False, True, False, False], True) == (found, gate.has_place(worker))
    assert 1 == gate.lines(worker.id)


def test_a_worker_that_is_down_has_no_place() -> None:
    fleet, (worker,) = a_fleet(1)
    fleet.set_up(worker.id, up=False)

    assert not Gate(per_worker=2).has_place(worker)


def test_a_line_begins_only_on_a_worker_that_computes_nothing() -> None:
    gate = Gate(per_worker=2)
    fleet, (worker, other) = a_fleet(2)
    booking = booked(fleet, worker.id, LONG)

    assert (False, True) == (may_begin(gate, fleet, worker), may_begin(gate, fleet, other))
    fleet.bookings.release(booking, Outcome(Ending.ABORTED), 0.0)
    assert may_begin(gate, fleet, worker)


def test_long_prompts_leave_workers_idle_while_others_use_the_fleet() -> None:
    gate = Gate(per_worker=2)
    fleet, workers = a_fleet(4)
    bookings = [booked(fleet, worker.id, LONG) for worker in workers[:2]]

    assert not may_begin(gate, fleet, workers[3], step=LONG)
    assert may_begin(gate, fleet, workers[3])
    fleet.bookings.release(bookings[0], Outcome(Ending.ABORTED), 0.0)
    assert may_begin(gate, fleet, workers[3], step=LONG)


def test_long_prompts_use_all_workers_after_a_quiet_time() -> None:
    gate = Gate(per_worker=2)
    fleet, workers = a_fleet(4)
    other = booked(fleet, workers[0].id)
    assert may_begin(gate, fleet, workers[3], now=1.0)
    fleet.bookings.release(other, Outcome(Ending.ABORTED), 1.0)
    for worker in workers[:2]:
        gate.begin(worker.id, LONG)
        booked(fleet, worker.id, LONG)

    assert not may_begin(gate, fleet, workers[3], step=LONG, now=11.0)
    assert may_begin(gate, fleet, workers[3], step=LONG, now=11.5)


def test_lines_occupy_a_share_of_the_cache() -> None:
    """One line is always allowed."""
    gate = Gate(per_worker=9, max_cache_share=0.5)
    fleet, (worker,) = a_fleet(1)
    fleet.set_capacity(worker.id, blocks=10, block_size=16)
    assert gate.may_begin(fleet, worker, step_tokens=1.0, tokens=1000.0, now=0.0)
    gate.begin(worker.id, 60.0)
    booked(fleet, worker.id, 1.0)

    now = 3600.0
    assert gate.may_begin(fleet, worker, step_tokens=1.0, tokens=20.0, now=now)
    assert not gate.may_begin(fleet, worker, step_tokens=1.0, tokens=21.0, now=now)


def test_lines_that_can_be_interrupted_need_fewer_idle_workers() -> None:
    """Short ones need as many as long ones."""
    gate = Gate(per_worker=2)
    fleet, workers = a_fleet(8)
    for worker in workers[:5]:
        booked(fleet, worker.id, LONG)

    def may(step: float = LONG, *, yields: bool) -> bool:
        return gate.may_begin(fleet, workers[7], step_tokens=step, tokens=step, now=0.0, yields=yields)

    assert (False, True) == (may(yields=False), may(yields=True))
    booked(fleet, workers[5].id, LONG)
    assert (False, False, True) == (may(yields=True), may(1.0, yields=True), may(1.0, yields=False))


def test_a_prompt_begins_after_those_before_it() -> None:
    """After an interruption, or when the last line has ended, nothing comes before it."""
    gate = Gate(per_worker=9)
    _, (worker,) = a_fleet(1)
    first = gate.prefill(worker, 2000.0, 5.0)
    second = gate.prefill(worker, 2000.0, 5.5)
    gate.interrupt(worker.id)
    third = gate.prefill(worker, 2000.0, 5.6)
    gate.begin(worker.id, 1.0)
    gate.end(worker.id, 1.0)
    fourth = gate.prefill(worker, 2000.0, 5.7)

    assert [5.0, first.ends_at, 5.6, 5.7] == [each.begins_at for each in (first, second, third, fourth)]
    assert 5.5 == second.sent_at
