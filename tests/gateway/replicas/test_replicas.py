"""Replicas from settings: who shares what, and what metrics and probes are told of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.models import Models
from gateway.replicas.replicas import Replicas, Sharing, sharing_of
from gateway.settings import Settings, SettingsError, build
from routing.fleet import Fleet
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model, the_models
from tests.gateway.replicas.test_exchange import until
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
    fleet = Fleet(an_index(), block_bytes=BLOCK_BYTES, witness=sharing.outbox.witness("tiny"))
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
    """Nor where it is not wanted: there is nothing to run, nothing to tell, and metrics have no values."""
    assert sharing_of(alone) is None

    replicas = Replicas(None, alone, Models(), on_key=lambda _: None, clock=lambda: 0.0)
    async with running(replicas):
        assert ([], {}, {}, 0) == (replicas.loops(), replicas.told(), values(replicas), replicas.heard)
        assert 6 == len(list(replicas.collect()))


@pytest.mark.redis
async def test_two_that_share_see_each_other(redis_server: RedisServer) -> None:
    """In what they tell, and in the fleets of their models; both hash under one key."""
    keys: list[bytes] = []
    one, fleet, models = shared(redis_server.url)
    other, _, others = shared(redis_server.url)
    first = Replicas(one, settings(redis_server.url), models, on_key=keys.append, clock=loop_time)
    second = Replicas(other, settings(redis_server.url), others, on_key=keys.append, clock=loop_time)
    async with running(first), running(second):
        await until(lambda: first.heard == second.heard == 2)
        booking = book(fleet, a_request("abc"), loop_time(), A)
        await until(lambda: values(second)["warmgate_replica_bookings"] == 1.0)
        await until(lambda: "warmgate_replica_lag_seconds" in values(first))

        assert {"heard": 2, "is_connected": True} == first.told()
        assert [one.key] == keys
        assert 0.0 == values(first)["warmgate_replica_dropped_total"] == values(first)["warmgate_replica_gaps_total"]
        assert 0.0 < values(first)["warmgate_replica_messages_totalsent"]

        fleet.release(booking, ANSWERED, loop_time())
        await until(lambda: values(second)["warmgate_replica_bookings"] == 0.0)


@pytest.mark.redis
async def test_who_waits_is_let_through_when_something_ends_elsewhere(redis_server: RedisServer) -> None:
    """The turnstiles of the models that it was on are turned; a model that has gone meanwhile has none."""
    one, fleet, models = shared(redis_server.url)
    other, _, others = shared(redis_server.url)
    turned: list[str] = []
    (model,) = others
    model.turnstile.turn = lambda: turned.append(model.name)  # type: ignore[method-assign]
    first = Replicas(one, settings(redis_server.url), models, on_key=lambda _: None, clock=loop_time)
    second = Replicas(other, settings(redis_server.url), others, on_key=lambda _: None, clock=loop_time)
    async with running(first), running(second):
        await until(lambda: first.heard == second.heard == 2)
        booking = book(fleet, a_request("abc"), loop_time(), A)
        await until(lambda: turned == ["tiny"])
        others.replace({}, the_models()._names)
        fleet.release(booking, ANSWERED, loop_time())
        await until(lambda: values(second)["warmgate_replica_bookings"] == 0.0)

    assert ["tiny"] == turned


async def test_an_address_that_is_no_good_is_told_as_a_setting() -> None:
    """Without repeating it."""
    with pytest.raises(SettingsError, match=r"store\.url"):
        Replicas(
            shared("redis://127.0.0.1:1/0")[0],
            settings("redis://127.0.0.1:1/0?cluster=perhaps"),
            Models(),
            on_key=lambda _: None,
            clock=loop_time,
        )


def loop_time() -> float:
    return asyncio.get_running_loop().time()
