"""State of one worker: its assigned requests, its speed, and whether its cache events can be trusted.

1. A booking counts as load from the moment of selection, so the requests of a burst are spread before any of them
   has been answered.
2. The backlog shrinks as time passes, but never by more than the work of the first pending booking. The engine's queue
   reports correct the backlog for requests without a visible first byte: answers that do not stream, and requests that
   did not come through the gateway.
3. A prefill that its sender interrupts for other requests (see `Request.yields_in_s`) delays them by a part of a step,
   and not until its end. The worker is then not busy, so prefill has no higher price there.
4. Times are learned from measurements, without a safety margin. In replays of real traces, rates that were twice too
   high increased the mean time to first token by 26 %, and rates that were half as high as the real ones by 3 %.
   Learned rates are within a few percent, so a margin would only make the predictions wrong.
"""

import math
from collections.abc import Iterator
from typing import Final

from cache_index import WorkerId
from routing.booking import Booking
from routing.breaker import Breaker
from routing.candidate import Load, Role, WhyNotReady
from routing.learning.accuracy import Accuracy, HitAccuracy
from routing.learning.busy import BusyShare
from routing.learning.concurrency_limit import ConcurrencyLimit
from routing.learning.rates import Rates
from routing.learning.step_timer import StepTimer
from routing.learning.worker_speed import WorkerSpeed
from routing.request import BATCH
from routing.warmup import WarmUp

USUAL_SHARE: Final = 0.1
"""Weight of each new booking in the running average of work per booking."""
LATE = 1.5
"""Multiple of the predicted time, plus `LATE_SLACK_S`, above which a prefill counts as queued."""
LATE_SLACK_S = 0.05
REPORT_DELAY_S = 1.0
"""Age in seconds below which an engine's queue report might not include a request yet."""


