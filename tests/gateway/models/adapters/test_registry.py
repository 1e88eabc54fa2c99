"""What is known of adapters, what it costs, and getting one where it is wanted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.backends.engine_metrics import EngineKind, EngineReading, Observation
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.registry import AdapterRegistry, AdapterTimeouts
from gateway.protocol.errors import AdapterMissing
from routing.load_price import ABSENT_S
from tests.gateway.examples import Clock
from tests.gateway.models.adapters.engines import POET, LoadingWorker, a_shelf, a_subject, know, prices
from tests.routing.examples import ANSWERED, a_request, book

FIXED = Adapter("poet", "tiny")


@asynccontextmanager
async def running(adapter_registry: AdapterRegistry) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(adapter_registry.run())
        await asyncio.sleep(0)
        yield
        task.cancel()


# ---- what is known, and what it costs


def test_a_worker_without_it_costs_a_load() -> None:
    """This holds once it has listed its adapters; until then it counts as having it."""
    a, b, c = LoadingWorker("a"), LoadingWorker("b"), LoadingWorker("c")
    subject = a_subject(POET, a, b, c)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: ["poet"], b: ["clerk"]})

    assert {"a": 0.0, "b": 2.0, "c": 0.0} == prices(subject)
    assert [True, False, None] == [adapter_registry.holds(each.url, POET) for each in (a, b, c)]


def test_a_worker_that_cannot_get_it_is_the_last_to_be_asked() -> None:
    """Where no one may load it."""
    a, b = LoadingWorker("a"), LoadingWorker("b")
    subject = a_subject(FIXED, a, b)
    know(a_shelf(subject), {a: ["poet"], b: []})

    assert {"a": 0.0, "b": ABSENT_S} == prices(subject)


def test_a_refusal_is_news() -> None:
    a = LoadingWorker("a")
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    adapter_registry.refused(a.url, POET)

    assert {"a": 2.0} == prices(subject)


def test_requests_that_an_engine_is_at_show_what_it_has() -> None:
    """``vllm:lora_requests_info`` may be younger than the list."""
    a = LoadingWorker("a")
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: []})
    adapter_registry.observed(a.url, Observation(EngineReading(EngineKind.VLLM, adapters=("poet",)), 1.0, 10.0))

    assert {"a": 0.0} == prices(subject)


def test_a_worker_is_asked_for_its_list_once_for_all_its_models() -> None:
    """Every adapter is a model, and each has somebody who looks after the worker."""
    clock = Clock(10.0)
    a, other = LoadingWorker("a"), LoadingWorker("b")
    adapter_registry = a_shelf(a_subject(POET, a), clock=clock)
    before = adapter_registry.wants_list(a.url)
    adapter_registry.listed(a.url, [], 10.0)
    after = adapter_registry.wants_list(a.url)
    clock.now = 11.0

    assert (True, False, True, False) == (
        before,
        after,
        adapter_registry.wants_list(a.url),
        adapter_registry.wants_list(other.url),
    )


def test_who_stays_is_not_forgotten_when_the_settings_change() -> None:
    """A worker that left is forgotten."""
    a, b = LoadingWorker("a"), LoadingWorker("b")
    adapter_registry = a_shelf(a_subject(POET, a, b))
    know(adapter_registry, {a: [], b: []})
    again = a_subject(POET, a)
    adapter_registry.attend([again], AdapterTimeouts(load_s=9.0))

    assert {"a": 2.0} == prices(again)
    assert (False, None) == (adapter_registry.holds(a.url, POET), adapter_registry.holds(b.url, POET))
    assert [again] == list(adapter_registry)


def test_workers_at_one_address_have_the_same() -> None:
    """Data-parallel ranks are one process."""
    a, b = LoadingWorker("a"), LoadingWorker("b")
    subject = a_subject(POET, a, b)
    together = type(subject)(subject.model, POET, subject.fleet, dict.fromkeys(subject.addresses, "http://both"))
    adapter_registry = a_shelf(together)
    adapter_registry.listed("http://both", [], 0.0)

    assert {"a": 2.0, "b": 2.0} == prices(together)


# ---- getting it there


async def test_a_load_is_asked_for_and_its_time_is_learned() -> None:
    """It took half a second: that is what the next one is believed to cost."""
    clock = Clock(100.0)
    a, b = LoadingWorker("a", waits=True), LoadingWorker("b")
    subject = a_subject(POET, a, b)
    adapter_registry = a_shelf(subject, clock=clock)
    know(adapter_registry, {a: [], b: []})
    async with running(adapter_registry):
        load = asyncio.ensure_future(adapter_registry.bring(subject, a))
        while not a.calls:
            await asyncio.sleep(0)
        clock.now = 100.5
        a.released.set()
        await load

    assert [("/v1/load_lora_adapter", "poet")] == a.reported
    assert {"a": 0.0, "b": 0.5} == prices(subject)
    assert 0.5 == adapter_registry.load_s("tiny")
    assert {("poet", "loaded"): 1} == adapter_registry.counters
    assert a.replies[0].closed


async def test_many_wait_for_one_load() -> None:
    """A caller that leaves meanwhile does not end it."""
    a = LoadingWorker("a", waits=True)
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: []})
    async with running(adapter_registry):
        waiting = [asyncio.ensure_future(adapter_registry.bring(subject, a)) for _ in range(5)]
        while not a.calls:
            await asyncio.sleep(0)
        waiting[0].cancel()
        a.released.set()
        done = await asyncio.gather(*waiting, return_exceptions=True)

    assert [asyncio.CancelledError, *[type(None)] * 4] == [type(each) for each in done]
    assert [("/v1/load_lora_adapter", "poet")] == a.reported


async def test_who_has_it_by_now_is_reported_nothing() -> None:
    a = LoadingWorker("a")
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: ["poet"]})
    async with running(adapter_registry):
        await adapter_registry.bring(subject, a)

    assert [] == a.reported


async def test_sglang_is_reported_by_its_own_route() -> None:
    a = LoadingWorker("a")
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    adapter_registry.observed(a.url, Observation(EngineReading(EngineKind.SGLANG), 1.0, 10.0))
    async with running(adapter_registry):
        await adapter_registry.bring(subject, a)

    assert [("/load_lora_adapter", "poet")] == a.reported


@pytest.mark.parametrize(
    ("worker", "why"),
    [
        (LoadingWorker("a", fails=500), "500 no room on the GPU"),
        (LoadingWorker("a", is_away=True), "a is away"),
    ],
)
async def test_a_worker_that_fails_is_left_alone_for_a_while(worker: LoadingWorker, why: str) -> None:
    """It is the last to be asked until then, and not reported again."""
    clock = Clock(100.0)
    subject = a_subject(POET, worker)
    adapter_registry = a_shelf(subject, clock=clock)
    know(adapter_registry, {worker: []})
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match=f"a did not load the adapter 'poet': {why}"):
            await adapter_registry.bring(subject, worker)
        with pytest.raises(AdapterMissing, match="failed to load recently"):
            await adapter_registry.bring(subject, worker)
        price_s = prices(subject)
        clock.now, worker.fails, worker.is_away = 131.0, None, False
        adapter_registry.listed(worker.url, [], 131.0)
        later_s = prices(subject)
        await adapter_registry.bring(subject, worker)

    assert ({"a": ABSENT_S}, {"a": 2.0}, {"a": 0.0}) == (price_s, later_s, prices(subject))
    assert {("poet", "failed"): 1, ("poet", "loaded"): 1} == adapter_registry.counters


async def test_a_load_that_takes_too_long_has_failed() -> None:
    a = LoadingWorker("a", waits=True)
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject, patience=AdapterTimeouts(load_timeout_s=0.01))
    know(adapter_registry, {a: []})
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match=r"loading took longer than 0\.01 s"):
            await adapter_registry.bring(subject, a)


async def test_what_may_not_be_loaded_is_not() -> None:
    a = LoadingWorker("a")
    subject = a_subject(FIXED, a)
    adapter_registry = a_shelf(subject)
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match="does not have the adapter 'poet', which is not loaded on demand"):
            await adapter_registry.bring(subject, a)

    assert [] == a.reported


# ---- making room


def limited(name: str) -> Adapter:
    return Adapter(name, "tiny", f"/{name}", load_on_demand=True, max_per_worker=2)


async def test_the_one_used_longest_ago_goes() -> None:
    clock = Clock(100.0)
    a = LoadingWorker("a", "one", "two")
    subjects = {name: a_subject(limited(name), a) for name in ("one", "two", "three")}
    adapter_registry = a_shelf(*subjects.values(), clock=clock)
    know(adapter_registry, {a: ["one", "two"]})
    adapter_registry.used(a.url, limited("two"))
    clock.now = 101.0
    adapter_registry.used(a.url, limited("one"))
    async with running(adapter_registry):
        await adapter_registry.bring(subjects["three"], a)

    assert [("/v1/unload_lora_adapter", "two"), ("/v1/load_lora_adapter", "three")] == a.reported
    assert [True, False, True] == [adapter_registry.holds(a.url, limited(name)) for name in ("one", "two", "three")]
    assert {("two", "unloaded"): 1, ("three", "loaded"): 1} == adapter_registry.counters


async def test_what_is_in_use_stays() -> None:
    """Although it was used longest ago: a request is at it."""
    a = LoadingWorker("a", "one", "two")
    subjects = {name: a_subject(limited(name), a) for name in ("one", "two", "three")}
    adapter_registry = a_shelf(*subjects.values())
    know(adapter_registry, {a: ["one", "two"]})
    adapter_registry.used(a.url, limited("two"))
    book(subjects["one"].fleet, a_request("x"), 0.0)
    async with running(adapter_registry):
        await adapter_registry.bring(subjects["three"], a)

    assert ["one", "three"] == a.adapters


async def test_where_all_are_in_use_there_is_no_room() -> None:
    """Until one of them is not any more: that is no one's failure, and the worker is not left alone for it."""
    a = LoadingWorker("a", "one", "two")
    subjects = {name: a_subject(limited(name), a) for name in ("one", "two", "three")}
    adapter_registry = a_shelf(*subjects.values())
    know(adapter_registry, {a: ["one", "two"]})
    bookings = {name: book(subjects[name].fleet, a_request("x"), 0.0) for name in ("one", "two")}
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match="it already holds the maximum number of adapters, and all are in use"):
            await adapter_registry.bring(subjects["three"], a)
        subjects["two"].fleet.bookings.release(bookings["two"], ANSWERED, 1.0)
        await adapter_registry.bring(subjects["three"], a)

    assert ["one", "three"] == a.adapters
    assert {("three", "no_room"): 1, ("two", "unloaded"): 1, ("three", "loaded"): 1} == adapter_registry.counters


