import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.booking import Booking
from routing.breaker import Breaker
from routing.rates import Rates
from routing.worker import Worker
from tests.routing.examples import A, B, a_request, rates_of


def a_worker(prefill_tokens_per_s: float = 1000.0) -> Worker:
    return Worker(A, 0.0, breaker=Breaker(), rates=Rates(prefill_tokens_per_s=prefill_tokens_per_s))


def booked(worker: Worker, at: float, work_s: float = 1.0, *, streams: bool = True, uncached: float = 1.0) -> Booking:
    booking = Booking(worker.id, a_request(streams=streams), 0, uncached, work_s, at)
    worker.book(booking, at)
    return booking


def counts(worker: Worker, now: float) -> tuple[float, int, int]:
    """Backlog in seconds, requests that wait for their first token, requests that generate."""
    load = worker.load(now)
    return round(load.backlog_s, 9), load.pending, load.decodes


class TestBacklog:
    def test_an_idle_worker_has_none(self) -> None:
        """Nothing is booked."""
        assert (0.0, 0, 0) == counts(a_worker(), 7.0)

    def test_a_booking_counts_from_its_moment(self) -> None:
        """A second request at the same instant sees the first."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)

        assert (2.0, 1, 0) == counts(worker, 0.0)

    def test_bookings_add_up(self) -> None:
        """Prefills are computed one after the other."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)
        booked(worker, 0.0, 0.5)

        assert (2.5, 2, 0) == counts(worker, 0.0)

    def test_it_shrinks_as_time_passes(self) -> None:
        """Of two seconds, half a second is done."""
        worker = a_worker()
        booked(worker, 1.0, 2.0)

        assert (1.5, 1, 0) == counts(worker, 1.5)

    def test_it_shrinks_by_no_more_than_the_work_whose_turn_it_is(self) -> None:
        """The first should be over by 2.0 but is not: the second has not begun."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)
        booked(worker, 0.0, 3.0)

        assert (3.0, 2, 0) == counts(worker, 2.0)
        assert (3.0, 2, 0) == counts(worker, 60.0)

    def test_a_first_byte_begins_the_next_turn(self) -> None:
        """The first took four seconds instead of two; from then on the second is at work."""
        worker = a_worker()
        first = booked(worker, 0.0, 2.0)
        booked(worker, 0.0, 3.0)
        worker.first_byte(first, 4.0)

        assert (3.0, 1, 1) == counts(worker, 4.0)
        assert (2.0, 1, 1) == counts(worker, 5.0)

    def test_a_turn_begins_no_earlier_than_its_booking(self) -> None:
        """The worker was idle from 1 to 10."""
        worker = a_worker()
        worker.first_byte(booked(worker, 0.0, 1.0), 1.0)
        booked(worker, 10.0, 2.0)

        assert (2.0, 1, 1) == counts(worker, 10.0)
        assert (1.0, 1, 1) == counts(worker, 11.0)

    def test_a_first_byte_out_of_order_takes_its_own_work_away(self) -> None:
        """The second comes first, at 1.0: the worker has not begun with the first, which keeps its two seconds."""
        worker = a_worker()
        first = booked(worker, 0.0, 2.0)
        second = booked(worker, 0.0, 1.0)
        worker.first_byte(second, 1.0)

        assert (2.0, 1, 1) == counts(worker, 1.0)
        assert pytest.approx(1.0) == second.service_s

        worker.first_byte(first, 3.5)

        assert (0.0, 0, 2) == counts(worker, 3.5)
        assert pytest.approx(2.5) == first.service_s

    def test_a_request_that_overtakes_is_measured_from_its_booking(self) -> None:
        """It came five seconds after the one whose turn it was."""
        worker = a_worker()
        booked(worker, 0.0, 9.0)
        overtaking = booked(worker, 5.0, 1.0)
        worker.first_byte(overtaking, 6.0)

        assert 1.0 == overtaking.service_s

    def test_a_request_that_ends_before_its_first_byte_takes_its_work_away(self) -> None:
        """Its caller went away, or it failed."""
        worker = a_worker()
        booked(worker, 0.0, 1.0)
        waiting = booked(worker, 0.0, 5.0)
        worker.release(waiting, 0.5)

        assert (1.0, 1, 0) == counts(worker, 0.5)

    def test_rounding_errors_do_not_stay(self) -> None:
        """When nobody waits it is exactly zero, and the next request finds nothing before its own work."""
        worker = a_worker()
        for booking in [booked(worker, 0.0, 0.1 * i) for i in range(1000)]:
            worker.first_byte(booking, 1.0)

        assert 0.0 == worker.load(1.0).backlog_s

        booked(worker, 2.0, 1.0)

        assert 1.0 == worker.load(2.0).backlog_s

    def test_rounding_errors_do_not_make_it_negative(self) -> None:
        """In floats 0.4 + 0.1 - 0.4 is less than 0.1."""
        worker = a_worker()
        first = booked(worker, 0.0, 0.4)
        booked(worker, 0.0, 0.1)
        worker.first_byte(first, 1.0)

        assert 0.0 == worker.load(9.0).backlog_s


class TestFirstByte:
    def test_it_moves_a_request_from_waiting_to_generating(self) -> None:
        """It keeps the moment, the measured prefill and how many were generating."""
        worker = a_worker()
        first, second = booked(worker, 0.0), booked(worker, 0.5)
        worker.first_byte(first, 1.25)
        worker.first_byte(second, 2.0)

        assert (0.0, 0, 2) == counts(worker, 2.0)
        assert (1.25, 1.25, 0) == (first.first_byte_at, first.service_s, first.decodes_beside)
        assert (2.0, 0.75, 1) == (second.first_byte_at, second.service_s, second.decodes_beside)

    def test_a_second_one_changes_nothing(self) -> None:
        """The measured time stays that of the first."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.first_byte(booking, 1.0)
        worker.first_byte(booking, 5.0)

        assert (0.0, 0, 1) == counts(worker, 5.0)
        assert 1.0 == booking.service_s

    def test_after_the_release_it_changes_nothing(self) -> None:
        """A byte may still be on its way when the caller leaves."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.release(booking, 1.0)
        worker.first_byte(booking, 1.0)

        assert (0.0, 0, 0) == counts(worker, 1.0)
        assert booking.first_byte_at is None


class TestRelease:
    def test_it_ends_a_generating_request(self) -> None:
        """Nothing is left."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.first_byte(booking, 1.0)
        worker.release(booking, 2.0)

        assert (0.0, 0, 0) == counts(worker, 2.0)
        assert 0 == worker.in_flight

    def test_a_second_one_changes_nothing(self) -> None:
        """Neither for a request that was waiting nor for one that was generating."""
        worker = a_worker()
        waiting, generating, other = booked(worker, 0.0), booked(worker, 0.0), booked(worker, 0.0, 4.0)
        worker.first_byte(generating, 1.0)
        for _ in range(2):
            worker.release(waiting, 1.0)
            worker.release(generating, 1.0)

        assert (4.0, 1, 0) == counts(worker, 1.0)

        worker.release(other, 1.0)

        assert (0.0, 0, 0) == counts(worker, 1.0)


