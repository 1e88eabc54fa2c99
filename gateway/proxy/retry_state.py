"""Retry state of a request, which records failed workers and the remaining time and attempts."""

import asyncio
from collections.abc import Callable

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.protocol.errors import (
    AdapterMissing,
    ConnectFailed,
    HandedOver,
    PrefillFailed,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    WaitsTooLong,
)
from gateway.proxy.attempt import RETRY_AFTER_S
from gateway.proxy.exchange import Exchange
from gateway.proxy.failed_workers import FailedWorkers
from gateway.proxy.retry_policy import RetryPolicy
from routing.request import Request
from routing.worker import Worker

MAX_BROKEN = 8
"""Maximum number of workers that can break while they answer one request. After that, the request is suspected."""
FOUND_DOWN_S = 5.0
"""Seconds within which health checks detect that a worker has died, which is twice the default check interval."""


class RetryState:
    """State that decides whether a request is sent to another worker of *model*, and how long it waits for a worker."""

    def __init__(
        self,
        model: Model,
        exchange: Exchange,
        retry_policy: RetryPolicy,
        *,
        may_cut_wait_short: bool,
        clock: Callable[[], float],
    ) -> None:
        """Create the state of a request. If *may_cut_wait_short* is true, fallbacks exist, and the request waits less
        in a long outage.
        """
        self._model = model
        self._exchange = exchange
        self._retry_policy = retry_policy
        self._may_cut_wait_short = may_cut_wait_short
        self._clock = clock
        self.has_cut_wait_short = False
        """Whether the request has waited for less time than `RetryPolicy.wait_s` allows."""
        self._failed: FailedWorkers | None = None  # until one fails
        self._stalled: list[WorkerId] = []  # those of the failed workers whose streams paused too long
        self._broken = 0
        self._wait_until: float | None = None

    @property
    def has_failures(self) -> bool:
        """Return whether a worker has failed the request and `forgive_stalled` has not allowed this worker again."""
        return self._failed is not None and len(self._failed) > 0

    def restart_wait(self) -> None:
        """Restore the full waiting time. Earlier waits do not count after a stream has begun."""
        self._wait_until = None

    def wait_in_full(self) -> None:
        """Allow the full waiting time, because no fallback has answered."""
        self.has_cut_wait_short, self._may_cut_wait_short, self._wait_until = False, False, None

    def may_ask(self, worker: WorkerId) -> bool:
        """Return whether the request is allowed to go to *worker*, which must not have failed it since the last
        restart.
        """
        return self._failed is None or worker not in self._failed

    def note_failure(self, worker: WorkerId, error: UpstreamError) -> None:
        """Record that *worker* failed with *error*. The request is not sent to *worker* again until it restarts."""
        if self._failed is None:
            self._failed = FailedWorkers(self._model.fleet)
        self._failed.add(worker)
        if isinstance(error, UpstreamTimeout) and error.phase == "idle":
            self._stalled.append(worker)
        if not isinstance(error, UpstreamRefused | ConnectFailed | HandedOver | PrefillFailed | AdapterMissing):
            self._broken += 1

    def forgive_stalled(self) -> bool:
        """Allow a retry on workers whose streams only paused for too long. Return whether there are such workers."""
        if self._failed is None or not self._stalled:
            return False
        for worker in self._stalled:
            self._failed.forgive(worker)
        self._stalled.clear()
        return True

    async def may_retry(self, request: Request, failure: UpstreamError | None, *, may_always_retry: bool) -> bool:
        """Return whether *request* is allowed to be sent again. If necessary, wait until the retry budget allows it.

        The last failure is passed as *failure*. A failed connection or a missing adapter costs no budget, because
        nothing was sent. If *may_always_retry* is true, the budget is not checked, because a stream that has begun
        would otherwise be lost.
        """
        most = self._retry_policy.max_attempts
        if (most is not None and self._exchange.attempts >= most) or self._broken >= MAX_BROKEN:
            return False
        if may_always_retry or isinstance(failure, ConnectFailed | AdapterMissing):
            return True
        while not self._model.retry_budget.spend(self._clock()):
            if not self._may_wait(request):
                return False
            await self._model.arrivals.next()
        return True

    async def wait_for_worker(self, request: Request, *, spill_in_s: float | None) -> bool:
        """Wait until the request can be sent to a worker. Return False if no worker becomes available in time.

        Raises:
            WaitsTooLong: if no worker becomes available within *spill_in_s* seconds, so that a fallback should answer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._model.has_fleet and self._may_wait(request):
            waited_s = loop.time() - began
            if spill_in_s is not None and waited_s >= spill_in_s:
                raise WaitsTooLong("No worker became available in time", retry_after_s=RETRY_AFTER_S)
            is_checked = not self._broken or waited_s > FOUND_DOWN_S
            if self.has_failures and is_checked and not any(_is_unavailable(worker) for worker in self._model.fleet):
                return False  # all workers are available, and all failed this request
            await self._model.arrivals.next()
            if any(self._may_answer(request, worker) for worker in self._model.fleet):
                return True
        return False

    def _may_wait(self, request: Request) -> bool:
        """Return whether the request is allowed to wait longer. The waiting time starts with the first wait."""
        now = asyncio.get_running_loop().time()
        if self._wait_until is None:
            since = now
            if self._may_cut_wait_short and not any(worker.is_answering for worker in self._model.fleet):
                # In a long outage the wait counts from its beginning, so that not every request waits in full.
                since = self._model.arrivals.deserted_since(now)
                self.has_cut_wait_short = since < now
            self._wait_until = since + self._retry_policy.max_wait_s(request.deadline_s)
        return now < self._wait_until

    def _may_answer(self, request: Request, worker: Worker) -> bool:
        is_wanted = request.pinned is None or request.pinned == worker.id
        if request.allowed is not None and worker.id not in request.allowed:
            return False
        return worker.is_answering and is_wanted and self.may_ask(worker.id)


def _is_unavailable(worker: Worker) -> bool:
    return not worker.is_ready and worker.role != "prefill"