async def test_who_has_nowhere_else_to_go_waits_for_room() -> None:
    """Also who came upon a load of somebody who had: that one goes elsewhere, this one stays."""
    a = LoadingWorker("a", "one", "two")
    subjects = {name: a_subject(limited(name), a) for name in ("one", "two", "three")}
    adapter_registry = a_shelf(*subjects.values())
    know(adapter_registry, {a: ["one", "two"]})
    bookings = {name: book(subjects[name].fleet, a_request("x"), 0.0) for name in ("one", "two")}
    async with running(adapter_registry):
        first = asyncio.ensure_future(adapter_registry.bring(subjects["three"], a))
        await asyncio.sleep(0)
        stays = asyncio.ensure_future(adapter_registry.bring(subjects["three"], a, waits=True))
        with pytest.raises(AdapterMissing, match="all are in use"):
            await first
        subjects["one"].fleet.bookings.release(bookings["one"], ANSWERED, 1.0)
        await asyncio.wait_for(stays, 60)

    assert ["two", "three"] == a.adapters


async def test_no_one_waits_for_room_for_ever() -> None:
    """For as long as a load may take."""
    a = LoadingWorker("a", "one")
    one, two = (
        a_subject(Adapter(name, "tiny", f"/{name}", load_on_demand=True, max_per_worker=1), a)
        for name in ("one", "two")
    )
    adapter_registry = a_shelf(one, two, patience=AdapterTimeouts(load_timeout_s=0.1))
    know(adapter_registry, {a: ["one"]})
    book(one.fleet, a_request("x"), 0.0)
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match="all are in use"):
            await asyncio.wait_for(adapter_registry.bring(two, a, waits=True), 60)