class TestAnswersThatDoNotStream:
    def test_their_prefill_is_over_when_the_prediction_says_so(self) -> None:
        """Nobody sees their first token."""
        worker = a_worker()
        booking = booked(worker, 0.0, 2.0, streams=False)

        assert (0.5, 1, 0) == counts(worker, 1.5)
        assert (0.0, 0, 1) == counts(worker, 2.0)
        assert 2.0 == booking.first_byte_at

    def test_their_turns_pass_one_after_the_other(self) -> None:
        """Two of one second each are over by 2.5, the third is half done."""
        worker = a_worker()
        for _ in range(3):
            booked(worker, 0.0, 1.0, streams=False)

        assert (0.5, 1, 2) == counts(worker, 2.5)

    def test_a_stream_in_front_keeps_them_waiting(self) -> None:
        """The stream's first byte is late, and with it all behind it."""
        worker = a_worker()
        stream = booked(worker, 0.0, 1.0)
        booked(worker, 0.0, 1.0, streams=False)

        assert (1.0, 2, 0) == counts(worker, 9.0)

        worker.first_byte(stream, 9.0)

        assert (0.5, 1, 1) == counts(worker, 9.5)
        assert (0.0, 0, 2) == counts(worker, 10.0)

    def test_a_stream_behind_them_is_measured_from_its_turn(self) -> None:
        """The first second belonged to the answer in front, though nobody read the load in between."""
        worker = a_worker()
        booked(worker, 0.0, 1.0, streams=False)
        stream = booked(worker, 0.0, 1.0)
        worker.first_byte(stream, 3.0)

        assert 2.0 == stream.service_s

    def test_a_request_booked_after_their_end_begins_when_it_is_booked(self) -> None:
        """The answer in front was over at 1.0; what is booked at 10.0 has all its work before it."""
        worker = a_worker()
        booked(worker, 0.0, 1.0, streams=False)
        booked(worker, 10.0, 2.0)

        assert (2.0, 1, 1) == counts(worker, 10.0)

    def test_a_release_behind_them_does_not_begin_their_turn_anew(self) -> None:
        """They were over at 1.0."""
        worker = a_worker()
        booked(worker, 0.0, 1.0, streams=False)
        worker.release(booked(worker, 0.0, 1.0), 1.5)

        assert (0.0, 0, 1) == counts(worker, 1.5)

    def test_they_may_end_before_the_prediction(self) -> None:
        """The answer was faster than thought."""
        worker = a_worker()
        worker.release(booked(worker, 0.0, 2.0, streams=False), 0.5)

        assert (0.0, 0, 0) == counts(worker, 0.5)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["book", "book", "first_byte", "release"]),
            st.integers(0, 8),
            st.booleans(),
            st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
        ),
        max_size=40,
    )
)
@settings(deadline=None)
def test_reading_the_load_changes_nothing(steps: list[tuple[str, int, bool, float]]) -> None:
    """A worker that is read after every step has the same load in the end as one that is read once."""
    read, unread = a_worker(), a_worker()
    pairs: list[tuple[Booking, Booking]] = []
    now = 0.0
    for action, which, streams, pause_s in steps:
        now += pause_s
        if action == "book":
            work_s = 0.25 * (which + 1)
            pairs.append((booked(read, now, work_s, streams=streams), booked(unread, now, work_s, streams=streams)))
        elif pairs:
            for worker, booking in zip((read, unread), pairs[which % len(pairs)], strict=True):
                if action == "release":
                    worker.release(booking, now)
                elif booking.request.streams:
                    worker.first_byte(booking, now)
        read.load(now)
        read.load(now + pause_s / 2)
        now += pause_s

    assert pytest.approx(unread.load(now).fields()) == read.load(now).fields()
    assert [one.service_s for one, _ in pairs] == [other.service_s for _, other in pairs]