class Worker:
    """One worker of a fleet."""

    def __init__(
        self, worker_id: WorkerId, now: float, *, breaker: Breaker, rates: Rates, incarnation: int = 0, tier: int = 0
    ) -> None:
        self.id, self.joined_at = worker_id, now
        self.incarnation = incarnation
        """Number that changes with each restart of the worker, so that a new engine is not blamed for old failures."""
        self.tier = tier
        """Number of the worker's pool. Pools with lower numbers are tried first."""
        self.zone_penalty_s = 0.0
        """Extra cost in seconds of a request to a worker that is in another zone or lacks the LoRA adapter."""
        self.role: Role = "both"
        self.is_up, self.is_asleep = True, False
        self.is_draining = False
        """Whether an operator has asked to drain the worker."""
        self.is_trusted = False
        """Whether the engine's cache events are complete, as far as the gateway can detect."""
        self.hit_accuracy = HitAccuracy()
        self.breaker, self.warmup = breaker, WarmUp()
        self.engine_capacity: tuple[int, int] | None = None
        """Number of cache blocks and number of tokens per block, or None until the engine has reported them."""
        self.host_tokens: int | None = None
        """Number of tokens that the host memory of the engine can hold, or None to learn it from cache events."""
        self.speed = WorkerSpeed(rates)
        self._busy = BusyShare(now)
        self._pending: dict[Booking, None] = {}
        self._decoding: dict[Booking, None] = {}
        self._pending_s, self._first_since = 0.0, now
        """Time at which the computation of the first pending prefill began."""
        self._usual_s = 0.0
        """Average seconds of prefill work in recent bookings."""
        self.asked_at = -math.inf
        """Time of the last booking of a request that is no line of a batch."""
        self._unseen_s = 0.0
        """Seconds of work in the engine's last queue report that do not belong to pending bookings."""
        self._reported_at = now
        self._step_timer, self._concurrency = StepTimer(), ConcurrencyLimit()

    # ---- whether it may get requests

    @property
    def is_ready(self) -> bool:
        """Whether requests can be sent to the worker."""
        return self.is_up and not self.is_asleep and not self.is_draining

    @property
    def is_answering(self) -> bool:
        """Whether the worker is ready and generates answers. Prefill workers only compute prompts for other workers."""
        return self.role != "prefill" and self.is_up and not self.is_asleep and not self.is_draining

    @property
    def why_not_ready(self) -> WhyNotReady | None:
        """Most important reason why the worker is not ready, or None if it is ready."""
        if not self.is_up:
            return "down"
        if self.is_asleep:
            return "asleep"
        return "draining" if self.is_draining else None

    def begin_incarnation(self) -> None:
        """Treat the recovered or restarted worker like a new worker."""
        self.incarnation += 1
        self.warmup.restart()
        self.breaker.reset()

    # ---- what it is doing

    @property
    def pending(self) -> Iterator[Booking]:
        """Bookings of the worker that have no first token yet."""
        return iter(self._pending)

    @property
    def in_flight(self) -> int:
        return len(self._pending) + len(self._decoding)

    def busy_share(self, now: float) -> float:
        """Return the smoothed share of time in which the worker has prefills to compute."""
        self._complete_unseen_prefills(now)
        return self._busy.observe(now, busy=_is_busy(self._pending))

    def load(self, now: float, usual_share: float | None = None) -> Load:
        """Return the load of the worker at *now*. The cost is O(1 + prefills that ended since the last call).

        *usual_share* is the busy share that counts if the worker is as fast as its fleet, or None for its own.
        """
        own_share = self.busy_share(now)
        pending, decodes, speed = len(self._pending), len(self._decoding), self.speed
        return Load(
            self._backlog_s(now),
            pending,
            decodes,
            own_share if usual_share is None or self.speed.pace.factor != 1.0 else usual_share,
            prefill_overhead_s=speed.prefill_overhead_s,
            prefill_s_per_token=speed.prefill_s_per_token(pending + decodes),
            decode_s_per_token=speed.decode_s_per_token,
        )

    def room(self, backlog_s: float, depth_s: float, now: float) -> float:
        """Return the number of requests that the engine would begin almost at once, or 0 if it is saturated.

        *backlog_s* is the backlog of the worker's `load` at *now*. A worker with a backlog of at most *depth_s* seconds
        is about to be free.
        """
        in_flight = len(self._pending) + len(self._decoding)
        left = self._concurrency.limit - in_flight
        if left < 1.0:
            return 0.0
        first = _first_of(self._pending)
        if first is not None and first.request.streams:
            return 0.0 if backlog_s > depth_s or self._is_late(first, now) else left
        if backlog_s <= depth_s:
            return left
        # The end of such a prefill cannot be seen: a rate that is too slow would never be corrected.
        return 0.0 if first is None else max(0.0, min(left, self._concurrency.unseen(now) - in_flight))

    def begins_next(self, now: float) -> bool:
        """Return whether the engine would begin a new request right after its only pending prompt."""
        if len(self._pending) > 1 or self._unseen_left_s(now) > 0.0 or self._concurrency.limit < self.in_flight + 1.0:
            return False
        first = _first_of(self._pending)
        return first is None or not first.request.streams or not self._is_late(first, now)

    def backlog_falls_to(self, backlog_s: float, now: float) -> float | None:
        """Return when the backlog will be down to *backlog_s* seconds, or None if that depends on a first token."""
        first = _first_of(self._pending)
        if first is None:
            return now + max(0.0, self._unseen_left_s(now) - backlog_s)
        falls_s = self._pending_s - backlog_s
        return max(now, self._first_since + falls_s) if falls_s <= first.work_s else None

    def prefill_s(self, uncached_tokens: float) -> float:
        """Return the predicted seconds of a prefill that would be sent now, beside all requests that are in flight."""
        return self.speed.prefill_s(uncached_tokens, self.in_flight)

    # ---- the life of a booking

    def book(self, booking: Booking, now: float) -> None:
        self._enqueue(booking, now)
        self.breaker.sent(now)

    def book_elsewhere(self, booking: Booking, now: float) -> None:
        """Add a booking of another gateway replica. It counts as load, but is no evidence about worker health."""
        self._enqueue(booking, now)

    def first_byte(self, booking: Booking, now: float) -> bool:
        """Record the end of the prefill of *booking*. Return whether the end was not recorded before."""
        self._complete_unseen_prefills(now)
        if booking not in self._pending:
            return booking.is_remote and self._begin_remote_decode(booking, now)
        late = self._is_late(booking, now)
        self.speed.ttft_error.learn(predicted_s=booking.wait_s + booking.work_s, measured_s=now - booking.booked_at)
        self._step_timer.measure(booking, self._first_since, now)
        self._begin_decode(booking, now)
        self._concurrency.began(len(self._decoding), late=late)
        return True

    def first_byte_elsewhere(self, booking: Booking, now: float) -> None:
        """Record the end of a prefill that another gateway booked. The report arrives too late to learn from it.

        Bookings of this gateway with a first byte in the same step share the step's time with the other gateway's
        booking.
        """
        self._complete_unseen_prefills(now)
        if booking in self._pending:
            self._step_timer.measure(booking, self._first_since, now)
            self._begin_decode(booking, now)

    def release(self, booking: Booking, now: float) -> None:
        """End *booking* on the worker. A second call has no effect."""
        self._complete_unseen_prefills(now)
        if booking in self._pending:
            self._leave_queue(booking, now)
        self._decoding.pop(booking, None)

    def expire(self, before: float, now: float) -> list[Booking]:
        """Release the bookings made before the time *before*. Return those that this gateway made."""
        lost = [b for b in (*self._pending, *self._decoding) if b.booked_at < before]
        for booking in lost:
            self.release(booking, now)
        return [booking for booking in lost if not booking.is_elsewhere]

    def engine_queue_reported(self, waiting: float, now: float) -> None:
        """Correct the worker's load, because its engine reports *waiting* requests in its queue.

        The engine computes at most one prompt outside its queue, so earlier prefills have ended even if no first byte
        was seen. Queued requests beyond the pending bookings either did not come through the gateway, or their prefill
        was considered complete too early.
        """
        self._complete_unseen_prefills(now)
        known = [booking for booking in self._pending if booking.booked_at <= now - REPORT_DELAY_S]
        for booking in known[: max(0, len(known) - int(waiting) - 1)]:
            if booking.request.streams:
                break
            self._begin_decode(booking, now)
        unseen = max(0.0, waiting - len(self._pending))
        self._unseen_s = unseen * self._usual_s
        self._reported_at = now
        self._concurrency.engine_queue_reported(waiting, unseen, self.in_flight, now)

    # ---- what it teaches

    @property
    def is_confirmed(self) -> bool:
        """Whether routing trusts the engine's cache events, because they are complete and accurate."""
        return self.is_trusted and not self.hit_accuracy.reported.is_unreliable

    @property
    def accuracy(self) -> Accuracy:
        """Accuracy of the cache predictions that are in use."""
        return self.hit_accuracy.reported if self.is_trusted else self.hit_accuracy.predicted

    def learn(self, booking: Booking, now: float, *, uncached_tokens: float, completion_tokens: int | None) -> None:
        """Learn from the measured times of *booking*, whose request was answered."""
        if booking.first_byte_at is None:
            self._concurrency.answered_early()
        if booking.first_byte_at is None or (booking.service_s is None and not booking.is_remote):
            return
        if booking.service_s is not None:
            _explain_lateness(booking, booking.service_s, self.speed, uncached_tokens, self._concurrency)
            self.speed.learn_prefill(
                uncached_tokens, booking.service_s, booking.loads, decodes=booking.decodes_at_start
            )
        if completion_tokens is not None and completion_tokens > 1:
            others = (booking.decodes_beside + len(self._decoding)) / 2
            self.speed.learn_decode(now - booking.first_byte_at, completion_tokens - 1, others)

    # ---- its queue

    def _enqueue(self, booking: Booking, now: float) -> None:
        self._complete_unseen_prefills(now)
        self._busy.observe(now, busy=_is_busy(self._pending))
        self.asked_at = self.asked_at if booking.request.priority == BATCH else now
        booking.incarnation = self.incarnation
        if booking.is_remote:
            self._decoding[booking] = None
            return
        booking.wait_s = self._backlog_s(now) + self._concurrency_wait_s(booking)
        if not self._pending:
            self._first_since = now
            self._step_timer.begin_step()
            booking.decodes_at_start = len(self._decoding)
        self._pending[booking] = None
        self._pending_s += booking.work_s
        self._usual_s += (booking.work_s - self._usual_s) * (USUAL_SHARE if self._usual_s else 1.0)

    def _begin_remote_decode(self, booking: Booking, now: float) -> bool:
        """Record the first token after a prefill on another worker. Return whether it was not recorded before."""
        if booking.first_byte_at is not None or booking not in self._decoding:
            return False
        booking.first_byte_at = now
        booking.decodes_beside = len(self._decoding) - 1
        return True

    def _is_late(self, booking: Booking, now: float) -> bool:
        """Return whether the first pending prefill is so late that it must have waited in the engine's queue."""
        return _is_late_after(now - max(booking.booked_at, self._first_since), booking.work_s)

    def _concurrency_wait_s(self, booking: Booking) -> float:
        """Return the seconds until enough answers have ended for the engine to run one more request."""
        over = len(self._pending) + len(self._decoding) + 1.0 - self._concurrency.limit
        if over <= 0.0:
            return 0.0
        answer_s = booking.request.output_tokens * self.speed.rates.decode.predict(len(self._decoding))
        return over * answer_s / self._concurrency.limit

    def _backlog_s(self, now: float) -> float:
        first = _first_of(self._pending)
        left_s = 0.0 if first is None else _left_s(first, self._pending_s, now - self._first_since)
        return left_s + self._unseen_left_s(now)

    def _unseen_left_s(self, now: float) -> float:
        """Return a lower bound of the remaining seconds of work that the gateway did not send."""
        return max(0.0, self._unseen_s - (now - self._reported_at))

    def _complete_unseen_prefills(self, now: float) -> None:
        """End prefills of answers that are not streamed at their predicted times, because they show no first byte."""
        first = _first_of(self._pending)
        while first is not None and not first.request.streams:
            if self._first_since + first.work_s > now:
                return
            self._begin_decode(first, self._first_since + first.work_s)
            first = _first_of(self._pending)

    def _begin_decode(self, booking: Booking, at: float) -> None:
        self._leave_queue(booking, at)
        booking.first_byte_at = at
        booking.decodes_beside = len(self._decoding)
        self._decoding[booking] = None
        first = _first_of(self._pending)
        if first is not None:
            first.decodes_at_start = len(self._decoding)

    def _leave_queue(self, booking: Booking, at: float) -> None:
        self._busy.observe(at, busy=_is_busy(self._pending))
        del self._pending[booking]
        self._pending_s = self._pending_s - booking.work_s if self._pending else 0.0
        self._first_since = at


