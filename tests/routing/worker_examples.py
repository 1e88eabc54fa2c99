from routing.booking import Booking
from routing.breaker import Breaker
from routing.learning.rates import Rates
from routing.loads import NO_LOADS, Loads
from routing.worker import Worker
from tests.routing.examples import A, a_request


def a_worker(prefill_tokens_per_s: float = 1000.0) -> Worker:
    return Worker(A, 0.0, breaker=Breaker(), rates=Rates(prefill_tokens_per_s=prefill_tokens_per_s))


def booked(
    worker: Worker,
    at: float,
    work_s: float = 1.0,
    *,
    streams: bool = True,
    uncached: float = 1.0,
    loads: Loads = NO_LOADS,
) -> Booking:
    booking = Booking(worker.id, a_request(streams=streams), 0, uncached, work_s, at, loads=loads)
    worker.book(booking, at)
    return booking


def counts(worker: Worker, now: float) -> tuple[float, int, int]:
    """Backlog in seconds, requests that wait for their first token, requests that generate."""
    load = worker.load(now)
    return round(load.backlog_s, 9), load.pending, load.decodes


def answered(
    worker: Worker,
    tokens: int,
    *,
    at: float = 0.0,
    tokens_per_s: float = 1000.0,
    service_s: float | None = None,
    loads: Loads = NO_LOADS,
) -> None:
    """A stream alone on the worker, its prefill measured as tokens over rate and 10 ms, or as *service_s*."""
    booking = booked(worker, at, worker.prefill_s(tokens) + worker.speed.load_s(loads), uncached=tokens, loads=loads)
    first_byte_at = at + (0.01 + tokens / tokens_per_s if service_s is None else service_s)
    worker.first_byte(booking, first_byte_at)
    worker.release(booking, first_byte_at)
    worker.learn(booking, first_byte_at, uncached_tokens=tokens, completion_tokens=None)


def generated(worker: Worker, *, batch: int, tpot_s: float, at: float) -> None:
    """*batch* requests of 101 tokens that begin together; the first of them is measured when all but it are over."""
    bookings = [booked(worker, at) for _ in range(batch)]
    for booking in reversed(bookings):
        worker.first_byte(booking, at)
    for booking in bookings:
        worker.release(booking, at)
    worker.learn(bookings[0], at + 100 * tpot_s, uncached_tokens=1.0, completion_tokens=101)


def fill(worker: Worker) -> None:
    """Two generate, which came five seconds late, each when another had ended: two are all that run."""
    for _ in range(2):
        worker.first_byte(booked(worker, 0.0, 0.1), 0.1)
    for at in (5.0, 10.0):
        late = booked(worker, at - 4.8, 0.1)
        worker.release(next(iter(worker._decoding)), at)
        worker.first_byte(late, at)