class TestWhatTheEngineTells:
    def test_an_empty_queue_ends_prefills_that_nobody_saw_end(self) -> None:
        """Of three answers that do not stream at most one is still being computed; two wait for their last token."""
        worker = a_worker()
        for _ in range(3):
            booked(worker, 0.0, 10.0, streams=False)
        worker.told(0.0, 1.0)

        assert (10.0, 1, 2) == counts(worker, 1.0)

    def test_what_is_in_the_queue_has_not_begun(self) -> None:
        """Two wait, one is being computed: nothing is over."""
        worker = a_worker()
        for _ in range(3):
            booked(worker, 0.0, 10.0, streams=False)
        worker.told(2.0, 1.0)

        assert (29.0, 3, 0) == counts(worker, 1.0)

    def test_it_cannot_tell_of_what_was_sent_since(self) -> None:
        """Two were sent within the last second."""
        worker = a_worker()
        for at in (0.0, 2.5, 2.5):
            booked(worker, at, 10.0, streams=False)
        worker.told(0.0, 3.0)

        assert (27.0, 3, 0) == counts(worker, 3.0)

    def test_a_stream_shows_its_first_byte_itself(self) -> None:
        """It may be on its way; what stands behind it is not told of before."""
        worker = a_worker()
        booked(worker, 0.0, 10.0, streams=False)
        booked(worker, 0.0, 10.0)
        booked(worker, 0.0, 10.0, streams=False)
        booked(worker, 0.0, 10.0, streams=False)
        worker.told(0.0, 1.0)

        assert (30.0, 3, 1) == counts(worker, 1.0)

    def test_a_queue_longer_than_known_is_backlog(self) -> None:
        """Four more than the one sent here wait, of the usual work; time takes from both."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)
        worker.told(5.0, 0.0)

        assert (10.0, 1, 0) == counts(worker, 0.0)
        assert (9.0, 1, 0) == counts(worker, 0.5)

    def test_usual_is_what_was_booked_of_late(self) -> None:
        """One tenth of the latest, nine of what was usual before: 1.9 s."""
        worker = a_worker()
        for work_s in (2.0, 1.0):
            worker.release(booked(worker, 0.0, work_s), 0.0)
        worker.told(1.0, 0.0)

        assert (1.9, 0, 0) == counts(worker, 0.0)

    def test_what_is_unseen_is_worked_off(self) -> None:
        """Nothing of it is left after its time, or when the engine tells of an empty queue."""
        worker = a_worker()
        worker.release(booked(worker, 0.0, 2.0), 0.0)
        worker.told(5.0, 0.0)

        assert [10.0, 4.0, 0.0] == [counts(worker, at)[0] for at in (0.0, 6.0, 20.0)]
        assert 7.0 == worker.backlog_falls_to(3.0, 0.0)
        assert 9.0 == worker.backlog_falls_to(3.0, 9.0)

        worker.told(0.0, 0.5)

        assert (0.0, 0, 0) == counts(worker, 0.5)

    def test_a_prefill_taken_as_over_too_early_counts_again(self) -> None:
        """The prediction said a second for each of two, but both are still in the queue."""
        worker = a_worker()
        for _ in range(2):
            booked(worker, 0.0, 1.0, streams=False)

        assert (0.0, 0, 2) == counts(worker, 2.0)

        worker.told(2.0, 2.0)

        assert (2.0, 0, 2) == counts(worker, 2.0)


class TestRates:
    def test_the_prior_speaks_before_any_answer(self) -> None:
        """Two thousand tokens per second, believed 15 % slower, and 10 ms for each request."""
        worker = a_worker(2000.0)

        assert pytest.approx(2000.0 / 1.15) == worker.prefill_tokens_per_s
        assert pytest.approx(0.01 + 1000 / 2000 * 1.15) == worker.prefill_s(1000.0)

    def test_a_load_tells_the_rates_that_predictions_use(self) -> None:
        """So a strategy predicts what a booking will be believed to take."""
        worker = a_worker(2000.0)
        load = worker.load(0.0)

        assert pytest.approx(worker.prefill_s(500.0)) == load.prefill_overhead_s + 500.0 * load.prefill_s_per_token
        assert pytest.approx(0.0005) == load.decode_s_per_token

    @pytest.mark.parametrize("believed", [5_000.0, 10_000.0, 20_000.0])
    def test_it_converges_on_the_true_rate_from_below(self, believed: float) -> None:
        """The worker computes 10,000 tokens per second; 40 answers later it is believed to do 7,500 to 10,000."""
        rng = random.Random(1)
        worker = a_worker(believed)
        for i in range(200):
            answered(worker, rng.randrange(100, 8000), tokens_per_s=10_000.0, at=10.0 * i)

            assert i < 40 or 7_500.0 <= worker.prefill_tokens_per_s <= 10_000.0

    def test_noise_does_not_lift_it_above_the_true_rate(self) -> None:
        """Measured times that are off by up to 20 % either way."""
        rng = random.Random(2)
        worker = a_worker(5_000.0)
        for i in range(300):
            rate = 10_000.0 / rng.uniform(0.8, 1.2)
            answered(worker, rng.randrange(100, 8000), tokens_per_s=rate, at=10.0 * i)

            assert i < 40 or 7_000.0 <= worker.prefill_tokens_per_s <= 10_000.0

    def test_prompts_of_one_length_are_enough(self) -> None:
        """The prior tells how much of their time is overhead."""
        worker = a_worker(5_000.0)
        for i in range(100):
            answered(worker, 3000, tokens_per_s=10_000.0, at=10.0 * i)

        assert 7_500.0 <= worker.prefill_tokens_per_s <= 10_000.0

    def test_an_outlier_counts_as_four_times_the_prediction_and_a_second(self) -> None:
        """Whether a prefill took six seconds or an hour makes no difference: 4 * 1.01 + 1 is the most."""
        clipped, wild = a_worker(), a_worker()
        answered(clipped, 1000, service_s=5.04)
        answered(wild, 1000, service_s=3600.0)

        assert clipped.prefill_tokens_per_s == pytest.approx(wild.prefill_tokens_per_s)
        assert clipped.prefill_s(1.0) == pytest.approx(wild.prefill_s(1.0))

    def test_short_prompts_that_took_long_leave_a_rate(self) -> None:
        """However absurd the samples, a rate is a number, and no higher than a million tokens per second."""
        worker = a_worker()
        for i in range(200):
            answered(worker, 1, service_s=1.0, at=20.0 * i)
            answered(worker, 4000, service_s=0.01, at=20.0 * i + 10.0)

        assert pytest.approx(1e6 / 1.15) == worker.prefill_tokens_per_s

    def test_an_answer_that_does_not_stream_teaches_nothing(self) -> None:
        """Its prefill was not seen."""
        worker = a_worker()
        booking = booked(worker, 0.0, 1.0, streams=False)
        worker.release(booking, 60.0)
        worker.learn(booking, 60.0, uncached_tokens=10.0, completion_tokens=10)

        assert rates_of(a_worker().load(60.0)) == rates_of(worker.load(60.0))

    def test_an_answer_without_a_first_byte_teaches_nothing(self) -> None:
        """It ended before anything came."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.release(booking, 60.0)
        worker.learn(booking, 60.0, uncached_tokens=10.0, completion_tokens=10)

        assert rates_of(a_worker().load(60.0)) == rates_of(worker.load(60.0))