def usual_busy_share(workers: list[Worker], now: float) -> float:
    """Return the mean busy share of those of *workers* that are as fast as their fleet, or 0 without such workers.

    These workers have one price of prefill. If each of them had its own, a few prompts in a row on one of them would
    repel the sessions that it has cached: the mean time to the first token of coding agents would be 4 % longer. A
    worker of another speed has its own price. Otherwise a fast worker would be given requests until its cache and its
    queue overflow.
    """
    total, count = 0.0, 0
    for worker in workers:
        if worker.speed.pace.factor == 1.0:
            total += worker.busy_share(now)
            count += 1
    return total / max(1, count)


def _first_of(bookings: dict[Booking, None]) -> Booking | None:
    """Return the first one of *bookings*, or None. In compiled code, this takes a tenth of the time of `next`."""
    for booking in bookings:
        return booking
    return None


def _is_busy(pending: dict[Booking, None]) -> bool:
    """Return whether there is a prefill to compute that does not yield to others."""
    first = _first_of(pending)
    return first is not None and (first.request.yields_in_s is None or len(pending) > 1)


def _left_s(first: Booking, pending_s: float, elapsed_s: float) -> float:
    """Return the seconds of pending work that delay a request which comes now.

    All pending bookings have *pending_s* seconds of work. *first* began *elapsed_s* seconds ago.
    """
    left_s = max(0.0, pending_s - min(elapsed_s, first.work_s))
    yields_in_s = first.request.yields_in_s
    if yields_in_s is None:
        return left_s
    others_s = max(0.0, pending_s - first.work_s)
    return others_s + min(left_s - others_s, yields_in_s)


def _explain_lateness(
    booking: Booking, service_s: float, speed: WorkerSpeed, uncached_tokens: float, limit: ConcurrencyLimit
) -> None:
    """Undo what the late prefill of *booking* showed about *limit* if it took as long as its uncached tokens take."""
    work_s = speed.prefill_s(uncached_tokens, booking.decodes_at_start) + speed.load_s(booking.loads)
    if _is_late_after(service_s, booking.work_s) and not _is_late_after(service_s, work_s):
        limit.was_explained()


def _is_late_after(seconds: float, work_s: float) -> bool:
    """Return whether a prefill of *work_s* predicted seconds is late if it takes *seconds* seconds."""
    return seconds > LATE * work_s + LATE_SLACK_S