async def test_what_no_one_could_load_again_stays() -> None:
    """It is of the worker's own configuration, or of a model whose settings do not let it be loaded."""
    a = LoadingWorker("a", "fixed", "foreign")
    fixed, three = a_subject(Adapter("fixed", "tiny"), a), a_subject(limited("three"), a)
    adapter_registry = a_shelf(fixed, three)
    know(adapter_registry, {a: ["fixed", "foreign"]})
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match="all are in use"):
            await adapter_registry.bring(three, a)

    assert [] == a.reported


@pytest.mark.parametrize(("fails", "is_away"), [(500, False), (None, True)])
async def test_a_worker_that_unloads_nothing_loads_nothing(fails: int | None, is_away: bool) -> None:
    a = LoadingWorker("a", "one", "two", fails=fails, is_away=is_away)
    subjects = {name: a_subject(limited(name), a) for name in ("one", "two", "three")}
    adapter_registry = a_shelf(*subjects.values())
    know(adapter_registry, {a: ["one", "two"]})
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing, match="another adapter could not be unloaded"):
            await adapter_registry.bring(subjects["three"], a)

    assert ["one", "two"] == a.adapters


async def test_two_that_come_at_once_make_room_one_after_the_other() -> None:
    """On one worker one thing happens at a time: it never has more than it may."""
    a = LoadingWorker("a", "one", "two")
    subjects = {name: a_subject(limited(name), a) for name in ("one", "two", "three", "four")}
    adapter_registry = a_shelf(*subjects.values())
    know(adapter_registry, {a: ["one", "two"]})
    async with running(adapter_registry):
        await asyncio.gather(adapter_registry.bring(subjects["three"], a), adapter_registry.bring(subjects["four"], a))

    assert {"three", "four"} == set(a.adapters)
    assert ["unload", "load", "unload", "load"] == [path.split("/")[2].split("_")[0] for path, _ in a.reported]