class TestDecodeRates:
    def test_what_a_neighbour_costs_is_learnt(self) -> None:
        """12 ms per token and 0.4 ms more for each request beside it, in batches of 1 to 20."""
        worker = a_worker()
        for i in range(100):
            batch = 1 + i % 20
            generated(worker, batch=batch, tpot_s=0.012 + 0.0004 * (batch - 1) / 2, at=100.0 * i)

        assert pytest.approx(0.0004, rel=0.15) == worker.load(10_000.0).decode_s_per_token

    def test_neighbours_are_those_of_begin_and_end_on_average(self) -> None:
        """None beside it at first and 32 in the end are 16: 28 ms a token is what the prior says of them."""
        worker = a_worker()
        measured = booked(worker, 0.0)
        worker.first_byte(measured, 0.0)
        for _ in range(32):
            worker.first_byte(booked(worker, 0.0), 0.0)
        worker.release(measured, 2.8)
        worker.learn(measured, 2.8, uncached_tokens=1.0, completion_tokens=101)

        assert pytest.approx(0.0005) == worker.load(2.8).decode_s_per_token

    @pytest.mark.parametrize("completion_tokens", [None, 0, 1])
    def test_an_answer_of_one_token_says_nothing_of_generation(self, completion_tokens: int | None) -> None:
        """There is no time between tokens; nor is there where the engine did not count."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.first_byte(booking, 1.0)
        worker.release(booking, 60.0)
        worker.learn(booking, 60.0, uncached_tokens=10.0, completion_tokens=completion_tokens)

        assert pytest.approx(0.0005) == worker.load(60.0).decode_s_per_token

    def test_an_outlier_is_clipped(self) -> None:
        """A caller who reads a token a minute, beside nine others, makes a neighbour no dearer than 3 ms."""
        worker = a_worker()
        for i in range(100):
            batch = 1 + i % 20
            generated(worker, batch=batch, tpot_s=0.012 + 0.0004 * (batch - 1) / 2, at=100.0 * i)
        for _ in range(2):
            generated(worker, batch=20, tpot_s=60.0, at=20_000.0)

        assert worker.load(20_000.0).decode_s_per_token < 0.003


class TestBusyShare:
    def test_it_is_the_time_with_prefill_to_do(self) -> None:
        """Half of each second for five minutes; generating does not count."""
        worker = a_worker()
        for i in range(300):
            worker.first_byte(booked(worker, float(i), 0.5), i + 0.5)

        assert pytest.approx(0.5, abs=0.01) == worker.load(300.0).busy_share

    def test_answers_that_do_not_stream_are_busy_as_long_as_predicted(self) -> None:
        """A quarter of each second, whenever the load is read."""
        worker = a_worker()
        for i in range(300):
            booked(worker, float(i), 0.25, streams=False)

        assert pytest.approx(0.25, abs=0.01) == worker.load(300.0).busy_share


class TestLeases:
    def test_bookings_made_before_a_moment_expire(self) -> None:
        """One that waits and one that generates are lost, one made later is not; the lost are answered once."""
        worker = a_worker()
        generating, waiting = booked(worker, 0.0), booked(worker, 1.0)
        worker.first_byte(generating, 2.0)
        later = booked(worker, 5.0, 3.0)

        assert {generating, waiting} == set(worker.expire(5.0, 700.0))
        assert [] == worker.expire(5.0, 700.0)
        assert 1 == worker.in_flight

        worker.release(later, 700.0)

        assert (0.0, 0, 0) == counts(worker, 700.0)

    def test_a_lost_booking_may_still_be_released(self) -> None:
        """Whoever made it was only slow."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.expire(1.0, 700.0)
        worker.first_byte(booking, 701.0)
        worker.release(booking, 702.0)

        assert (0.0, 0, 0) == counts(worker, 702.0)


