from cache_index import Prefix
from gateway.batch.interruptions import MAX_INTERRUPTIONS, Interrupted, Prefill
from routing.fleet import Fleet
from routing.request import BATCH, Request
from routing.worker import Worker
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model


def a_fleet() -> tuple[Fleet, Worker]:
    """A fleet with one worker, which is expected to compute 2,000 tokens per second."""
    fleet = a_model(Answers()).fleet
    (worker,) = fleet
    return fleet, worker


def book(fleet: Fleet, now: float, **changes: int) -> None:
    request = Request(Prefix(b""), 4, 1.0, 1.0).changed(**changes)
    assert fleet.bookings.book(request, fleet.candidates(request, now)[0], now) is not None


def test_a_line_is_in_the_way_of_a_request_that_comes_after_it() -> None:
    """Requests that were there before the line, and other lines, do not interrupt it."""
    fleet, worker = a_fleet()
    book(fleet, 0.5)
    prefill = Prefill(worker, 1.0, 1.0, 4.0)
    book(fleet, 2.0, priority=BATCH)
    before = prefill.is_in_the_way(2.0, others_wait=False)
    book(fleet, 3.0)

    assert (False, True) == (before, prefill.is_in_the_way(3.0, others_wait=False))


def test_a_line_is_in_the_way_of_requests_that_wait_for_any_worker() -> None:
    _, worker = a_fleet()
    prefill = Prefill(worker, 1.0, 1.0, 4.0)

    assert prefill.is_in_the_way(2.0, others_wait=True)


def test_a_line_that_generates_its_answer_is_not_in_the_way() -> None:
    """It began after another line, at 3.0, and its prompt takes 4 s."""
    _, worker = a_fleet()
    prefill = Prefill(worker, 1.0, 3.0, 4.0)

    assert [True, False] == [prefill.is_in_the_way(at, others_wait=True) for at in (6.9, 7.0)]


def test_others_wait_for_half_a_step_and_half_the_time_between_two_looks() -> None:
    """A step has 2,048 tokens, or the whole prompt."""
    _, worker = a_fleet()
    step_s = worker.prefill_s(2048)

    assert (0.02 + step_s) / 2 == Prefill(worker, 0.0, 0.0, 9.0).yields_in_s
    assert 0.11 == Prefill(worker, 0.0, 0.0, 0.2).yields_in_s < step_s


def test_what_was_computed_is_not_computed_again() -> None:
    _, worker = a_fleet()
    prefill = Prefill(worker, 1.0, 3.0, 4.0)

    assert [800.0, 800.0, 600.0, 1.0] == [prefill.interrupted(800.0, 1, at).step for at in (2.0, 3.0, 4.0, 9.0)]
    assert 1.0 == Prefill(worker, 1.0, 1.0, 0.0).interrupted(800.0, 1, 1.0).step
    assert (worker.id, 1) == (prefill.interrupted(800.0, 1, 2.0).worker, prefill.interrupted(800.0, 1, 2.0).count)


def test_interruptions_of_one_line_have_a_limit() -> None:
    _, worker = a_fleet()

    assert [True, False] == [Interrupted(worker.id, 1.0, MAX_INTERRUPTIONS + n).may_repeat for n in (-1, 0)]
