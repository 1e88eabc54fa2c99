"""Attempts at workers that may have to load an adapter first."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from cache_index import WorkerId
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.placement import AdapterPlacement
from gateway.models.model import Model
from gateway.protocol.errors import NoWorker
from routing.booking import Ending
from tests.fakes.backends import Answers
from tests.gateway.examples import (
    WatchedFleet,
    a_model,
)
from tests.gateway.models.adapters.engines import POET, AnsweringWorker, a_shelf, a_subject, know
from tests.gateway.models.adapters.test_registry import running
from tests.gateway.proxy.trial import Trial

pytestmark = pytest.mark.interpreted


@contextlib.asynccontextmanager
async def adapted(
    *workers: AnsweringWorker, adapter: Adapter = POET, listed: bool = True
) -> AsyncIterator[tuple[Model, WatchedFleet]]:
    """Return a model that is *adapter*; unless *listed*, the gateway does not know which workers have it."""
    fleet = WatchedFleet(len(workers))
    model = a_model(*workers, fleet=fleet)
    subject = a_subject(adapter, *workers, fleet=fleet)
    adapter_registry = a_shelf(subject)
    if listed:
        know(adapter_registry, {worker: worker.adapters for worker in workers})
    model.adapter = AdapterPlacement(adapter_registry, subject, "poet")
    async with running(adapter_registry):
        yield model, fleet


async def test_an_adapter_is_loaded_before_the_request_is_sent() -> None:
    """The slot is reserved again afterwards, because the load time is not prefill time."""
    a = AnsweringWorker("a")
    async with adapted(a) as (model, fleet):
        trial = Trial(model)
        answer = await trial.run()

    assert (200, 1) == (answer.status, trial.exchange.attempts)
    assert ["load", "request"] == a.was_asked
    assert [("a", Ending.ABORTED), ("a", Ending.ABORTED)] == fleet.endings
    assert {"a": 1} == trial.loads


async def test_a_worker_that_lost_the_adapter_loads_it_again() -> None:
    """The caller does not notice, and its health is not affected."""
    a = AnsweringWorker("a")
    async with adapted(a, listed=False) as (model, fleet):
        trial = Trial(model)
        answer = await trial.run()

    assert (200, 2) == (answer.status, trial.exchange.attempts)
    assert ["request", "load", "request"] == a.was_asked
    assert not any(worker.breaker.is_open for worker in fleet)
    assert all(reply.closed for reply in a.replies)


async def test_the_next_worker_answers_if_the_adapter_cannot_be_loaded() -> None:
    """It costs neither an attempt nor a retry."""
    for adapter, fails in ((POET, 500), (Adapter("poet", "tiny"), None)):
        a, b = AnsweringWorker("a", fails=fails), AnsweringWorker("b", "poet")
        async with adapted(a, b, adapter=adapter) as (model, _):
            trial = Trial(model)
            answer = await trial.run()

        assert (200, "b") == (answer.status, trial.exchange.backend)


async def test_a_worker_that_loses_the_adapter_again_is_left() -> None:
    """The next worker is asked; without one the request fails."""
    a = AnsweringWorker("a")
    a.forgets = True
    async with adapted(a) as (model, _):
        failure = await Trial(model).failure()

    assert isinstance(failure, NoWorker)
    assert "worker a still reports an unknown adapter" in str(failure)
    assert ["load", "request", "load", "request"] == a.was_asked


async def test_a_worker_that_drains_while_it_loads_is_skipped() -> None:
    """It has the adapter by then, and accepts no more requests."""
    a, b = AnsweringWorker("a", waits=True), AnsweringWorker("b", "poet")
    async with adapted(a, b) as (model, fleet):
        trial = Trial(model)
        running_trial = asyncio.ensure_future(trial.run())
        async with asyncio.timeout(60):
            while not a.calls:
                await asyncio.sleep(0)
        fleet.set_draining(WorkerId("a"), draining=True)
        a.released.set()
        answer = await running_trial

    assert (200, "b") == (answer.status, trial.exchange.backend)
    assert ["load"] == a.was_asked


async def test_a_4xx_about_something_else_is_passed_on() -> None:
    """The status alone does not mean that the adapter is missing."""
    a = Answers(400, b'{"error":{"message":"max_tokens of poet is too large","code":400}}')
    async with adapted(AnsweringWorker("a", "poet")) as (with_adapter, _):
        model = a_model(a)
        model.adapter = with_adapter.adapter
        answer = await Trial(model).run()

    assert (400, 1) == (answer.status, len(a.calls))