def answered(
    worker: Worker, tokens: int, *, at: float = 0.0, tokens_per_s: float = 1000.0, service_s: float | None = None
) -> None:
    """A stream alone on the worker, its prefill measured as tokens over rate and 10 ms, or as *service_s*."""
    booking = booked(worker, at, worker.prefill_s(tokens), uncached=tokens)
    first_byte_at = at + (0.01 + tokens / tokens_per_s if service_s is None else service_s)
    worker.first_byte(booking, first_byte_at)
    worker.release(booking, first_byte_at)
    worker.learn(booking, first_byte_at, uncached_tokens=tokens, completion_tokens=None)


def generated(worker: Worker, *, batch: int, tpot_s: float, at: float) -> None:
    """*batch* requests of 101 tokens that begin together; the first of them is measured when all but it are over."""
    bookings = [booked(worker, at) for _ in range(batch)]
    for booking in reversed(bookings):
        worker.first_byte(booking, at)
    for booking in bookings:
        worker.release(booking, at)
    worker.learn(bookings[0], at + 100 * tpot_s, uncached_tokens=1.0, completion_tokens=101)


class TestSameStep:
    def test_first_bytes_of_one_step_share_its_time_by_their_work(self) -> None:
        """A batch of 1 s and 3 s of work came out after 2 s: half a second and one and a half, not two and nothing."""
        worker = a_worker()
        small, large = booked(worker, 0.0, 1.0), booked(worker, 0.0, 3.0)
        worker.first_byte(small, 2.0)
        worker.first_byte(large, 2.001)

        assert pytest.approx(0.5, abs=0.001) == small.service_s
        assert pytest.approx(1.5, abs=0.001) == large.service_s

    def test_later_first_bytes_are_another_step(self) -> None:
        """Ten milliseconds apart."""
        worker = a_worker()
        one, other = booked(worker, 0.0, 1.0), booked(worker, 0.0, 1.0)
        worker.first_byte(one, 2.0)
        worker.first_byte(other, 2.01)

        assert 2.0 == one.service_s
        assert pytest.approx(0.01) == other.service_s


