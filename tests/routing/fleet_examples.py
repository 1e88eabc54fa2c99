from cache_index import WorkerId
from routing.fleet import Fleet
from routing.request import Request
from routing.worker import Worker
from tests.routing.examples import (
    ANSWERED,
    FAILED,
    a_request,
    book,
)


def names(fleet: Fleet, now: float = 0.0) -> str:
    """The candidates for any request."""
    return "".join(candidate.worker for candidate in fleet.candidates(a_request(), now))


def worker_of(fleet: Fleet, worker_id: WorkerId) -> Worker:
    return next(worker for worker in fleet if worker.id == worker_id)


def hits(fleet: Fleet, letters: str) -> dict[WorkerId, int]:
    return {c.worker: c.hit_blocks for c in fleet.candidates(a_request(letters), 0.0) if c.hit_blocks}


def unkept(letters: str) -> Request:
    """A request whose prompt is not in the cache afterwards."""
    return a_request(letters).changed(writes_cache=False)


def fail(fleet: Fleet, worker: WorkerId, *, times: int) -> None:
    for _ in range(times):
        fleet.bookings.release(book(fleet, a_request(), 0.0, worker), FAILED, 0.0)


def admitted(fleet: Fleet, worker: WorkerId) -> bool:
    """Whether *worker* admits one more request, which it then gets."""
    candidate = next(c for c in fleet.candidates(a_request(), 0.0) if c.worker == worker)
    fleet.bookings.book(a_request(), candidate, 0.0)
    return candidate.admits


def teach(fleet: Fleet) -> None:
    """One prefill as long as was believed."""
    booking = book(fleet, a_request("x" * 100), 0.0)
    fleet.bookings.first_byte(booking, booking.work_s)
    fleet.bookings.release(booking, ANSWERED, booking.work_s)
