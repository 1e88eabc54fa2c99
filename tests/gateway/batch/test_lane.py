import asyncio

import pytest

from cache_index import WorkerId
from gateway.batch.lane import Lane, Place
from gateway.models.dispatch_queue import DispatchQueue
from gateway.models.model import Model
from routing.request import Request
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model, the_models


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def entered(lane: Lane, count: int, *models: str, is_raised: bool = False) -> list[asyncio.Task[Place]]:
    """Tasks that wait for places, after all of them that may have one have it."""
    tasks = [asyncio.ensure_future(lane.enter(models or ["tiny"], is_raised=is_raised)) for _ in range(count)]
    await settled()
    return tasks


def places(tasks: list[asyncio.Task[Place]]) -> list[Place]:
    return [task.result() for task in tasks if task.done()]


async def begun(lane: Lane, place: Place, *, is_raised: bool = False) -> asyncio.Task[None]:
    task = asyncio.ensure_future(lane.begin(place, step_bytes=400, prompt_bytes=400, is_raised=is_raised))
    await settled()
    return task


def cancel(*tasks: asyncio.Task[Place]) -> None:
    for task in tasks:
        task.cancel()


async def at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


def a_lane(*models: Model, per_worker: int = 2) -> Lane:
    return Lane(the_models(*models), per_worker=per_worker, sleep=at_once)


async def test_each_worker_gets_one_line_at_a_time() -> None:
    """The next one gets a place when the line before has begun, and has arrived at the worker."""
    model = a_model(Answers(), Answers())
    lane = a_lane(model)
    tasks = await entered(lane, 6)

    first, second = places(tasks)
    assert {worker.id for worker in model.fleet} == {first.worker, second.worker}
    assert 4 == lane.slots
    await begun(lane, first)
    await settled()
    assert 2 == len(places(tasks))
    book(model, first.worker)
    await settled()
    assert [first.worker] == [place.worker for place in places(tasks)[2:]]
    cancel(*tasks)


def book(model: Model, worker: WorkerId | None, now: float = 0.0) -> None:
    request = Request(
        model._hasher.prefix(b"", b""), 4, 1.0, 1.0, allowed=None if worker is None else frozenset([worker])
    )
    model.fleet.bookings.book(request, model.fleet.candidates(request, now)[0], now)


async def test_a_line_that_leaves_gives_back_its_place() -> None:
    model = a_model(Answers())
    lane = a_lane(model, per_worker=1)
    tasks = await entered(lane, 3)
    (first,) = places(tasks)
    await begun(lane, first)
    book(model, first.worker)
    await settled()
    assert 1 == len(places(tasks))

    lane.leave(first)
    await settled()
    assert 2 == len(places(tasks))
    lane.leave(places(tasks)[1])
    await settled()
    assert 3 == len(places(tasks))


async def test_no_line_begins_while_a_request_waits() -> None:
    model = a_model(Answers(), Answers())
    waiting = 1

    class Queue(DispatchQueue):
        @property
        def waiting(self) -> int:
            return waiting

    model.dispatch_queue = Queue(model.dispatch_queue._dispatcher, model.fleet, clock=lambda: 0.0)
    lane = a_lane(model)
    first, second = places(await entered(lane, 2))
    held, raised = await begun(lane, first), await begun(lane, second, is_raised=True)

    assert (False, True) == (held.done(), raised.done())
    waiting = 0
    await settled()
    assert held.done()


async def test_raised_lines_get_places_first() -> None:
    lane = a_lane(a_model(Answers()), per_worker=1)
    (first,) = places(await entered(lane, 1))
    patient = await entered(lane, 1)
    raised = await entered(lane, 1, is_raised=True)
    lane.leave(first)
    await settled()

    assert ([], 1) == (places(patient), len(places(raised)))
    lane.leave(*places(raised))
    await settled()
    assert 1 == len(places(patient))


async def test_models_have_lanes_of_their_own() -> None:
    lane = a_lane(a_model(Answers()), a_model(Answers(), name="large"))
    tiny, large, unknown = await entered(lane, 2), await entered(lane, 2, "large"), await entered(lane, 2, "huge")

    assert ["tiny"] == [place.model for place in places(tiny)]
    assert ["large"] == [place.model for place in places(large)]
    assert [("", None)] == [(place.model, place.worker) for place in places(unknown)]
    cancel(*tiny, *large, *unknown)