@pytest.mark.parametrize(
    ("is_up", "is_asleep", "why"),
    [(True, False, None), (False, False, "down"), (True, True, "asleep"), (False, True, "down")],
)
def test_a_worker_is_ready_or_says_why_not(is_up: bool, is_asleep: bool, why: str | None) -> None:
    """Of several reasons it says the one that has to be mended first."""
    worker = a_worker()
    worker.is_up, worker.is_asleep = is_up, is_asleep

    assert (why, why is None) == (worker.why_not_ready, worker.is_ready)


class TestRoom:
    """How many more it can be sent that its engine would begin at once, with 50 ms of backlog at most."""

    def room(self, worker: Worker, now: float) -> float:
        return worker.room(worker.load(now).backlog_s, 0.05, now)

    def test_an_idle_worker_has_as_much_as_anybody_knows(self) -> None:
        """Nothing was ever seen to wait."""
        assert math.inf == self.room(a_worker(), 0.0)

    def test_a_worker_with_a_backlog_has_none(self) -> None:
        """Until it is about to be free."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)

        assert (0.0, math.inf) == (self.room(worker, 1.0), self.room(worker, 1.96))

    def test_a_worker_whose_first_token_is_late_has_none(self) -> None:
        """By the clock nothing is left to do, but the engine must have a queue."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)

        assert (math.inf, 0.0) == (self.room(worker, 3.0), self.room(worker, 3.2))

    def test_what_was_late_shows_how_many_fit(self) -> None:
        """Two generate when it begins at last: with one more that waits there is no room, before one of them ends."""
        worker = a_worker()
        worker.first_byte(booked(worker, 0.0, 1.0), 1.0)
        second = booked(worker, 1.0, 1.0)
        worker.first_byte(second, 60.0)
        assert 1.0 == self.room(worker, 60.0)
        booked(worker, 60.0, 0.01)
        assert 0.0 == self.room(worker, 60.01)
        worker.release(second, 60.02)

        assert 1.0 == self.room(worker, 60.02)

    def test_what_came_by_another_way_takes_room(self) -> None:
        """The engine tells of five requests in its queue, none of which is ours."""
        worker = a_worker()
        worker.first_byte(booked(worker, 0.0, 1.0), 1.0)
        worker.told(5.0, 10.0)

        assert 0.0 == self.room(worker, 10.0)

    def test_the_backlog_of_prefills_that_nobody_sees_is_no_reason_alone(self) -> None:
        """Nothing is told: there is room; the engine has no queue: for eight at first, and for one more for each answer
        that came early.
        """
        worker = a_worker()
        bookings = [booked(worker, 0.0, 5.0, streams=False) for _ in range(3)]
        assert math.inf == self.room(worker, 0.0)
        worker.told(0.0, 0.5)
        assert 5.0 == self.room(worker, 0.5)
        worker.release(bookings[0], 0.6)
        worker.learn(bookings[0], 0.6, uncached_tokens=1.0, completion_tokens=1)

        assert 7.0 == self.room(worker, 0.6)

    def test_an_engine_with_a_queue_of_them_has_none(self) -> None:
        """Thirty were thought to be computed long ago; ten of them wait."""
        worker = a_worker()
        for _ in range(30):
            booked(worker, 0.0, 0.1, streams=False)
        worker.told(10.0, 9.0)

        assert 0.0 == self.room(worker, 60.0)


