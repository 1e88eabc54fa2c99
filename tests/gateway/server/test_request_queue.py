import asyncio
from typing import Any, cast

from gateway.server.asgi import Message, Receive, Send
from gateway.server.cycle import Cycle
from gateway.server.request_queue import MAX_WAITING, RequestQueue
from gateway.server.response_writer import ResponseWriter
from gateway.server.shared_state import DateLine


class KeepsTasks:
    """The end of a connection that reuses tasks."""

    def __init__(self) -> None:
        self.queue: RequestQueue

    def reuse_task(self, task: "asyncio.Task[None]") -> "asyncio.Future[Cycle] | None":
        return self.queue.reuse_task(task)


class Served:
    """A queue whose application records the tasks that serve."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.serving_tasks: list[Any] = []
        self.connection = KeepsTasks()
        self.queue = self.connection.queue = RequestQueue(self.app, self.tasks, asyncio.get_running_loop())

    async def app(self, _: Message, receive: Receive, __: Send) -> None:
        self.serving_tasks.append(asyncio.current_task())
        await receive()

    def cycle(self) -> Cycle:
        cycle = Cycle(
            {"method": "GET", "http_version": "1.1"},
            cast("Any", self.connection),
            ResponseWriter(asyncio.Transport(), DateLine(), asyncio.get_running_loop()),
            loop=asyncio.get_running_loop(),
            is_persistent=True,
            expects_continue=False,
        )
        cycle.body_ended()
        cycle.response_complete = True
        return cycle


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_one_task_serves_one_request_after_the_other() -> None:
    """A stop waits for it only while it serves."""
    served = Served()
    busy = []
    for _ in range(3):
        served.queue.serve(served.cycle())
        busy.append(len(served.tasks))
        await turns()
        busy.append(len(served.tasks))
    served.queue.lose()
    await turns()

    assert ([1, 0] * 3, 1) == (busy, len(set(served.serving_tasks)))
    assert served.serving_tasks[0].done()


async def test_requests_wait_for_their_turn() -> None:
    served = Served()
    first, second, third = served.cycle(), served.cycle(), served.cycle()
    served.queue.serve(first)
    served.queue.add(second)
    served.queue.add(third)
    served.queue.remove_last(second)  # which is not the last
    served.queue.remove_last(third)

    assert (True, True, False) == (served.queue.has_waiting, served.queue.serve_next(), served.queue.has_waiting)
    assert (second, False, True) == (served.queue.serving, served.queue.serve_next(), served.queue.is_idle)
    served.queue.lose()
    await turns()


async def test_the_queue_is_bounded() -> None:
    served = Served()
    for _ in range(MAX_WAITING):
        assert not served.queue.is_full
        served.queue.add(served.cycle())

    assert served.queue.is_full


async def test_all_requests_learn_that_the_client_has_gone() -> None:
    served = Served()
    first, second = served.cycle(), served.cycle()
    served.queue.serve(first)
    served.queue.add(second)
    served.queue.lose()
    await turns()

    assert (True, True) == (first.disconnected, second.disconnected)
    assert (None, False, True) == (served.queue.serving, served.queue.has_waiting, served.queue.is_idle)
