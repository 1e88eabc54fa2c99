"""Where requests wait for their turn, with a dispatcher that can be reported to hold them back."""

import asyncio
from collections import Counter
from typing import Literal

import pytest

from gateway.models.dispatch_queue import DispatchQueue
from gateway.protocol.errors import QueueFull
from routing.booking import Ending
from routing.dispatcher import Dispatch, Refusal
from routing.explanation import Explanation
from routing.request import BATCH, Request
from tests.gateway.examples import Clock, WatchedFleet
from tests.routing.examples import a_request

pytestmark = pytest.mark.interpreted


class Holds:
    """Lets at most *open* requests pass, in the order in which they came, and books each on worker a."""

    def __init__(self, fleet: WatchedFleet, *, open_: int = 0) -> None:
        self.fleet = fleet
        self.open = open_
        self.held: list[Request] = []
        self.cancelled: list[Request] = []
        self.times: list[float] = []
        self.poll_at: float | None = None
        self.refusals: list[Refusal] = []
        self.most_at_once = 1000

    def submit(self, request: Request, now: float) -> None:
        self.times.append(now)
        self.held.append(request)

    def poll(self, now: float) -> list[Dispatch]:
        self.times.append(now)
        count = min(self.open, self.most_at_once)
        released, self.held = self.held[:count], self.held[count:]
        self.open -= len(released)
        return [self._dispatch(request, now) for request in released]

    @property
    def waiting(self) -> int:
        return len(self.held)

    @property
    def others_wait(self) -> bool:
        return any(request.priority != BATCH for request in self.held)

    def oldest_wait_s(self, now: float) -> float:
        return now - self.times[0] if self.held else 0.0

    @property
    def waiting_by_team(self) -> dict[str, int]:
        return dict(Counter(request.team for request in self.held))

    def at_once(self, request: Request, now: float) -> Dispatch:
        raise NotImplementedError

    def refused(self) -> list[Refusal]:
        refusals, self.refusals = self.refusals, []
        return refusals

    def refuse(self, request: Request, why: Literal["queue full", "too late"] = "too late") -> None:
        self.held = [other for other in self.held if other is not request]
        self.refusals.append(Refusal(request, why, 40.0, 10.0))

    def next_poll_at(self, now: float) -> float | None:
        return self.poll_at

    def hand_over(self) -> list[tuple[Request, float]]:
        held, self.held = self.held, []
        return [(request, self.times[0]) for request in held]

    def cancel(self, request: Request) -> None:
        self.cancelled.append(request)
        self.held = [other for other in self.held if other is not request]

    def explain(self, request: Request, now: float) -> Explanation:
        self.times.append(now)
        return Explanation(request, "prefix_aware", "none", "none", [], [])

    def _dispatch(self, request: Request, now: float) -> Dispatch:
        order = self.fleet.candidates(request, now)
        return Dispatch(request, order, self.fleet.bookings.book(request, order[0], now), "cold", "prefix_aware")


class Scene:
    """A dispatch_queue with its dispatcher, and requests in tasks of their own."""

    def __init__(self, *, open_: int = 0) -> None:
        self.fleet = WatchedFleet(1)
        self.dispatcher = Holds(self.fleet, open_=open_)
        self.clock = Clock(5.0)
        self.dispatch_queue = DispatchQueue(self.dispatcher, self.fleet, clock=self.clock)

    async def waiting(self, tasks: asyncio.TaskGroup, request: Request) -> asyncio.Task[Dispatch]:
        task = tasks.create_task(self.dispatch_queue.admit(request))
        await asyncio.sleep(0)
        return task

    def turn(self, *, open_: int) -> None:
        self.dispatcher.open = open_
        self.dispatch_queue.turn()

    @property
    def load(self) -> int:
        (worker,) = self.fleet
        return worker.in_flight


async def test_a_request_that_may_pass_does_not_wait() -> None:
    """It is not even a turn of the event loop: submitted and polled at the clock's time."""
    scene, request = Scene(open_=1), a_request("a")
    with pytest.raises(StopIteration) as passed:
        scene.dispatch_queue.admit(request).send(None)

    dispatch: Dispatch = passed.value.value
    assert request is dispatch.request
    assert [5.0, 5.0] == scene.dispatcher.times
    assert [] == scene.dispatcher.cancelled


async def test_a_request_that_is_held_waits_for_a_turn() -> None:
    """Anyone who ends lets the next one in."""
    scene, request = Scene(), a_request("a")
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, request)
        scene.turn(open_=0)
        await asyncio.sleep(0)
        assert not task.done()
        scene.turn(open_=1)

    assert request is task.result().request
    assert 1 == scene.load


