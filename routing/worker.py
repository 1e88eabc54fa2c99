"""The state of one worker: what it has been given to do, how fast it proved to be, whether it can be trusted.

1. A booking counts from the moment of selection, so a burst between two readings of anything sees itself.
2. The backlog shrinks as time passes, but never by more than the work of the booking whose turn it is.
3. Rates are learnt from what was observed and err on the slow side: over real traces, a rate believed twice too
   high cost 26 % of mean TTFT, one believed twice too low 3 %.
"""

from cache_index import WorkerId
from routing.booking import Booking
from routing.breaker import Breaker
from routing.busy import BusyShare
from routing.candidate import Load
from routing.fit import LinearFit, Sample
from routing.warmup import WarmUp

PREFILL_OVERHEAD_S = 0.01
CAUTION = 1.15
"""Learnt seconds per token are taken this much longer."""
OUTLIER = 4.0
"""A sample that took longer than this many times the prediction, plus a second, is taken as that long."""


class Worker:
    """One worker of a fleet."""

    def __init__(self, worker_id: WorkerId, now: float, *, breaker: Breaker, prefill_tokens_per_s: float) -> None:
        self.id = worker_id
        self.is_up = True
        self.breaker = breaker
        self.warmup = WarmUp()
        self.engine_capacity: tuple[int, int] | None = None
        """Blocks and tokens per block, when the engine has told them."""
        self._prefill = LinearFit(
            Sample(0.0, PREFILL_OVERHEAD_S), Sample(4096.0, PREFILL_OVERHEAD_S + 4096.0 / prefill_tokens_per_s, 0.2)
        )
        # 20 ms a token alone, 0.5 ms more for each neighbour: a mid-size model on one GPU.
        self._decode = LinearFit(Sample(0.0, 0.02), Sample(32.0, 0.036, 0.2))
        self._busy = BusyShare(now)
        self._pending: dict[Booking, None] = {}
        self._decoding: dict[Booking, None] = {}
        self._pending_s = 0.0
        self._turn_since = now

    @property
    def in_flight(self) -> int:
        return len(self._pending) + len(self._decoding)

    @property
    def prefill_tokens_per_s(self) -> float:
        """The rate that predictions use."""
        return 1.0 / (self._prefill.slope * CAUTION)

    def load(self, now: float) -> Load:
        """A reading at *now*. O(1) but for bookings whose prefill is over."""
        self._pass_turns(now)
        return Load(
            backlog_s=self._backlog_s(now),
            pending=len(self._pending),
            decodes=len(self._decoding),
            busy_share=self._busy.observe(now, busy=bool(self._pending)),
            prefill_overhead_s=self._prefill.intercept,
            prefill_s_per_token=self._prefill.slope * CAUTION,
            decode_s_per_token=self._decode.slope,
        )

    def prefill_s(self, uncached_tokens: float) -> float:
        """Predicted seconds for a prefill that begins at once."""
        return self._prefill.intercept + self._prefill.slope * CAUTION * uncached_tokens

    def book(self, booking: Booking, now: float) -> None:
        self._busy.observe(now, busy=bool(self._pending))
        if not self._pending:
            self._turn_since = now
        self._pending[booking] = None
        self._pending_s += booking.work_s
        self.breaker.sent(now)

    def first_byte(self, booking: Booking, now: float) -> None:
        """The prefill of *booking* is over. Calling it again, or for a booking that is gone, changes nothing."""
        if booking not in self._pending:
            return
        booking.service_s = now - max(booking.booked_at, self._turn_since)
        self._begin_decode(booking, now)

    def release(self, booking: Booking, now: float) -> None:
        """*booking* is over, however it ended. Calling it again changes nothing."""
        if booking in self._pending:
            self._leave_queue(booking, now)
        self._decoding.pop(booking, None)

    def learn(self, booking: Booking, now: float, *, uncached_tokens: float, completion_tokens: int | None) -> None:
        """Take the measured times of an answered *booking* into the rates."""
        if booking.service_s is None or booking.first_byte_at is None:
            return
        expected = self._prefill.predict(uncached_tokens)
        self._prefill.learn(uncached_tokens, min(booking.service_s, OUTLIER * expected + 1.0))
        if completion_tokens is not None and completion_tokens > 1:
            tpot_s = (now - booking.first_byte_at) / (completion_tokens - 1)
            neighbours = (booking.decodes_beside + len(self._decoding)) / 2
            self._decode.learn(neighbours, min(tpot_s, OUTLIER * self._decode.predict(neighbours) + 1.0))

    def expire(self, before: float, now: float) -> list[Booking]:
        """Release the bookings made before *before*: whoever made them is gone."""
        lost = [b for b in (*self._pending, *self._decoding) if b.booked_at < before]
        for booking in lost:
            self.release(booking, now)
        return lost

    def _backlog_s(self, now: float) -> float:
        if not self._pending:
            return 0.0
        turn = next(iter(self._pending))
        return max(0.0, self._pending_s - min(now - self._turn_since, turn.work_s))

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
