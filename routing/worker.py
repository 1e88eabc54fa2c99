"""The state of one worker: what it has been given to do, how fast it proved to be, whether it can be trusted.

1. A booking counts from the moment of selection, so a burst between two readings of anything sees itself.
2. The backlog shrinks as time passes, but never by more than the work of the booking whose turn it is.
   What the engine tells of its queue corrects it where no first byte can: of answers that do not stream, and of
   requests that came by another way.
3. Rates are learnt from what was observed and err on the slow side: over real traces, a rate believed twice too
   high cost 26 % of mean TTFT, one believed twice too low 3 %.
"""

from collections.abc import Iterator
from typing import Final

from cache_index import WorkerId
from routing.accuracy import Accuracy, Clearings
from routing.booking import Booking
from routing.breaker import Breaker
from routing.busy import BusyShare
from routing.candidate import Load, Role, WhyNotReady
from routing.rates import Gap, Pace, Rates
from routing.slots import Slots
from routing.warmup import WarmUp

CAUTION: Final = 1.15
"""Learnt seconds per token are taken this much longer."""
S_PER_TOKEN_MIN: Final = 1e-6
"""A million tokens per second: no engine is faster, but samples may say so where short prompts waited for long ones."""
OUTLIER = 4.0
"""A sample that took longer than this many times the prediction, plus some slack, is taken as that long."""
PREFILL_SLACK_S = 1.0
TPOT_SLACK_S = 0.02
USUAL_SHARE: Final = 0.1
"""What one booking counts in the work that is usual."""
LATE = 1.5
"""Times as long as predicted that a prefill may take, besides `LATE_SLACK_S`, before it is held to be queued."""
LATE_SLACK_S = 0.05
TELLS_LATE_S = 1.0
"""What came within it may be missing in what an engine tells: it takes a while to be asked and to answer."""
SAME_STEP_S = 0.005
"""First bytes closer than this left the engine in one step: they share its time, whichever was read first."""