async def test_each_gets_its_own_dispatch() -> None:
    """Equal requests are different ones; the order is the dispatcher's."""
    scene, requests = Scene(), [a_request("a"), a_request("a"), a_request("b")]
    async with asyncio.TaskGroup() as tasks:
        waiting = [await scene.waiting(tasks, request) for request in requests]
        scene.turn(open_=2)
        await asyncio.sleep(0)
        assert [True, True, False] == [task.done() for task in waiting]
        scene.turn(open_=1)

    for request, task in zip(requests, waiting, strict=True):
        assert request is task.result().request
    assert {} == scene.dispatch_queue._waiting


async def test_a_newcomer_may_let_another_pass() -> None:
    """What its poll releases goes to anyone who waits for it."""
    scene, first, second = Scene(), a_request("a"), a_request("b")
    async with asyncio.TaskGroup() as tasks:
        waiting = await scene.waiting(tasks, first)
        scene.dispatcher.open = 1
        newcomer = await scene.waiting(tasks, second)
        await asyncio.sleep(0)
        assert [True, False] == [waiting.done(), newcomer.done()]
        scene.turn(open_=1)

    assert first is waiting.result().request
    assert second is newcomer.result().request


def test_an_explanation_is_of_this_moment() -> None:
    """The dispatcher is asked at the clock's time; no one waits for it."""
    scene, request = Scene(), a_request("a")

    assert request is scene.dispatch_queue.explain(request).request
    assert [5.0] == scene.dispatcher.times
    assert [] == scene.dispatcher.held


async def test_a_turn_for_no_one_costs_nothing() -> None:
    """While no one waits the dispatcher is not asked."""
    scene = Scene()
    scene.dispatch_queue.turn()

    assert [] == scene.dispatcher.times


async def test_a_caller_that_leaves_leaves_the_queue() -> None:
    """The dispatcher is notified, and later turns know nothing of it."""
    scene, request = Scene(), a_request("a")
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, request)
        task.cancel()
    scene.turn(open_=1)

    assert task.cancelled()
    assert [request] == scene.dispatcher.cancelled
    assert [] == scene.dispatcher.held
    assert {} == scene.dispatch_queue._waiting
    assert [] == scene.fleet.booked


async def test_a_caller_that_leaves_as_it_is_released_gives_its_place_back() -> None:
    """It was booked already: that ends as aborted, and the next one passes."""
    scene, first, second = Scene(), a_request("a"), a_request("b")
    async with asyncio.TaskGroup() as tasks:
        leaving = await scene.waiting(tasks, first)
        staying = await scene.waiting(tasks, second)
        scene.turn(open_=1)
        leaving.cancel()
        scene.dispatcher.open = 1

    assert leaving.cancelled()
    assert second is staying.result().request
    assert [("a", Ending.ABORTED)] == scene.fleet.endings
    assert 1 == scene.load


async def test_who_comes_as_another_leaves_can_have_its_place() -> None:
    """Its own coming releases the one that has just left; the place goes to the newcomer a moment later."""
    scene, first = Scene(), a_request("a")
    leaving = asyncio.get_running_loop().create_task(scene.dispatch_queue.admit(first))
    await asyncio.sleep(0)
    newcomer = asyncio.get_running_loop().create_task(scene.dispatch_queue.admit(a_request("b")))
    leaving.cancel()
    scene.dispatch_queue._waiting[id(first)].cancel()
    scene.dispatcher.open = 2
    scene.dispatcher.most_at_once = 1
    async with asyncio.timeout(60):
        dispatch = await newcomer

    assert dispatch.booking is not None
    assert [("a", Ending.ABORTED)] == scene.fleet.endings
    assert leaving.cancelled() or leaving.done()


async def test_a_caller_that_is_released_as_it_leaves_gives_its_place_back() -> None:
    """The other way round: no one is there to take what the dispatcher gives."""
    scene, first, second = Scene(), a_request("a"), a_request("b")
    async with asyncio.TaskGroup() as tasks:
        leaving = await scene.waiting(tasks, first)
        staying = await scene.waiting(tasks, second)
        leaving.cancel()
        scene.turn(open_=2)

    assert leaving.cancelled()
    assert second is staying.result().request
    assert [("a", Ending.ABORTED)] == scene.fleet.endings
    assert 1 == scene.load


