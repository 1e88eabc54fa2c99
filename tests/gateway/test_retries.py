"""At whom, how often and for how long one request is tried. How attempts go by it: test_attempts.py."""

import asyncio

import pytest

from cache_index import WorkerId
from gateway.errors import ConnectFailed, HandedOver, ReplyBroken, UpstreamRefused, UpstreamTimeout, WaitsTooLong
from gateway.model import Model
from gateway.persistence import Persistence
from gateway.retries import MOST_BROKEN, Retries
from routing.request import Request
from routing.retry_budget import RetryBudget
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model, an_exchange
from tests.routing.examples import a_request

A, B = WorkerId("a"), WorkerId("b")
BROKEN = ReplyBroken("a: connection closed")
REQUEST = a_request("abc")


def retries(
    model: Model, *, most: int | None = None, wait_s: float = 0.0, may_hurry: bool = False, clock: Clock | None = None
) -> Retries:
    persistence = Persistence(most_attempts=most, wait_s=wait_s)
    return Retries(model, an_exchange(), persistence, may_hurry=may_hurry, clock=clock or Clock())


def two_workers(*, retry_budget: RetryBudget | None = None) -> Model:
    return a_model(Answers(200), Answers(200), retry_budget=retry_budget)


def away(model: Model) -> Model:
    """Its worker a is down."""
    model.fleet.set_up(A, up=False)
    return model


async def someone_waits(model: Model) -> None:
    while not model.arrivals.waiting:
        await asyncio.sleep(0)


def test_a_worker_that_failed_is_left_alone_in_that_life() -> None:
    """In its next one it may be asked again."""
    model = two_workers()
    tried = retries(model)
    assert not tried.has_begun
    tried.failed(A, BROKEN)
    assert (True, False, True) == (tried.has_begun, tried.has_not_failed(A), tried.has_not_failed(B))
    model.fleet.set_up(A, up=False)
    model.fleet.set_up(A, up=True)

    assert tried.has_not_failed(A)


def test_who_only_paused_is_forgiven_once() -> None:
    """It is better than nobody; who broke off is not."""
    tried = retries(two_workers())
    tried.failed(A, UpstreamTimeout("a: silent", phase="idle"))
    tried.failed(B, BROKEN)

    assert (True, False) == (tried.forgive(), tried.forgive())
    assert (True, False) == (tried.has_not_failed(A), tried.has_not_failed(B))


async def test_a_request_that_broke_many_workers_is_not_tried_again() -> None:
    """A worker that refused, that nobody reached, or that is drained is not broken."""
    tried = retries(two_workers())
    for harmless in (UpstreamRefused("a: 503", status=503), ConnectFailed("a: refused"), HandedOver("a: drained")):
        for _ in range(MOST_BROKEN):
            tried.failed(A, harmless)
    for _ in range(MOST_BROKEN - 1):
        tried.failed(A, BROKEN)
    assert await tried.may_try_again(REQUEST, BROKEN, at_once=False)
    tried.failed(A, BROKEN)

    assert not await tried.may_try_again(REQUEST, BROKEN, at_once=False)


@pytest.mark.parametrize(
    ("failure", "at_once", "expected"),
    [(BROKEN, False, False), (BROKEN, True, True), (ConnectFailed("a: refused"), False, True)],
)
async def test_an_empty_budget_stops_what_was_sent_and_can_wait(
    failure: ConnectFailed | ReplyBroken, at_once: bool, expected: bool
) -> None:
    """Not where nothing was sent, nor a stream that has begun."""
    tried = retries(two_workers(retry_budget=RetryBudget(share=0.0, floor_per_s=0.0)))
    tried.failed(A, failure)

    assert expected == await tried.may_try_again(REQUEST, failure, at_once=at_once)


async def test_somebody_comes_when_a_worker_is_up_that_has_not_failed() -> None:
    """One that failed in this very life is nobody."""
    model = away(two_workers())
    tried = retries(model, wait_s=3600.0)
    tried.failed(B, UpstreamRefused("b: 503", status=503))
    waiting = asyncio.ensure_future(tried.somebody_comes(REQUEST, spill_in_s=None))
    await someone_waits(model)
    model.came_up()
    await someone_waits(model)
    assert not waiting.done()
    model.fleet.set_up(A, up=True)
    model.came_up()

    assert await waiting


async def test_only_the_worker_that_keeps_the_response_is_somebody() -> None:
    """Another could not go on from it."""
    model = away(two_workers())
    pinned: Request = REQUEST.changed(pinned=A, deadline_s=0.02)

    assert not await retries(model, wait_s=3600.0).somebody_comes(pinned, spill_in_s=None)


@pytest.mark.parametrize(("patience_s", "wait_s"), [(None, 0.01), (0.02, 3600.0)])
async def test_nobody_comes_in_time(patience_s: float | None, wait_s: float) -> None:
    """What the settings allow, or half of what the caller waits."""
    request: Request = REQUEST.changed(deadline_s=patience_s)

    assert not await retries(away(a_model(Answers(200))), wait_s=wait_s).somebody_comes(request, spill_in_s=None)


async def test_later_than_elsewhere_is_too_late() -> None:
    """Where a fallback would have answered by now."""
    with pytest.raises(WaitsTooLong):
        await retries(away(a_model(Answers(200))), wait_s=3600.0).somebody_comes(REQUEST, spill_in_s=0.0)


async def test_nobody_is_waited_for_where_all_are_there_and_refuse() -> None:
    """They would refuse again."""
    tried = retries(a_model(Answers(503)), wait_s=3600.0)
    tried.failed(A, UpstreamRefused("a: 503", status=503))

    assert not await tried.somebody_comes(REQUEST, spill_in_s=None)


async def test_in_a_long_outage_who_may_hurry_does_not_wait_anew() -> None:
    """Others have waited for all; asked to take its time, it waits as anybody."""
    model = away(a_model(Answers(200)))
    model.arrivals.deserted_since(asyncio.get_running_loop().time() - 60.0)
    tried = retries(model, wait_s=60.0, may_hurry=True)
    assert (False, True) == (await tried.somebody_comes(REQUEST, spill_in_s=None), tried.has_hurried)
    tried.take_time()
    waiting = asyncio.ensure_future(tried.somebody_comes(REQUEST, spill_in_s=None))
    await someone_waits(model)
    model.fleet.set_up(A, up=True)
    model.came_up()

    assert (True, False) == (await waiting, tried.has_hurried)


async def test_another_wait_has_time_of_its_own() -> None:
    """A stream that goes on elsewhere has waited for its first token before."""
    model = away(a_model(Answers(200)))
    tried = retries(model, wait_s=0.01)
    assert not await tried.somebody_comes(REQUEST, spill_in_s=None)
    tried.begin_another_wait()
    waiting = asyncio.ensure_future(tried.somebody_comes(REQUEST, spill_in_s=None))
    await someone_waits(model)
    model.fleet.set_up(A, up=True)
    model.came_up()

    assert await waiting
