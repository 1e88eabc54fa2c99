"""Queue in which requests wait until the dispatcher releases them to a worker."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gateway.protocol.errors import QueueFull, WaitsTooLong
from routing.booking import Ending, Outcome
from routing.dispatcher import Dispatch, Dispatcher, Refusal
from routing.explanation import Explanation
from routing.fleet import Fleet
from routing.request import Request


class DispatchQueue:
    """Awaitable queue around a `Dispatcher` for *fleet*. The dispatcher itself has no tasks and no clock."""

    def __init__(self, dispatcher: Dispatcher, fleet: Fleet, *, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._fleet = fleet
        self._clock = clock
        self._waiting: dict[int, asyncio.Future[Dispatch]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.refused_by_team: Counter[str] = Counter()
        """Number of refused requests of each team since startup."""

    async def admit(self, request: Request) -> Dispatch:
        """Wait until *request* is released, and return its dispatch. A cancellation removes the request from the queue.

        Raises:
            QueueFull: if the queue is full, or the wait would exceed the caller's timeout.
            WaitsTooLong: if a fallback should answer instead, see `Request.spill_in_s`.
        """
        self._dispatcher.submit(request, self._clock())
        dispatch = self._release(request)
        if dispatch is not None:
            return dispatch
        waiter: asyncio.Future[Dispatch] = asyncio.get_running_loop().create_future()
        self._waiting[id(request)] = waiter
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise
        finally:
            del self._waiting[id(request)]
            self._dispatcher.cancel(request)

    def at_once(self, request: Request) -> Dispatch:
        """Dispatch *request* at once, ahead of all waiting requests. Only a stream that moves to another worker needs
        this.
        """
        return self._dispatcher.at_once(request, self._clock())

    @property
    def now(self) -> float:
        """Return the time of the queue's clock, in monotonic seconds."""
        return self._clock()

    @property
    def waiting(self) -> int:
        """Number of requests that are waiting in the queue."""
        return self._dispatcher.waiting

    @property
    def others_wait(self) -> bool:
        """Whether requests that are no lines of batches are waiting in the queue."""
        return self._dispatcher.others_wait

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        """Number of requests that are waiting in the queue, by team. Without teams, the team is ""."""
        return self._dispatcher.waiting_by_team

    @property
    def oldest_wait_s(self) -> float:
        return self._dispatcher.oldest_wait_s(self._clock())

    def use(self, dispatcher: Dispatcher) -> None:
        """Replace the dispatcher of the queue. Waiting requests keep their arrival times."""
        former, self._dispatcher = self._dispatcher, dispatcher
        for request, since in former.hand_over():
            dispatcher.submit(request, since)
        self.turn()

    def explain(self, request: Request) -> Explanation:
        """Return how *request* would be dispatched if it were released now, without changing the queue."""
        return self._dispatcher.explain(request, self._clock())

    def turn(self) -> None:
        """Release waiting requests if possible. Call this method after a request has ended or a worker has changed."""
        if self._waiting:
            self._release(None)

    def _release(self, own: Request | None) -> Dispatch | None:
        mine = None
        now = self._clock()
        released = self._dispatcher.poll(now)
        refusals = self._dispatcher.refused()
        for dispatch in released:
            if dispatch.request is own:
                mine = dispatch
            elif (waiter := self._waiting[id(dispatch.request)]).cancelled():
                self._give_back(dispatch)
            else:
                waiter.set_result(dispatch)
        self._set_timer(now)
        if refusals:
            self._refuse(refusals, own)
        return mine

    def _refuse(self, refusals: Sequence[Refusal], own: Request | None) -> None:
        """Pass each refusal to the caller that waits for the request, and raise the refusal of *own*."""
        mine: QueueFull | None = None
        for refusal in refusals:
            error = _as_error(refusal, self.waiting_by_team.get(refusal.request.team, 0))
            if refusal.why != "spill":
                self.refused_by_team[refusal.request.team] += 1
            if refusal.request is own:
                mine = error
            elif not (waiter := self._waiting[id(refusal.request)]).cancelled():
                waiter.set_exception(error)
        if mine is not None:
            raise mine

    def _set_timer(self, now: float) -> None:
        """Set a timer for the time at which a worker is expected to become free."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._dispatcher.next_poll_at(now)
        if at is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, at - now), self.turn)

    def _give_back(self, dispatch: Dispatch) -> None:
        """Cancel the dispatch of a request whose caller disconnected just as the request was released."""
        if dispatch.booking is not None:
            self._fleet.bookings.release(dispatch.booking, Outcome(Ending.ABORTED), self._clock())
        # Not now: a request that is just being held does not wait yet for the place that it would get.
        asyncio.get_running_loop().call_soon(self.turn)


def _as_error(refusal: Refusal, waiting: int) -> QueueFull:
    """Return the error for a refused request, whose team has *waiting* requests in the queue."""
    retry = f"Retry in {refusal.retry_after_s:.1f} s."
    if refusal.why == "spill":
        text = f"A worker will be free in about {refusal.wait_s:.1f} s, later than `models[].spill` allows. {retry}"
        return WaitsTooLong(text, retry_after_s=refusal.retry_after_s)
    if refusal.why == "queue full":
        team = refusal.request.team
        text = f"The queue{f' of team {team!r}' if team else ''} is full ({waiting} waiting). {retry}"
    else:
        text = f"A worker will be free in about {refusal.wait_s:.1f} s, later than the caller's deadline. {retry}"
    return QueueFull(text, retry_after_s=refusal.retry_after_s)