async def test_a_file_of_two_models_gets_places_at_the_workers_of_both() -> None:
    lane = a_lane(a_model(Answers()), a_model(Answers(), name="large"))
    tasks = await entered(lane, 3, "tiny", "large")

    assert ["tiny", "large"] == [place.model for place in places(tasks)]
    tiny = places(tasks)[0]
    assert (True, False, False) == (lane.serves(tiny, "tiny"), lane.serves(tiny, "large"), lane.serves(tiny, "huge"))
    cancel(*tasks)


async def test_without_a_worker_one_line_tries() -> None:
    lane = a_lane(a_model(), per_worker=4)
    tasks = await entered(lane, 3)

    (place,) = places(tasks)
    assert place.worker is None
    assert (await begun(lane, place)).done()
    lane.leave(place)
    await settled()
    assert 2 == len(places(tasks))
    cancel(*tasks)


async def test_a_line_whose_worker_goes_down_begins_without_it() -> None:
    model = a_model(Answers(), Answers())
    lane = a_lane(model)
    (place,) = places(await entered(lane, 1))
    (worker,) = [worker.id for worker in model.fleet if worker.id == place.worker]
    model.fleet.set_up(worker, up=False)

    assert (await begun(lane, place)).done()
    assert place.worker is None
    lane.leave(place)


async def test_a_line_that_leaves_the_queue_holds_up_no_other() -> None:
    lane = a_lane(a_model(Answers()), per_worker=1)
    first, second, third = await entered(lane, 3)
    second.cancel()
    lane.leave(first.result())
    await settled()

    assert third.done()


class TestInterruptions:
    async def test_a_line_is_in_the_way_when_another_request_gets_its_worker(self) -> None:
        model = a_model(Answers())
        lane = Lane(the_models(model), per_worker=2, interrupts=lambda _model: True, sleep=at_once)
        place = await self.begun_at(lane)
        before = lane.may_interrupt(place), lane.is_in_the_way(place)
        book(model, place.worker, model.dispatch_queue.now)
        after = lane.may_interrupt(place), lane.is_in_the_way(place)
        interrupted = lane.interrupted(place, 400.0, 3)

        assert ((True, False), (True, True)) == (before, after)
        assert (place.worker, 3) == (interrupted.worker, interrupted.count)
        assert 1.0 <= interrupted.step <= 400.0

    @pytest.mark.parametrize(
        ("yields", "is_raised", "is_enabled"), [(False, False, True), (True, True, True), (True, False, False)]
    )
    async def test_other_lines_are_not_interrupted(self, yields: bool, is_raised: bool, is_enabled: bool) -> None:
        """Those that may not be, those near the end of their batch, and those of models without interruptions."""
        model = a_model(Answers())
        lane = Lane(the_models(model), per_worker=2, interrupts=lambda name: is_enabled and name == "tiny")
        place = await self.begun_at(lane, yields=yields, is_raised=is_raised)
        book(model, place.worker, model.dispatch_queue.now)

        assert (False, False) == (lane.may_interrupt(place), lane.is_in_the_way(place))

    async def test_a_line_of_a_model_that_was_removed_is_not_interrupted(self) -> None:
        model = a_model(Answers())
        models = the_models(model)
        lane = Lane(models, per_worker=2, interrupts=lambda _model: True)
        place = await self.begun_at(lane)
        place.model = "gone"

        assert (False, False) == (lane.may_interrupt(place), lane.is_in_the_way(place))

    async def begun_at(self, lane: Lane, *, yields: bool = True, is_raised: bool = False) -> Place:
        place = await lane.enter(["tiny"])
        await lane.begin(place, step_bytes=40_000, prompt_bytes=40_000, is_raised=is_raised, yields=yields)
        return place


async def test_expected_answers_occupy_the_cache_too() -> None:
    """Otherwise lines with long answers would fill it, and other requests would wait for their ends."""
    model = a_model(Answers())
    (worker,) = model.fleet
    model.fleet.set_capacity(worker.id, blocks=512, block_size=16)
    lane = Lane(the_models(model), per_worker=9, max_cache_share=0.5, sleep=at_once)
    tasks = await entered(lane, 2)
    (first,) = places(tasks)
    await lane.begin(first, step_bytes=400, prompt_bytes=400, answer_tokens=4000)
    book(model, first.worker)
    await settled()
    second = places(tasks)[1]
    beginning = asyncio.ensure_future(lane.begin(second, step_bytes=400, prompt_bytes=400, answer_tokens=4000))
    await settled()

    assert not beginning.done()
    lane.leave(first)
    await settled()
    assert beginning.done()