def test_first_tokens_that_come_at_once_leave_nothing_behind() -> None:
    """Each prompt came when the one before was computed: they were in different steps, however short."""
    worker = a_worker()
    for number in range(100):
        worker.first_byte(booked(worker, 0.01 * number, 0.002), 0.01 * number + 0.002)

    assert 1 == len(worker._same_step)


class TestLives:
    def test_each_life_has_a_number_of_its_own(self) -> None:
        """And begins without what was held against the one before."""
        worker = a_worker()
        for _ in range(5):
            worker.breaker.failed(0.0, sent_at=0.0)
        worker.begin_life()

        assert (1, False) == (worker.life, worker.breaker.is_open)

    def test_a_booking_knows_in_which_life_it_was_made(self) -> None:
        """What ends later may be no sign of the present one."""
        worker = a_worker()
        before = booked(worker, 0.0)
        worker.begin_life()

        assert [0, 1] == [before.life, booked(worker, 1.0).life]


class TestNext:
    """Whether what is sent is what the engine computes next."""

    def test_a_worker_that_computes_one_prompt_takes_the_next(self) -> None:
        """And one that has nothing to do; not one that has two."""
        worker = a_worker()
        assert worker.takes_next(0.0)
        booked(worker, 0.0)
        assert worker.takes_next(0.5)
        booked(worker, 0.5)

        assert not worker.takes_next(0.6)

    def test_an_engine_with_a_queue_does_not(self) -> None:
        """It told of one, or its prompt takes so long that it must stand in one."""
        told, late = a_worker(), a_worker()
        booked(told, 0.0)
        told.told(3.0, 0.0)
        booked(late, 0.0)

        assert not told.takes_next(0.1)
        assert [True, False] == [late.takes_next(now) for now in (1.5, 1.6)]

    def test_an_engine_that_runs_as_many_as_it_can_does_not(self) -> None:
        """Two run, and a third shows whether there is room."""
        worker = a_worker()
        fill(worker)
        assert worker.takes_next(20.0)
        booked(worker, 20.0)

        assert not worker.takes_next(20.0)

    def test_a_prompt_that_nobody_sees_end_is_believed_to_end(self) -> None:
        """Of answers that do not stream nobody can say that they are late."""
        worker = a_worker()
        booked(worker, 0.0, streams=False)

        assert worker.takes_next(0.5)


