"""At whom, how often and for how long one request is tried: who has failed of it, and what is left of its time."""

import asyncio
from collections.abc import Callable

from cache_index import WorkerId
from gateway.attempt import RETRY_AFTER_S
from gateway.errors import (
    AdapterMissing,
    ConnectFailed,
    HandedOver,
    PrefillFailed,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    WaitsTooLong,
)
from gateway.exchange import Exchange
from gateway.failed_workers import FailedWorkers
from gateway.model import Model
from gateway.persistence import Persistence
from routing.request import Request
from routing.worker import Worker

MOST_BROKEN = 8
"""Workers that may break over one request: it may be the request that breaks them."""
FOUND_DOWN_S = 5.0
"""A worker that broke off because it died is known to be down after so long: two health checks by default."""


class Retries:
    """Those of one request before the workers of *model*."""

    def __init__(
        self,
        model: Model,
        exchange: Exchange,
        persistence: Persistence,
        *,
        may_hurry: bool,
        clock: Callable[[], float],
    ) -> None:
        """*may_hurry*: somebody else than a worker might answer, so that it need not wait as long in a long outage."""
        self._model = model
        self._exchange = exchange
        self._persistence = persistence
        self._may_hurry = may_hurry
        self._clock = clock
        self.has_hurried = False
        """It has not waited as long as it might have."""
        self._failed = FailedWorkers(model.fleet)
        self._paused: list[WorkerId] = []  # of these, the ones that only stalled
        self._broken = 0
        self._wait_until: float | None = None

    @property
    def has_begun(self) -> bool:
        """Some worker has failed."""
        return len(self._failed) > 0

    def begin_another_wait(self) -> None:
        """What it has waited until now was for its first token, perhaps, and counts no more."""
        self._wait_until = None

    def take_time(self) -> None:
        """Wait as long as any request: nobody else has helped."""
        self.has_hurried, self._may_hurry, self._wait_until = False, False, None

    def has_not_failed(self, worker: WorkerId) -> bool:
        """Not in the life that it is in."""
        return worker not in self._failed

    def failed(self, worker: WorkerId, error: UpstreamError) -> None:
        """Leave *worker* alone as long as it lives this life."""
        self._failed.add(worker)
        if isinstance(error, UpstreamTimeout) and error.phase == "idle":
            self._paused.append(worker)
        if not isinstance(error, UpstreamRefused | ConnectFailed | HandedOver | PrefillFailed | AdapterMissing):
            self._broken += 1

    def forgive(self) -> bool:
        """Whether there is a worker that had only paused, which may be asked from now on: it is better than nobody."""
        forgiven = bool(self._paused)
        for worker in self._paused:
            self._failed.forgive(worker)
        self._paused.clear()
        return forgiven

    async def may_try_again(self, request: Request, failure: UpstreamError | None, *, at_once: bool) -> bool:
        """Whether it may be sent once more: as soon as the retry budget has room, if that is soon enough.

        Nothing was sent where nobody could be reached, and a stream that has begun is lost if it does not go on: these
        do not count. *failure* is the last one.
        """
        most = self._persistence.most_attempts
        if (most is not None and self._exchange.attempts >= most) or self._broken >= MOST_BROKEN:
            return False
        if at_once or isinstance(failure, ConnectFailed | AdapterMissing):
            return True
        while not self._model.retry_budget.take(self._clock()):
            if not self._may_wait(request):
                return False
            await self._model.arrivals.next()
        return True

    async def somebody_comes(self, request: Request, *, spill_in_s: float | None) -> bool:
        """Whether there is a worker to be asked, after a wait for one.

        Raises:
            WaitsTooLong: none came for *spill_in_s*, and a fallback had better answer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._model.has_fleet and self._may_wait(request):
            waited_s = loop.time() - began
            if spill_in_s is not None and waited_s >= spill_in_s:
                raise WaitsTooLong("No worker is there, and later than that is not wanted", retry_after_s=RETRY_AFTER_S)
            is_known = not self._broken or waited_s > FOUND_DOWN_S
            if self.has_begun and is_known and not any(_is_away(worker) for worker in self._model.fleet):
                return False  # all are there, and fail at it
            await self._model.arrivals.next()
            if any(self._may_answer(request, worker) for worker in self._model.fleet):
                return True
        return False

    def _may_wait(self, request: Request) -> bool:
        """Whether there is time left of what a request may wait; it begins to count with the first wait."""
        now = asyncio.get_running_loop().time()
        if self._wait_until is None:
            since = now
            if self._may_hurry and not any(worker.is_answering for worker in self._model.fleet):
                since = self._model.arrivals.deserted_since(now)  # in a long outage not every request waits anew
                self.has_hurried = since < now
            self._wait_until = since + self._persistence.wait_at_most_s(request.deadline_s)
        return now < self._wait_until

    def _may_answer(self, request: Request, worker: Worker) -> bool:
        is_wanted = request.pinned is None or request.pinned == worker.id
        return worker.is_answering and is_wanted and self.has_not_failed(worker.id)


def _is_away(worker: Worker) -> bool:
    return not worker.is_ready and worker.role != "prefill"
