"""Where requests wait for their turn, with a dispatcher that can be told to hold them back."""

import asyncio

import pytest

from gateway.turnstile import Turnstile
from routing.booking import Ending
from routing.dispatcher import Dispatch
from routing.explanation import Explanation
from routing.request import Request
from tests.gateway.examples import Clock, WatchedFleet
from tests.routing.examples import a_request


class Holds:
    """Lets at most *open* requests pass, in the order in which they came, and books each on worker a."""

    def __init__(self, fleet: WatchedFleet, *, open_: int = 0) -> None:
        self.fleet = fleet
        self.open = open_
        self.held: list[Request] = []
        self.cancelled: list[Request] = []
        self.times: list[float] = []
        self.poll_at: float | None = None

    def submit(self, request: Request, now: float) -> None:
        self.times.append(now)
        self.held.append(request)

    def poll(self, now: float) -> list[Dispatch]:
        self.times.append(now)
        released, self.held = self.held[: self.open], self.held[self.open :]
        self.open -= len(released)
        return [self._dispatch(request, now) for request in released]

    @property
    def waiting(self) -> int:
        return len(self.held)

    def oldest_wait_s(self, now: float) -> float:
        return now - self.times[0] if self.held else 0.0

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
        return Dispatch(request, order, self.fleet.book(request, order[0], now), "cold", "prefix_aware")


class Scene:
    """A turnstile with its dispatcher, and requests in tasks of their own."""

    def __init__(self, *, open_: int = 0) -> None:
        self.fleet = WatchedFleet(1)
        self.dispatcher = Holds(self.fleet, open_=open_)
        self.clock = Clock(5.0)
        self.turnstile = Turnstile(self.dispatcher, self.fleet, clock=self.clock)

    async def waiting(self, tasks: asyncio.TaskGroup, request: Request) -> asyncio.Task[Dispatch]:
        task = tasks.create_task(self.turnstile.admit(request))
        await asyncio.sleep(0)
        return task

    def turn(self, *, open_: int) -> None:
        self.dispatcher.open = open_
        self.turnstile.turn()

    @property
    def load(self) -> int:
        (worker,) = self.fleet
        return worker.in_flight


async def test_a_request_that_may_pass_does_not_wait() -> None:
    """It is not even a turn of the event loop: submitted and polled at the clock's time."""
    scene, request = Scene(open_=1), a_request("a")
    with pytest.raises(StopIteration) as passed:
        scene.turnstile.admit(request).send(None)

    dispatch: Dispatch = passed.value.value
    assert request is dispatch.request
    assert [5.0, 5.0] == scene.dispatcher.times
    assert [] == scene.dispatcher.cancelled


async def test_a_request_that_is_held_waits_for_a_turn() -> None:
    """Whoever ends lets the next one in."""
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
    assert {} == scene.turnstile._waiting


async def test_a_newcomer_may_let_another_pass() -> None:
    """What its poll releases goes to whoever waits for it."""
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
    """The dispatcher is asked at the clock's time; nobody waits for it."""
    scene, request = Scene(), a_request("a")

    assert request is scene.turnstile.explain(request).request
    assert [5.0] == scene.dispatcher.times
    assert [] == scene.dispatcher.held


async def test_a_turn_for_nobody_costs_nothing() -> None:
    """While nobody waits the dispatcher is not asked."""
    scene = Scene()
    scene.turnstile.turn()

    assert [] == scene.dispatcher.times


async def test_a_caller_that_leaves_leaves_the_queue() -> None:
    """The dispatcher is told, and later turns know nothing of it."""
    scene, request = Scene(), a_request("a")
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, request)
        task.cancel()
    scene.turn(open_=1)

    assert task.cancelled()
    assert [request] == scene.dispatcher.cancelled
    assert [] == scene.dispatcher.held
    assert {} == scene.turnstile._waiting
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


async def test_a_caller_that_is_released_as_it_leaves_gives_its_place_back() -> None:
    """The other way round: nobody is there to take what the dispatcher gives."""
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
        async with asyncio.timeout(10):
            dispatch = await task

    assert dispatch.booking is not None
    assert (0, 0.0) == (scene.turnstile.waiting, scene.turnstile.oldest_wait_s)


async def test_a_later_look_is_not_taken_for_nobody() -> None:
    """Each look sets the next one anew; the one that was set before is given up."""
    scene = Scene(open_=1)
    scene.dispatcher.poll_at = 5.0
    await scene.turnstile.admit(a_request())
    looks = len(scene.dispatcher.times)
    scene.dispatcher.poll_at = None
    await asyncio.sleep(0.01)

    assert looks == len(scene.dispatcher.times)


async def test_who_waits_goes_on_waiting_at_another_dispatcher() -> None:
    """As long as before; and passes when that lets it."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, a_request())
        scene.clock.now = 9.0
        other = Holds(scene.fleet)
        scene.turnstile.use(other)
        assert ([], 1, 4.0) == (scene.dispatcher.held, scene.turnstile.waiting, scene.turnstile.oldest_wait_s)
        other.open = 1
        scene.turnstile.turn()

        assert (await task).booking is not None


async def test_who_waits_at_another_dispatcher_can_still_go_away() -> None:
    """It is cancelled there."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        task = await scene.waiting(tasks, a_request())
        other = Holds(scene.fleet)
        scene.turnstile.use(other)
        task.cancel()
        await asyncio.sleep(0)

    assert (0, 1) == (other.waiting, len(other.cancelled))
