"""The retry state of one request. test_worker_attempts.py shows how attempts use it."""

import asyncio

import pytest

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.protocol.errors import (
    ConnectFailed,
    HandedOver,
    ReplyBroken,
    UpstreamRefused,
    UpstreamTimeout,
    WaitsTooLong,
)
from gateway.proxy.retry_policy import RetryPolicy
from gateway.proxy.retry_state import MAX_BROKEN, RetryState
from routing.request import Request
from routing.retry_budget import RetryBudget
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model, an_exchange
from tests.routing.examples import a_request

A, B = WorkerId("a"), WorkerId("b")
BROKEN = ReplyBroken("a: connection closed")
REQUEST = a_request("abc")


def retries(
    model: Model,
    *,
    most: int | None = None,
    wait_s: float = 0.0,
    may_cut_wait_short: bool = False,
    clock: Clock | None = None,
) -> RetryState:
    retry_policy = RetryPolicy(max_attempts=most, wait_s=wait_s)
    return RetryState(model, an_exchange(), retry_policy, may_cut_wait_short=may_cut_wait_short, clock=clock or Clock())


def two_workers(*, retry_budget: RetryBudget | None = None) -> Model:
    return a_model(Answers(200), Answers(200), retry_budget=retry_budget)


def with_a_down(model: Model) -> Model:
    model.fleet.set_up(A, up=False)
    return model


async def until_a_request_waits(model: Model) -> None:
    while not model.arrivals.waiting:
        await asyncio.sleep(0)


def test_a_failed_worker_is_not_retried_until_it_restarts() -> None:
    """A restart makes it eligible again."""
    model = two_workers()
    tried = retries(model)
    assert not tried.has_failures
    tried.note_failure(A, BROKEN)
    assert (True, False, True) == (tried.has_failures, tried.may_ask(A), tried.may_ask(B))
    model.fleet.set_up(A, up=False)
    model.fleet.set_up(A, up=True)

    assert tried.may_ask(A)


def test_a_stalled_worker_is_forgiven_once() -> None:
    """A worker that broke the connection is not forgiven."""
    tried = retries(two_workers())
    tried.note_failure(A, UpstreamTimeout("a: silent", phase="idle"))
    tried.note_failure(B, BROKEN)

    assert (True, False) == (tried.forgive_stalled(), tried.forgive_stalled())
    assert (True, False) == (tried.may_ask(A), tried.may_ask(B))


async def test_a_request_that_broke_many_workers_is_not_retried() -> None:
    """Refusals, failed connections and drains do not count as broken workers."""
    tried = retries(two_workers())
    for harmless in (UpstreamRefused("a: 503", status=503), ConnectFailed("a: refused"), HandedOver("a: drained")):
        for _ in range(MAX_BROKEN):
            tried.note_failure(A, harmless)
    for _ in range(MAX_BROKEN - 1):
        tried.note_failure(A, BROKEN)
    assert await tried.may_retry(REQUEST, BROKEN, may_always_retry=False)
    tried.note_failure(A, BROKEN)

    assert not await tried.may_retry(REQUEST, BROKEN, may_always_retry=False)


@pytest.mark.parametrize(
    ("failure", "may_always_retry", "expected"),
    [(BROKEN, False, False), (BROKEN, True, True), (ConnectFailed("a: refused"), False, True)],
)
async def test_an_empty_retry_budget_stops_retries(
    failure: ConnectFailed | ReplyBroken, may_always_retry: bool, expected: bool
) -> None:
    """It stops neither a request that was never sent nor a stream that has begun."""
    tried = retries(two_workers(retry_budget=RetryBudget(share=0.0, floor_per_s=0.0)))
    tried.note_failure(A, failure)

    assert expected == await tried.may_retry(REQUEST, failure, may_always_retry=may_always_retry)


async def test_the_wait_ends_when_a_worker_comes_up() -> None:
    """A worker that failed the request and did not restart does not end the wait."""
    model = with_a_down(two_workers())
    tried = retries(model, wait_s=3600.0)
    tried.note_failure(B, UpstreamRefused("b: 503", status=503))
    waiting = asyncio.ensure_future(tried.wait_for_worker(REQUEST, spill_in_s=None))
    await until_a_request_waits(model)
    model.came_up()
    await until_a_request_waits(model)
    assert not waiting.done()
    model.fleet.set_up(A, up=True)
    model.came_up()

    assert await waiting


async def test_a_pinned_request_waits_for_its_worker_only() -> None:
    """No other worker has the response that it continues."""
    model = with_a_down(two_workers())
    pinned: Request = REQUEST.changed(pinned=A, deadline_s=0.02)

    assert not await retries(model, wait_s=3600.0).wait_for_worker(pinned, spill_in_s=None)


@pytest.mark.parametrize(("deadline_s", "wait_s"), [(None, 0.01), (0.02, 3600.0)])
async def test_the_wait_is_bounded(deadline_s: float | None, wait_s: float) -> None:
    """The bound is the setting, or half of the caller's deadline."""
    request: Request = REQUEST.changed(deadline_s=deadline_s)

    assert not await retries(with_a_down(a_model(Answers(200))), wait_s=wait_s).wait_for_worker(
        request, spill_in_s=None
    )


async def test_the_wait_ends_when_a_fallback_would_be_faster() -> None:
    """The caller of the method then asks a fallback."""
    with pytest.raises(WaitsTooLong):
        await retries(with_a_down(a_model(Answers(200))), wait_s=3600.0).wait_for_worker(REQUEST, spill_in_s=0.0)


async def test_there_is_no_wait_if_all_workers_are_available_and_failed() -> None:
    """They would fail again."""
    tried = retries(a_model(Answers(503)), wait_s=3600.0)
    tried.note_failure(A, UpstreamRefused("a: 503", status=503))

    assert not await tried.wait_for_worker(REQUEST, spill_in_s=None)


async def test_the_wait_is_cut_short_in_a_long_outage() -> None:
    """`wait_in_full` allows the whole wait again."""
    model = with_a_down(a_model(Answers(200)))
    model.arrivals.deserted_since(asyncio.get_running_loop().time() - 60.0)
    tried = retries(model, wait_s=60.0, may_cut_wait_short=True)
    assert (False, True) == (await tried.wait_for_worker(REQUEST, spill_in_s=None), tried.has_cut_wait_short)
    tried.wait_in_full()
    waiting = asyncio.ensure_future(tried.wait_for_worker(REQUEST, spill_in_s=None))
    await until_a_request_waits(model)
    model.fleet.set_up(A, up=True)
    model.came_up()

    assert (True, False) == (await waiting, tried.has_cut_wait_short)


async def test_a_restarted_wait_has_its_full_time() -> None:
    """A stream that another worker takes over has waited for its first token before."""
    model = with_a_down(a_model(Answers(200)))
    tried = retries(model, wait_s=0.01)
    assert not await tried.wait_for_worker(REQUEST, spill_in_s=None)
    tried.restart_wait()
    waiting = asyncio.ensure_future(tried.wait_for_worker(REQUEST, spill_in_s=None))
    await until_a_request_waits(model)
    model.fleet.set_up(A, up=True)
    model.came_up()

    assert await waiting