async def test_it_looks_again_when_the_dispatcher_says_so() -> None:
    """A worker may become free by time alone; nothing else has to happen."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        scene.dispatcher.poll_at = 5.01
        task = await scene.waiting(tasks, a_request())
        scene.dispatcher.open = 1
        scene.dispatcher.poll_at = None
        async with asyncio.timeout(60):
            dispatch = await task

    assert dispatch.booking is not None
    assert (0, 0.0) == (scene.dispatch_queue.waiting, scene.dispatch_queue.oldest_wait_s)


async def test_a_later_look_is_not_taken_for_no_one() -> None:
    """Each look sets the next one again; the one that was set before is given up."""
    scene = Scene(open_=1)
    scene.dispatcher.poll_at = 5.0
    await scene.dispatch_queue.admit(a_request())
    looks = len(scene.dispatcher.times)
    scene.dispatcher.poll_at = None
    await asyncio.sleep(0.01)

    assert looks == len(scene.dispatcher.times)


async def test_who_waits_goes_on_waiting_at_another_dispatcher() -> None:
    """Its waiting time goes on; it passes when the new dispatcher releases it."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, a_request())
        scene.clock.now = 9.0
        other = Holds(scene.fleet)
        scene.dispatch_queue.use(other)
        assert ([], 1, 4.0) == (scene.dispatcher.held, scene.dispatch_queue.waiting, scene.dispatch_queue.oldest_wait_s)
        other.open = 1
        scene.dispatch_queue.turn()

        assert (await task).booking is not None


async def test_who_waits_at_another_dispatcher_can_still_go_away() -> None:
    """It is cancelled there."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, a_request())
        other = Holds(scene.fleet)
        scene.dispatch_queue.use(other)
        task.cancel()
        await asyncio.sleep(0)

    assert (0, 1) == (other.waiting, len(other.cancelled))


class Refuses(Holds):
    """Takes no one in."""

    def submit(self, request: Request, now: float) -> None:
        self.refuse(request, "queue full")


async def test_who_is_refused_is_reported_when_to_ask_again() -> None:
    """At once; nothing of it stays behind, and it is counted for its team."""
    fleet = WatchedFleet(1)
    dispatch_queue = DispatchQueue(Refuses(fleet), fleet, clock=Clock())
    with pytest.raises(QueueFull) as refused:
        await dispatch_queue.admit(a_request().changed(team="blue"))

    assert (503, 10.0) == (refused.value.status, refused.value.retry_after_s)
    assert "The queue of team 'blue' is full (0 waiting). Retry in 10.0 s." == refused.value.message
    assert {"blue": 1} == dispatch_queue.refused_by_team
    assert {} == dispatch_queue._waiting


async def test_who_waits_can_be_refused_later() -> None:
    """Its time is over; the others go on waiting."""
    scene, late, other = Scene(), a_request("a"), a_request("b")
    waiting = asyncio.get_running_loop().create_task(scene.dispatch_queue.admit(late))
    staying = asyncio.get_running_loop().create_task(scene.dispatch_queue.admit(other))
    await asyncio.sleep(0)
    scene.dispatcher.refuse(late)
    scene.turn(open_=0)
    with pytest.raises(QueueFull, match=r"about 40\.0 s, later than the caller's deadline\. Retry in 10\.0 s\."):
        await waiting
    scene.turn(open_=1)

    assert other is (await staying).request
    assert {"": 1} == scene.dispatch_queue.refused_by_team


async def test_a_newcomer_may_find_others_refused_with_it() -> None:
    """Each is notified what is its own."""
    scene, late = Scene(), a_request("a")
    waiting = asyncio.get_running_loop().create_task(scene.dispatch_queue.admit(late))
    await asyncio.sleep(0)
    newcomer = a_request("b")
    scene.dispatcher.refuse(newcomer)
    scene.dispatcher.refuse(late)
    with pytest.raises(QueueFull):
        await scene.dispatch_queue.admit(newcomer)
    with pytest.raises(QueueFull):
        await waiting

    assert {"": 2} == scene.dispatch_queue.refused_by_team


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_caller_that_leaves_as_it_is_refused_is_just_gone(*, leaves_first: bool) -> None:
    """There is nothing to give back, and no one to tell."""
    scene, request = Scene(), a_request("a")
    task = asyncio.get_running_loop().create_task(scene.dispatch_queue.admit(request))
    await asyncio.sleep(0)
    if leaves_first:
        task.cancel()
    scene.dispatcher.refuse(request)
    scene.turn(open_=0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [] == scene.fleet.released
    assert {} == scene.dispatch_queue._waiting


async def test_it_reports_which_teams_wait() -> None:
    """The number of requests of each is known."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        waiting = [await scene.waiting(tasks, a_request().changed(team=team)) for team in ("blue", "blue", "red")]
        assert {"blue": 2, "red": 1} == scene.dispatch_queue.waiting_by_team
        for task in waiting:
            task.cancel()

    assert {} == scene.dispatch_queue.waiting_by_team