class Worker:
    """One worker of a fleet."""

    def __init__(
        self, worker_id: WorkerId, now: float, *, breaker: Breaker, rates: Rates, life: int = 0, tier: int = 0
    ) -> None:
        self.id = worker_id
        self.joined_at = now
        self.life = life
        """Another number each time that it comes up again: what an earlier life failed at says nothing of this one."""
        self.tier = tier
        """Which pool it belongs to: those of the lowest number are asked first."""
        self.way_s = 0.0
        """What a request to it costs more than one to a worker that is near."""
        self.role: Role = "both"
        self.is_up = True
        self.is_asleep = False
        self.is_draining = False
        """An operator wants it empty."""
        self.is_trusted = False
        """What its engine tells of its cache is complete at this moment, as far as the stream of it can know."""
        self.told_accuracy = Accuracy()
        """Of predictions by what the engine told."""
        self.shadow_accuracy = Accuracy()
        self._clearings = Clearings()
        """Of predictions by what was sent there."""
        self.breaker = breaker
        self.warmup = WarmUp()
        self.engine_capacity: tuple[int, int] | None = None
        """Blocks and tokens per block, when the engine has told them."""
        self._rates = rates
        self._pace = Pace()
        self._gap = Gap()
        self._busy = BusyShare(now)
        self._pending: dict[Booking, None] = {}
        self._decoding: dict[Booking, None] = {}
        self._pending_s = 0.0
        self._turn_since = now
        self._usual_s = 0.0
        """Work of a booking, of late."""
        self._unseen_s = 0.0
        """Work in the engine's queue that is none of the pending, when it last told."""
        self._told_at = now
        self._same_step: list[Booking] = []
        self._slots = Slots()

    @property
    def is_ready(self) -> bool:
        """It lives, is awake and is to have work: requests may go there."""
        return self.is_up and not self.is_asleep and not self.is_draining

    @property
    def is_answering(self) -> bool:
        """It is ready, and what it answers is an answer: a prefill worker computes prompts for others."""
        return self.role != "prefill" and self.is_up and not self.is_asleep and not self.is_draining

    @property
    def why_not_ready(self) -> WhyNotReady | None:
        """None if it is; of several reasons the one to be mended first."""
        if not self.is_up:
            return "down"
        if self.is_asleep:
            return "asleep"
        return "draining" if self.is_draining else None

    @property
    def is_confirmed(self) -> bool:
        """Whether predictions go by what its engine tells, which has to be complete and to come true."""
        return self.is_trusted and not self.told_accuracy.is_lying

    @property
    def accuracy(self) -> Accuracy:
        """Of the predictions that its engine's reports were last compared with."""
        return self.told_accuracy if self.is_trusted else self.shadow_accuracy

    @property
    def pending(self) -> Iterator[Booking]:
        """What has been given to it and has no first token yet."""
        return iter(self._pending)

    @property
    def in_flight(self) -> int:
        return len(self._pending) + len(self._decoding)

    @property
    def prefill_tokens_per_s(self) -> float:
        """The rate that predictions use."""
        return 1.0 / self._prefill_s_per_token

    @property
    def usual_gap_s(self) -> float | None:
        """Seconds between two tokens of a stream, as learnt here, or else from the fleet; None if nothing has been."""
        here_s = self._gap.usual_s
        return self._rates.gap.usual_s if here_s is None else here_s

    def begin_life(self) -> None:
        """It has come up again, and is treated like a new one."""
        self.life += 1
        self.warmup.restart()
        self.breaker.reset()

    def load(self, now: float) -> Load:
        """A reading at *now*. O(1) but for bookings whose prefill is over."""
        self._pass_turns(now)
        return Load(
            backlog_s=self._backlog_s(now),
            pending=len(self._pending),
            decodes=len(self._decoding),
            busy_share=self._busy.observe(now, busy=bool(self._pending)),
            prefill_overhead_s=self._rates.prefill_overhead_s * self._pace.factor,
            prefill_s_per_token=self._prefill_s_per_token,
            decode_s_per_token=self._rates.decode.slope,
        )

    def room(self, backlog_s: float, depth_s: float, now: float) -> float:
        """How many requests can be sent to it that its engine would begin about at once; 0: it is saturated.

        *backlog_s* is that of its `load` at *now*: with no more of it than *depth_s* it is about to be free.
        """
        in_flight = len(self._pending) + len(self._decoding)
        left = self._slots.most - in_flight
        if left < 1.0:
            return 0.0
        turn = next(iter(self._pending), None)
        if turn is not None and turn.request.streams:
            return 0.0 if backlog_s > depth_s or self._is_late(turn, now) else left
        if backlog_s <= depth_s:
            return left
        # Nobody sees the end of such a prefill: a belief that is too slow would never be put right.
        return 0.0 if turn is None else max(0.0, min(left, self._slots.unseen(now) - in_flight))

    def takes_next(self, now: float) -> bool:
        """Whether its engine begins what is sent to it as soon as it has computed the one prompt that it has."""
        if len(self._pending) > 1 or self._unseen_left_s(now) > 0.0 or self._slots.most < self.in_flight + 1.0:
            return False
        turn = next(iter(self._pending), None)
        return turn is None or not turn.request.streams or not self._is_late(turn, now)

    def backlog_falls_to(self, backlog_s: float, now: float) -> float | None:
        """When the backlog will be as low, if time alone brings it there; None if it takes a first token."""
        if not self._pending:
            return now + max(0.0, self._unseen_left_s(now) - backlog_s)
        turn = next(iter(self._pending))
        falls_s = self._pending_s - backlog_s
        return max(now, self._turn_since + falls_s) if falls_s <= turn.work_s else None

    def prefill_s(self, uncached_tokens: float) -> float:
        """Predicted seconds for a prefill that begins at once."""
        return self._rates.prefill_overhead_s * self._pace.factor + self._prefill_s_per_token * uncached_tokens

    def book(self, booking: Booking, now: float) -> None:
        self._queue(booking, now)
        self.breaker.sent(now)

    def book_elsewhere(self, booking: Booking, now: float) -> None:
        """Another gateway has sent it: it is load as any other, but shows nothing of the worker's health."""
        self._queue(booking, now)

    def first_byte(self, booking: Booking, now: float) -> bool:
        """The prefill of *booking* is over. Calling it again, or for a booking that is gone, changes nothing.

        Whether it was pending until now.
        """
        self._pass_turns(now)
        if booking not in self._pending:
            return booking.is_remote and self._begins_fetched(booking, now)
        late = self._is_late(booking, now)
        self._measure(booking, now)
        self._begin_decode(booking, now)
        self._slots.began(len(self._decoding), late=late)
        return True

    def first_byte_elsewhere(self, booking: Booking, now: float) -> None:
        """The same of a booking of another gateway. What is heard of it is too late to measure a prefill by.

        Those of our own whose first bytes come in the same step share the step's time with it.
        """
        self._pass_turns(now)
        if booking in self._pending:
            self._measure(booking, now)
            self._begin_decode(booking, now)

    def release(self, booking: Booking, now: float) -> None:
        """*booking* is over, however it ended. Calling it again changes nothing."""
        self._pass_turns(now)
        if booking in self._pending:
            self._leave_queue(booking, now)
        self._decoding.pop(booking, None)

    def told(self, waiting: float, now: float) -> None:
        """The engine tells that *waiting* requests are in its queue, whatever came in the last `TELLS_LATE_S`.

        It computes at most one prompt that is not: what stands before is over, also if nobody saw a first byte. If it
        has more in its queue than is pending here, the others came by another way, or were taken as over too early.
        """
        self._pass_turns(now)
        known = [booking for booking in self._pending if booking.booked_at <= now - TELLS_LATE_S]
        for booking in known[: max(0, len(known) - int(waiting) - 1)]:
            if booking.request.streams:
                break
            self._begin_decode(booking, now)
        unseen = max(0.0, waiting - len(self._pending))
        self._unseen_s = unseen * self._usual_s
        self._told_at = now
        self._slots.told(waiting, unseen, self.in_flight, now)

    def learn(self, booking: Booking, now: float, *, uncached_tokens: float, completion_tokens: int | None) -> None:
        """Take the measured times of an answered *booking* into the rates."""
        if booking.first_byte_at is None:
            self._slots.answered_early()
        if booking.first_byte_at is None or (booking.service_s is None and not booking.is_remote):
            return
        rates = self._rates
        if booking.service_s is not None:
            service_s = min(booking.service_s, OUTLIER * rates.prefill_s(uncached_tokens) + PREFILL_SLACK_S)
            rates.learn_prefill(uncached_tokens, service_s)
            self._pace.learn(measured_s=service_s, fleet_s=rates.prefill_s(uncached_tokens))
        if completion_tokens is not None and completion_tokens > 1:
            self._gap.learn(now - booking.first_byte_at, completion_tokens - 1)
            rates.gap.learn(now - booking.first_byte_at, completion_tokens - 1)
            tpot_s = (now - booking.first_byte_at) / (completion_tokens - 1)
            neighbours = (booking.decodes_beside + len(self._decoding)) / 2
            rates.decode.learn(neighbours, min(tpot_s, OUTLIER * rates.decode.predict(neighbours) + TPOT_SLACK_S))

    def learn_hit(self, booking: Booking, reported: float) -> bool:
        """The engine reports *reported* cached tokens of the prompt of *booking*; whether all its cache is gone."""
        if booking.told_tokens is not None:
            self.told_accuracy.learn(predicted=booking.told_tokens, reported=reported)
        if booking.source != "shadow":
            return False
        judgement = self._clearings.judge(predicted=booking.plain_tokens, reported=reported)
        if judgement == "learn":
            self.shadow_accuracy.learn(predicted=booking.plain_tokens, reported=reported)
        elif judgement == "cleared":
            self.shadow_accuracy.forget()
        return judgement == "cleared"

    def expire(self, before: float, now: float) -> list[Booking]:
        """Release the bookings made before *before*: whoever made them is gone. Answers those of our own."""
        lost = [b for b in (*self._pending, *self._decoding) if b.booked_at < before]
        for booking in lost:
            self.release(booking, now)
        return [booking for booking in lost if not booking.is_elsewhere]

    @property
    def _prefill_s_per_token(self) -> float:
        return max(S_PER_TOKEN_MIN, self._rates.prefill_s_per_token * self._pace.factor) * CAUTION

    def _queue(self, booking: Booking, now: float) -> None:
        self._pass_turns(now)
        self._busy.observe(now, busy=bool(self._pending))
        booking.life = self.life
        if booking.is_remote:
            self._decoding[booking] = None
            return
        booking.wait_s = self._backlog_s(now) + self._slot_wait_s(booking)
        if not self._pending:
            self._turn_since = now
            self._same_step = []  # what left before it came was in another step
        self._pending[booking] = None
        self._pending_s += booking.work_s
        self._usual_s += (booking.work_s - self._usual_s) * (USUAL_SHARE if self._usual_s else 1.0)

    def _begins_fetched(self, booking: Booking, now: float) -> bool:
        """The first token is there of a prompt that another worker computed; whether that is news."""
        if booking.first_byte_at is not None or booking not in self._decoding:
            return False
        booking.first_byte_at = now
        booking.decodes_beside = len(self._decoding) - 1
        return True

    def _measure(self, booking: Booking, now: float) -> None:
        """The time since its turn began is its prefill's, or in parts that of all that the engine computed with it."""
        since = max(booking.booked_at, self._turn_since)
        if now - self._turn_since > SAME_STEP_S:
            self._same_step = []
        self._same_step.append(booking)
        together_s = now - since + sum(other.service_s or 0.0 for other in self._same_step[:-1])
        work_s = max(1e-9, sum(other.work_s for other in self._same_step))
        for other in self._same_step:
            other.service_s = together_s * other.work_s / work_s

    def _is_late(self, booking: Booking, now: float) -> bool:
        """Whether its prefill, if it is its turn, takes so much longer than predicted that it cannot have begun."""
        return now - max(booking.booked_at, self._turn_since) > LATE * booking.work_s + LATE_SLACK_S

    def _slot_wait_s(self, booking: Booking) -> float:
        """Until its engine can run one more, where it showed how many it runs: as many answers have to end before."""
        over = len(self._pending) + len(self._decoding) + 1.0 - self._slots.most
        if over <= 0.0:
            return 0.0
        answer_s = booking.request.output_tokens * self._rates.decode.predict(len(self._decoding))
        return over * answer_s / self._slots.most

    def _backlog_s(self, now: float) -> float:
        unseen_s = self._unseen_left_s(now)
        if not self._pending:
            return unseen_s
        turn = next(iter(self._pending))
        return max(0.0, self._pending_s - min(now - self._turn_since, turn.work_s)) + unseen_s

    def _unseen_left_s(self, now: float) -> float:
        """The engine works it off, beside what is pending: it errs low, until the engine tells again."""
        return max(0.0, self._unseen_s - (now - self._told_at))

    def _pass_turns(self, now: float) -> None:
        """An answer that does not stream shows no first byte: its prefill is over when the prediction says so."""
        while self._pending:
            turn = next(iter(self._pending))
            over_at = self._turn_since + turn.work_s
            if turn.request.streams or over_at > now:
                return
            self._begin_decode(turn, over_at)

    def _begin_decode(self, booking: Booking, at: float) -> None:
        self._leave_queue(booking, at)
        booking.first_byte_at = at
        booking.decodes_beside = len(self._decoding)
        self._decoding[booking] = None

    def _leave_queue(self, booking: Booking, at: float) -> None:
        self._busy.observe(at, busy=True)
        del self._pending[booking]
        self._pending_s = self._pending_s - booking.work_s if self._pending else 0.0
        self._turn_since = at
