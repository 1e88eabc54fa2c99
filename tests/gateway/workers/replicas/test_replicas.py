"""Replicas from settings: who shares what, and what metrics and probes are reported it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.app.mapping.workers import sharing_of
from gateway.models.registry import Models
from gateway.settings import Settings, build
from gateway.workers.replicas.replicas import Replicas, Sharing
from routing.fleet import Fleet
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model, the_models
from tests.gateway.workers.replicas.test_channel import until
from tests.routing.examples import ANSWERED, BLOCK_BYTES, A, B, a_request, an_index, book
from tests.storage import RedisServer

WORKER = {"url": "http://127.0.0.1:9", "id": "a"}


def settings(url: str | None, **replicas: Any) -> Settings:
    store = {} if url is None else {"store": {"url": url}}
    replicas = {"heartbeat_s": 0.1, "dead_after_s": 5, **replicas}
    return build({"models": [{"name": "tiny", "workers": [WORKER]}], "replicas": replicas, **store}, {})


def shared(url: str) -> tuple[Sharing, Fleet, Models]:
    sharing = sharing_of(settings(url))
    assert sharing is not None
    fleet = Fleet(an_index(), block_bytes=BLOCK_BYTES, observer=sharing.outbox.observer("tiny"))
    fleet.set_workers([A, B], 0.0)
    return sharing, fleet, the_models(a_model(Answers(), Answers(), fleet=fleet))


def values(replicas: Replicas) -> dict[str, float]:
    return {
        sample.name + "".join(sample.labels.values()): sample.value
        for family in replicas.collect()
        for sample in family.samples
    }


@asynccontextmanager
async def running(replicas: Replicas) -> AsyncIterator[None]:
    await replicas.begin()
    async with asyncio.TaskGroup() as tasks:
        loops = [tasks.create_task(loop) for loop in replicas.loops()]
        yield
        for loop in loops:
            loop.cancel()
    await replicas.aclose()


@pytest.mark.parametrize(
    "alone", [settings(None), settings("sqlite:///x.db"), settings("redis://127.0.0.1:1/0", share=False)]
)
async def test_without_a_common_store_nothing_is_shared(alone: Settings) -> None:
    """The same holds if it is switched off: there is nothing to run, and metrics have no values."""
    assert sharing_of(alone) is None

    replicas = Replicas(None, Models(), on_key=lambda _: None, clock=lambda: 0.0)
    async with running(replicas):
        assert ([], {}, {}, 0) == (replicas.loops(), replicas.report(), values(replicas), replicas.heard)
        assert 6 == len(list(replicas.collect()))


@pytest.mark.redis
async def test_two_that_share_see_each_other(redis_server: RedisServer) -> None:
    """In what they tell, and in the fleets of their models; both hash under one key."""
    keys: list[bytes] = []
    one, fleet, models = shared(redis_server.url)
    other, _, others = shared(redis_server.url)
    first = Replicas(one, models, on_key=keys.append, clock=loop_time)
    second = Replicas(other, others, on_key=keys.append, clock=loop_time)
    async with running(first), running(second):
        await until(lambda: first.heard == second.heard == 2)
        booking = book(fleet, a_request("abc"), loop_time(), A)
        await until(lambda: values(second)["warmgate_replica_bookings"] == 1.0)
        await until(lambda: "warmgate_replica_lag_seconds" in values(first))

        assert {"heard": 2, "is_connected": True} == first.report()
        assert [one.key] == keys
        assert 0.0 == values(first)["warmgate_replica_dropped_total"] == values(first)["warmgate_replica_gaps_total"]
        assert 0.0 < values(first)["warmgate_replica_messages_totalsent"]

        fleet.bookings.release(booking, ANSWERED, loop_time())
        await until(lambda: values(second)["warmgate_replica_bookings"] == 0.0)


@pytest.mark.redis
async def test_who_waits_is_let_through_when_something_ends_elsewhere(redis_server: RedisServer) -> None:
    """The dispatch_queues of the models that it was on are turned; a model that has gone meanwhile has none."""
    one, fleet, models = shared(redis_server.url)
    other, _, others = shared(redis_server.url)
    turned: list[str] = []
    (model,) = others
    model.dispatch_queue.turn = lambda: turned.append(model.name)  # type: ignore[method-assign]
    first = Replicas(one, models, on_key=lambda _: None, clock=loop_time)
    second = Replicas(other, others, on_key=lambda _: None, clock=loop_time)
    async with running(first), running(second):
        await until(lambda: first.heard == second.heard == 2)
        booking = book(fleet, a_request("abc"), loop_time(), A)
        await until(lambda: turned == ["tiny"])
        others.replace({}, the_models()._names)
        fleet.bookings.release(booking, ANSWERED, loop_time())
        await until(lambda: values(second)["warmgate_replica_bookings"] == 0.0)

    assert ["tiny"] == turned


def test_an_address_that_is_not_valid_is_refused() -> None:
    """Without repeating it."""
    sharing = sharing_of(settings("redis://127.0.0.1:1/0?cluster=perhaps"))
    with pytest.raises(ValueError, match=r"store\.url"):
        Replicas(sharing, Models(), on_key=lambda _: None, clock=loop_time)


def loop_time() -> float:
    return asyncio.get_running_loop().time()