class TestPredictedWait:
    def test_it_is_what_stands_before_a_booking(self) -> None:
        """Two seconds, of which half a second is done, and then its own."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)

        assert [1.5, 2.5] == [booked(worker, 0.5, 1.0).wait_s, booked(worker, 0.5, 1.0).wait_s]

    def test_what_the_engine_told_of_others_counts(self) -> None:
        """Three requests that came by another way stand there, each of a usual second."""
        worker = a_worker()
        worker.release(booked(worker, 0.0, 1.0), 0.0)
        worker.told(3.0, 0.0)

        assert 3.0 == booked(worker, 0.0).wait_s

    def test_who_finds_an_engine_full_waits_for_answers_to_end(self) -> None:
        """Two run, and one more is sent to see whether there is room. Whoever follows waits for answers of 100 tokens
        to end, 21 ms a token beside two: for one of the three, then for two.
        """
        worker = a_worker()
        fill(worker)
        waits_s = [booked(worker, 20.0, 0.0).wait_s for _ in range(3)]

        assert pytest.approx([0.0, 0.7, 1.4]) == waits_s

    def test_as_long_as_no_engine_was_full_nobody_waits_for_answers(self) -> None:
        """A hundred of them generate."""
        worker = a_worker()
        for _ in range(100):
            worker.first_byte(booked(worker, 0.0, 0.0), 0.0)

        assert 0.0 == booked(worker, 0.0).wait_s


def fill(worker: Worker) -> None:
    """Two generate, the second of which came ten seconds late, when another had ended: two are all that run."""
    for _ in range(2):
        worker.first_byte(booked(worker, 0.0, 0.1), 0.1)
    late = booked(worker, 0.2, 0.1)
    worker.release(next(iter(worker._decoding)), 10.0)
    worker.first_byte(late, 10.0)


class TestGap:
    def stream(self, worker: Worker, gap_s: float, tokens: int = 101) -> None:
        booking = booked(worker, 0.0)
        worker.first_byte(booking, 1.0)
        ends_at = 1.0 + gap_s * (tokens - 1)
        worker.release(booking, ends_at)
        worker.learn(booking, ends_at, uncached_tokens=1.0, completion_tokens=tokens)

    def test_it_is_learnt_from_streams(self) -> None:
        """And unknown before."""
        worker = a_worker()
        assert worker.usual_gap_s is None
        self.stream(worker, 0.04)

        assert pytest.approx(0.04) == worker.usual_gap_s

    def test_a_worker_that_has_shown_none_has_that_of_its_fleet(self) -> None:
        """Until it shows its own."""
        rates = Rates(prefill_tokens_per_s=1000.0)
        one, other = (Worker(worker, 0.0, breaker=Breaker(), rates=rates) for worker in (A, B))
        self.stream(one, 0.04)
        assert pytest.approx(0.04) == other.usual_gap_s
        self.stream(other, 0.01)

        assert pytest.approx([0.04, 0.01]) == [one.usual_gap_s, other.usual_gap_s]


class TestElsewhere:
    """What another gateway has sent to the same worker."""

    def test_it_is_load_as_any_other(self) -> None:
        """Pending, then generating, then gone."""
        worker = a_worker()
        other = sent_elsewhere(worker, 0.0, 2.0)

        assert (2.0, 1, 0) == counts(worker, 0.0)

        worker.first_byte_elsewhere(other, 1.0)
        worker.first_byte_elsewhere(other, 1.1)

        assert (0.0, 0, 1) == counts(worker, 1.0)

        worker.release(other, 3.0)

        assert (0.0, 0, 0) == counts(worker, 3.0)

    def test_its_prefill_ends_by_time_where_nobody_sees_it(self) -> None:
        """Of an answer that does not stream, as of our own."""
        worker = a_worker()
        sent_elsewhere(worker, 0.0, 2.0, streams=False)

        assert (0.0, 0, 1) == counts(worker, 2.5)

    def test_the_breaker_learns_nothing_of_it(self) -> None:
        """A worker on trial gets one request of our own, whatever others send."""
        worker = a_worker()
        for _ in range(5):
            worker.breaker.failed(0.0, sent_at=0.0)
        at = 60.0
        sent_elsewhere(worker, at)

        assert worker.breaker.allows(at)

        booked(worker, at)

        assert not worker.breaker.allows(at)

    def test_how_many_the_engine_runs_is_not_learnt_from_it(self) -> None:
        """A first byte that is heard of late says nothing of the engine's queue."""
        worker = a_worker()
        own, other = booked(worker, 0.0, 0.1), sent_elsewhere(worker, 0.0, 0.1)
        worker.first_byte_elsewhere(other, 60.0)

        assert math.inf == worker.room(0.0, 0.05, 60.0) or worker.room(9.0, 0.05, 60.0) == 0.0

        worker.first_byte(own, 120.0)

        assert 2.0 == worker.room(0.0, 0.05, 120.0) + worker.in_flight - 1.0

    def test_our_own_prefill_is_not_measured_by_it(self) -> None:
        """It waited for the other one: 2 s of 3 were that one's. In one step both share the time by their work."""
        worker = a_worker()
        other, own = sent_elsewhere(worker, 0.0, 2.0), booked(worker, 0.0, 1.0)
        worker.first_byte_elsewhere(other, 2.0)
        worker.first_byte(own, 3.0)

        assert 1.0 == own.service_s

        worker = a_worker()
        other, own = sent_elsewhere(worker, 0.0, 2.0), booked(worker, 0.0, 1.0)
        worker.first_byte_elsewhere(other, 3.0)
        worker.first_byte(own, 3.001)

        assert own.service_s == pytest.approx(1.0, abs=0.01)

    def test_it_is_none_of_our_losses(self) -> None:
        """Whoever made it is gone: its load goes with it, and there is nobody here to tell."""
        worker = a_worker()
        own = booked(worker, 0.0)
        sent_elsewhere(worker, 0.0)

        assert [own] == worker.expire(10.0, 20.0)
        assert (0.0, 0, 0) == counts(worker, 20.0)

    def test_a_first_byte_says_whether_it_was_awaited(self) -> None:
        """Once."""
        worker = a_worker()
        own = booked(worker, 0.0)

        assert [True, False] == [worker.first_byte(own, 1.0), worker.first_byte(own, 1.0)]


def sent_elsewhere(worker: Worker, at: float, work_s: float = 1.0, *, streams: bool = True) -> Booking:
    booking = Booking(worker.id, a_request(streams=streams), 0, 1.0, work_s, at, is_elsewhere=True)
    worker.book_elsewhere(booking, at)
    return booking
