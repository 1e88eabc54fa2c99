"""Lets requests through as the dispatcher releases them: the one place where a request may wait for its turn."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gateway.errors import QueueFull, WaitsTooLong
from routing.booking import Ending, Outcome
from routing.dispatcher import Dispatch, Dispatcher, Refusal
from routing.explanation import Explanation
from routing.fleet import Fleet
from routing.request import Request


class Turnstile:
    """Makes a `Dispatcher` over *fleet*, which knows neither tasks nor clocks, something that can be awaited."""

    def __init__(self, dispatcher: Dispatcher, fleet: Fleet, *, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._fleet = fleet
        self._clock = clock
        self._waiting: dict[int, asyncio.Future[Dispatch]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.refused_by_team: Counter[str] = Counter()
        """Requests that were not let through, since the start; it never shrinks."""

    async def admit(self, request: Request) -> Dispatch:
        """The request's dispatch, as soon as it is released. Cancelling it takes the request out of the queue.

        Raises:
            QueueFull: it will not be, for its wait cannot fit.
            WaitsTooLong: nor should it be, see `Request.spill_in_s`.
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
        """The request's dispatch now, whoever waits: for a stream that has begun, and goes on elsewhere."""
        return self._dispatcher.at_once(request, self._clock())

    @property
    def now(self) -> float:
        """The time by which it lets requests through, in monotonic seconds."""
        return self._clock()

    @property
    def waiting(self) -> int:
        """Requests that are held."""
        return self._dispatcher.waiting

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        """The same of every team that has any; "" where no teams are told apart."""
        return self._dispatcher.waiting_by_team

    @property
    def oldest_wait_s(self) -> float:
        return self._dispatcher.oldest_wait_s(self._clock())

    def use(self, dispatcher: Dispatcher) -> None:
        """Let requests pass by *dispatcher* from now on; who waits goes on waiting there, for as long as before."""
        former, self._dispatcher = self._dispatcher, dispatcher
        for request, since in former.hand_over():
            dispatcher.submit(request, since)
        self.turn()

    def explain(self, request: Request) -> Explanation:
        """What *request* would get if it were released at this moment. It changes nothing."""
        return self._dispatcher.explain(request, self._clock())

    def turn(self) -> None:
        """Something ended or changed: perhaps somebody may pass."""
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
        """Tell whoever waits for them; raises what the caller of *own* is told."""
        mine = None
        for refusal in refusals:
            if refusal.why != "spill":
                self.refused_by_team[refusal.request.team] += 1
            if refusal.request is own:
                mine = _as_error(refusal)
            elif not (waiter := self._waiting[id(refusal.request)]).cancelled():
                waiter.set_exception(_as_error(refusal))
        if mine is not None:
            raise mine

    def _set_timer(self, now: float) -> None:
        """A worker may become free by time alone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._dispatcher.next_poll_at(now)
        if at is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, at - now), self.turn)

    def _give_back(self, dispatch: Dispatch) -> None:
        """It was released at the moment at which its caller went away; its place is free for the next."""
        if dispatch.booking is not None:
            self._fleet.release(dispatch.booking, Outcome(Ending.ABORTED), self._clock())
        # Not now: whoever just comes, and is held, does not wait yet for what would be given to it.
        asyncio.get_running_loop().call_soon(self.turn)


def _as_error(refusal: Refusal) -> QueueFull:
    if refusal.why == "spill":
        text = f"A worker would be free in about {refusal.wait_s:.0f} s, which is later than is wanted"
        return WaitsTooLong(text, retry_after_s=refusal.retry_after_s)
    if refusal.why == "queue full":
        text = "As many requests of this team wait for a worker as may"
    else:
        text = f"A worker would be free in about {refusal.wait_s:.0f} s, which is later than the caller waits"
    return QueueFull(text, retry_after_s=refusal.retry_after_s)
