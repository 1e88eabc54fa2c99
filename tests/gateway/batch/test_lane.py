import asyncio

from gateway.batch.lane import Lane
from gateway.models.dispatch_queue import DispatchQueue
from gateway.models.model import Model
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model, the_models


async def entered(lane: Lane, count: int, model: str = "tiny") -> list[asyncio.Task[str]]:
    """Tasks that wait for places, after all of them that may have one have it."""
    tasks = [asyncio.ensure_future(lane.enter(model)) for _ in range(count)]
    for _ in range(20):
        await asyncio.sleep(0)
    return tasks


def places(tasks: list[asyncio.Task[str]]) -> int:
    return sum(task.done() for task in tasks)


async def at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


def two_workers() -> Model:
    return a_model(Answers(), Answers())


async def test_so_many_lines_per_ready_worker_are_in_flight() -> None:
    lane = Lane(the_models(two_workers()), per_worker=2, sleep=at_once)
    tasks = await entered(lane, 6)

    assert (4, 4, 4) == (places(tasks), lane.in_flight, lane.slots)
    lane.leave("tiny")
    await entered(lane, 0)
    assert 5 == places(tasks)
    for task in tasks:
        task.cancel()


async def test_no_line_starts_while_a_request_waits() -> None:
    model = two_workers()
    waiting = 1

    class Queue(DispatchQueue):
        @property
        def waiting(self) -> int:
            return waiting

    model.dispatch_queue = Queue(model.dispatch_queue._dispatcher, model.fleet, clock=lambda: 0.0)
    lane = Lane(the_models(model), per_worker=2, sleep=at_once)
    tasks = await entered(lane, 2)
    assert 0 == places(tasks)

    waiting = 0
    await entered(lane, 0)
    assert 2 == places(tasks)


async def test_models_have_lanes_of_their_own() -> None:
    lane = Lane(the_models(a_model(Answers()), a_model(Answers(), name="large")), per_worker=1, sleep=at_once)
    tiny, large, unknown = await entered(lane, 2), await entered(lane, 2, "large"), await entered(lane, 2, "huge")

    assert (1, 1, 1) == (places(tiny), places(large), places(unknown))
    for task in (*tiny, *large, *unknown):
        task.cancel()


async def test_without_a_worker_one_line_tries() -> None:
    lane = Lane(the_models(a_model()), per_worker=4, sleep=at_once)
    tasks = await entered(lane, 3)

    assert 1 == places(tasks)
    for task in tasks:
        task.cancel()


async def test_a_line_that_leaves_the_queue_holds_up_no_other() -> None:
    lane = Lane(the_models(a_model(Answers())), per_worker=1, sleep=at_once)
    first, second, third = await entered(lane, 3)
    second.cancel()
    lane.leave(first.result())
    await entered(lane, 0)

    assert third.done()
