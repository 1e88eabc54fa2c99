"""Queue for the requests of one client connection, which are served in order."""

import asyncio
from collections import deque
from contextvars import copy_context
from typing import Final

from gateway.server.asgi import App
from gateway.server.cycle import Cycle, serve

MAX_WAITING: Final = (
    100  # requests of a few bytes each; without a bound one read of 256 KiB becomes thousands of cycles
)


class RequestQueue:
    """Request that is being served on a connection, and the pipelined requests that wait behind it.

    A task that has served a request waits for the next one, because creating a task costs more than all other server
    work for a request. The task ends instead if the next request would see leftover state: a pending cancellation or a
    changed context variable.
    """

    __slots__ = ("_app", "_context", "_idle_task", "_loop", "_next_cycle", "_tasks", "_waiting", "serving")

    def __init__(self, app: App, tasks: set["asyncio.Task[None]"], loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._tasks = tasks
        self._loop = loop
        self._context = copy_context()  # each request begins with it
        self._waiting: deque[Cycle] = deque()
        self._idle_task: asyncio.Task[None] | None = None
        self._next_cycle: asyncio.Future[Cycle] | None = None  # what the idle task waits for
        self.serving: Cycle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting for its response."""
        return self.serving is None or self.serving.response_complete

    @property
    def is_full(self) -> bool:
        return len(self._waiting) == MAX_WAITING

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def serve(self, cycle: Cycle) -> None:
        self.serving = cycle
        task, next_cycle = self._idle_task, self._next_cycle
        self._idle_task = self._next_cycle = None
        if task is None or next_cycle is None or next_cycle.done():  # done: the task was cancelled
            task = self._loop.create_task(serve(cycle, self._app), context=self._context.copy())
            task.add_done_callback(self._tasks.discard)
        else:
            next_cycle.set_result(cycle)
        cycle.task = task
        self._tasks.add(task)

    def add(self, cycle: Cycle) -> None:
        """Add *cycle* to the requests that wait to be served."""
        self._waiting.append(cycle)

    def serve_next(self) -> bool:
        """Serve the request that has waited longest. Return whether there was a waiting request."""
        if not self._waiting:
            self.serving = None
            return False
        self.serve(self._waiting.popleft())
        return True

    def remove_last(self, cycle: Cycle | None) -> None:
        """Remove the request *cycle*, whose body is invalid, if it is the last request in the queue."""
        if self._waiting and self._waiting[-1] is cycle:
            self._waiting.pop()

    def reuse_task(self, task: "asyncio.Task[None]") -> "asyncio.Future[Cycle] | None":
        """Keep *task*, the current task, and return a future for its next request, or None if the task must end."""
        if self._idle_task is not None or task.cancelling() or copy_context() != self._context:
            return None
        self._tasks.discard(task)  # a stop does not wait for it
        self._idle_task = task
        self._next_cycle = next_cycle = self._loop.create_future()
        return next_cycle

    def lose(self) -> None:
        """Notify all requests of the connection that the client has disconnected."""
        for cycle in (self.serving, *self._waiting):
            if cycle is not None:
                cycle.lost()
        self._waiting.clear()
        self.serving = None
        if self._next_cycle is not None:
            self._next_cycle.cancel()
        self._next_cycle = self._idle_task = None
