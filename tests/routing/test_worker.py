import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.booking import Booking
from routing.request import BATCH
from routing.worker import Worker, usual_busy_share
from tests.routing.examples import a_request
from tests.routing.worker_examples import a_worker, booked, counts, fill


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
        """Half of a second is done of two."""
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
        """When no one waits it is exactly zero, and the next request finds nothing before its own work."""
        worker = a_worker()
        for booking in [booked(worker, 0.0, 0.1 * i) for i in range(1000)]:
            worker.first_byte(booking, 1.0)

        assert 0.0 == worker.load(1.0).backlog_s

        booked(worker, 2.0, 1.0)

        assert 1.0 == worker.load(2.0).backlog_s

    def test_rounding_errors_do_not_make_it_negative(self) -> None:
        """The sum 0.4 + 0.1 - 0.4 is less than 0.1 in floats."""
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
        """This holds for waiting and for generating requests."""
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
        """Their first token cannot be seen."""
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
        """The first second belonged to the answer in front, though no one read the load in between."""
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

    def test_a_release_behind_them_does_not_begin_their_turn_again(self) -> None:
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
    def test_an_empty_queue_ends_prefills_that_no_one_saw_end(self) -> None:
        """At most one of three answers that do not stream is still being computed; two wait for their last token."""
        worker = a_worker()
        for _ in range(3):
            booked(worker, 0.0, 10.0, streams=False)
        worker.engine_queue_reported(0.0, 1.0)

        assert (10.0, 1, 2) == counts(worker, 1.0)

    def test_what_is_in_the_queue_has_not_begun(self) -> None:
        """Two wait, one is being computed: nothing is over."""
        worker = a_worker()
        for _ in range(3):
            booked(worker, 0.0, 10.0, streams=False)
        worker.engine_queue_reported(2.0, 1.0)

        assert (29.0, 3, 0) == counts(worker, 1.0)

    def test_a_report_does_not_cover_later_requests(self) -> None:
        """Two were sent within the last second."""
        worker = a_worker()
        for at in (0.0, 2.5, 2.5):
            booked(worker, at, 10.0, streams=False)
        worker.engine_queue_reported(0.0, 3.0)

        assert (27.0, 3, 0) == counts(worker, 3.0)

    def test_a_stream_shows_its_first_byte_itself(self) -> None:
        """It may be on its way; what stands behind it is not reported before."""
        worker = a_worker()
        booked(worker, 0.0, 10.0, streams=False)
        booked(worker, 0.0, 10.0)
        booked(worker, 0.0, 10.0, streams=False)
        booked(worker, 0.0, 10.0, streams=False)
        worker.engine_queue_reported(0.0, 1.0)

        assert (30.0, 3, 1) == counts(worker, 1.0)

    def test_a_queue_longer_than_known_is_backlog(self) -> None:
        """Four more than the one sent here wait, of the usual work; time takes from both."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)
        worker.engine_queue_reported(5.0, 0.0)

        assert (10.0, 1, 0) == counts(worker, 0.0)
        assert (9.0, 1, 0) == counts(worker, 0.5)

    def test_usual_is_what_was_booked_of_late(self) -> None:
        """One tenth of the latest, nine of what was usual before: 1.9 s."""
        worker = a_worker()
        for work_s in (2.0, 1.0):
            worker.release(booked(worker, 0.0, work_s), 0.0)
        worker.engine_queue_reported(1.0, 0.0)

        assert (1.9, 0, 0) == counts(worker, 0.0)

    def test_what_is_unseen_is_worked_off(self) -> None:
        """Nothing of it is left after its time, or when the engine reports an empty queue."""
        worker = a_worker()
        worker.release(booked(worker, 0.0, 2.0), 0.0)
        worker.engine_queue_reported(5.0, 0.0)

        assert [10.0, 4.0, 0.0] == [counts(worker, at)[0] for at in (0.0, 6.0, 20.0)]
        assert 7.0 == worker.backlog_falls_to(3.0, 0.0)
        assert 9.0 == worker.backlog_falls_to(3.0, 9.0)

        worker.engine_queue_reported(0.0, 0.5)

        assert (0.0, 0, 0) == counts(worker, 0.5)

    def test_a_prefill_taken_as_over_too_early_counts_again(self) -> None:
        """The prediction said a second for each of two, but both are still in the queue."""
        worker = a_worker()
        for _ in range(2):
            booked(worker, 0.0, 1.0, streams=False)

        assert (0.0, 0, 2) == counts(worker, 2.0)

        worker.engine_queue_reported(2.0, 2.0)

        assert (2.0, 0, 2) == counts(worker, 2.0)


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

    def test_workers_as_fast_as_their_fleet_have_the_mean_of_these_workers(self) -> None:
        """One is always busy and one never, and the third is twice as slow."""
        busy, idle, slow = a_worker(), a_worker(), a_worker()
        slow.speed.pace.factor = 2.0
        booked(busy, 0.0, 1000.0)
        booked(slow, 0.0, 1000.0)
        usual = usual_busy_share([busy, idle, slow], 500.0)

        assert pytest.approx(0.5, abs=0.01) == usual
        assert usual == busy.load(500.0, usual).busy_share == idle.load(500.0, usual).busy_share

    def test_a_worker_of_another_speed_has_its_own(self) -> None:
        """A fleet without a worker of usual speed has no mean."""
        slow = a_worker()
        slow.speed.pace.factor = 2.0
        booked(slow, 0.0, 1000.0)

        assert 0.0 == usual_busy_share([slow], 500.0)
        assert pytest.approx(1.0, abs=0.01) == slow.load(500.0, 0.25).busy_share

    def test_without_a_mean_it_is_the_own_one(self) -> None:
        worker = a_worker()
        booked(worker, 0.0, 1000.0)

        assert pytest.approx(1.0, abs=0.01) == worker.load(500.0).busy_share


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
        """Its caller was only slow."""
        worker = a_worker()
        booking = booked(worker, 0.0)
        worker.expire(1.0, 700.0)
        worker.first_byte(booking, 701.0)
        worker.release(booking, 702.0)

        assert (0.0, 0, 0) == counts(worker, 702.0)


@pytest.mark.parametrize(
    ("is_up", "is_asleep", "why"),
    [(True, False, None), (False, False, "down"), (True, True, "asleep"), (False, True, "down")],
)
def test_a_worker_is_ready_or_says_why_not(is_up: bool, is_asleep: bool, why: str | None) -> None:
    """It gives the one to fix first."""
    worker = a_worker()
    worker.is_up, worker.is_asleep = is_up, is_asleep

    assert (why, why is None) == (worker.why_not_ready, worker.is_ready)


class TestRoom:
    """Requests that its engine would begin at once, with at most 50 ms of backlog."""

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
        """Nothing is left to do according to the clock, but the engine must have a queue."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)

        assert (math.inf, 0.0) == (self.room(worker, 3.0), self.room(worker, 3.2))

    def test_what_was_late_shows_how_many_fit(self) -> None:
        """Two generate when it begins at last: with one more that waits there is no room, before one of them ends."""
        worker = a_worker()
        worker.first_byte(booked(worker, 0.0, 1.0), 1.0)
        second = booked(worker, 1.0, 1.0)
        worker.first_byte(second, 30.0)
        worker.release(second, 30.0)
        second = booked(worker, 30.0, 1.0)
        worker.first_byte(second, 60.0)
        assert 1.0 == self.room(worker, 60.0)
        booked(worker, 60.0, 0.01)
        assert 0.0 == self.room(worker, 60.01)
        worker.release(second, 60.02)

        assert 1.0 == self.room(worker, 60.02)

    def test_what_was_late_because_its_prompt_was_not_cached_shows_nothing(self) -> None:
        """Its answer shows that the engine computed 9,000 tokens instead of 100. Without such a report, two run."""
        rooms = []
        for uncached_tokens in (9000.0, 100.0):
            worker = a_worker()
            late = [booked(worker, at, 0.1, uncached=100.0) for at in (0.0, 0.0)]
            worker.first_byte(late[0], 9.0)
            worker.first_byte(late[1], 18.0)
            for booking in late:
                worker.learn(booking, 18.0, uncached_tokens=uncached_tokens, completion_tokens=None)
            rooms.append(self.room(worker, 18.0))

        assert [math.inf, 1.0] == rooms

    def test_what_came_by_another_way_takes_room(self) -> None:
        """The engine reports five requests in its queue, none of which is ours."""
        worker = a_worker()
        worker.first_byte(booked(worker, 0.0, 1.0), 1.0)
        worker.engine_queue_reported(5.0, 10.0)

        assert 0.0 == self.room(worker, 10.0)

    def test_the_backlog_of_prefills_that_no_one_sees_is_no_reason_alone(self) -> None:
        """Without reports there is room. With an empty queue there is room for eight at first, and for one more with
        each early answer.
        """
        worker = a_worker()
        bookings = [booked(worker, 0.0, 5.0, streams=False) for _ in range(3)]
        assert math.inf == self.room(worker, 0.0)
        worker.engine_queue_reported(0.0, 0.5)
        assert 5.0 == self.room(worker, 0.5)
        worker.release(bookings[0], 0.6)
        worker.learn(bookings[0], 0.6, uncached_tokens=1.0, completion_tokens=1)

        assert 7.0 == self.room(worker, 0.6)

    def test_an_engine_with_a_queue_of_them_has_none(self) -> None:
        """Thirty were thought to be computed long ago; ten of them wait."""
        worker = a_worker()
        for _ in range(30):
            booked(worker, 0.0, 0.1, streams=False)
        worker.engine_queue_reported(10.0, 9.0)

        assert 0.0 == self.room(worker, 60.0)


class TestLives:
    def test_each_life_has_a_number_of_its_own(self) -> None:
        """It begins without the failures of the one before."""
        worker = a_worker()
        for _ in range(5):
            worker.breaker.failed(0.0, sent_at=0.0)
        worker.begin_incarnation()

        assert (1, False) == (worker.incarnation, worker.breaker.is_open)

    def test_a_booking_knows_in_which_life_it_was_made(self) -> None:
        """A request that ends later may be no evidence about the present incarnation."""
        worker = a_worker()
        before = booked(worker, 0.0)
        worker.begin_incarnation()

        assert [0, 1] == [before.incarnation, booked(worker, 1.0).incarnation]


class TestNext:
    """Whether what is sent is what the engine computes next."""

    def test_a_worker_that_computes_one_prompt_takes_the_next(self) -> None:
        """An idle one does as well, but not one that has two."""
        worker = a_worker()
        assert worker.begins_next(0.0)
        booked(worker, 0.0)
        assert worker.begins_next(0.5)
        booked(worker, 0.5)

        assert not worker.begins_next(0.6)

    def test_an_engine_with_a_queue_does_not(self) -> None:
        """It reported one, or its prompt takes so long that it must stand in one."""
        reported, late = a_worker(), a_worker()
        booked(reported, 0.0)
        reported.engine_queue_reported(3.0, 0.0)
        booked(late, 0.0)

        assert not reported.begins_next(0.1)
        assert [True, False] == [late.begins_next(now) for now in (1.5, 1.6)]

    def test_an_engine_that_runs_as_many_as_it_can_does_not(self) -> None:
        """Two run, and a third shows whether there is room."""
        worker = a_worker()
        fill(worker)
        assert worker.begins_next(20.0)
        booked(worker, 20.0)

        assert not worker.begins_next(20.0)

    def test_a_prompt_that_no_one_sees_end_is_believed_to_end(self) -> None:
        """The lateness of answers that do not stream cannot be seen."""
        worker = a_worker()
        booked(worker, 0.0, streams=False)

        assert worker.begins_next(0.5)


class TestPredictedWait:
    def test_it_is_what_stands_before_a_booking(self) -> None:
        """Two seconds, of which half a second is done, and then its own."""
        worker = a_worker()
        booked(worker, 0.0, 2.0)

        assert [1.5, 2.5] == [booked(worker, 0.5, 1.0).wait_s, booked(worker, 0.5, 1.0).wait_s]

    def test_foreign_requests_in_a_reported_queue_count(self) -> None:
        """Three requests that came by another way stand there, each of a usual second."""
        worker = a_worker()
        worker.release(booked(worker, 0.0, 1.0), 0.0)
        worker.engine_queue_reported(3.0, 0.0)

        assert 3.0 == booked(worker, 0.0).wait_s

    def test_who_finds_an_engine_full_waits_for_answers_to_end(self) -> None:
        """Two run, and one more is sent to see whether there is room. Later requests wait for answers of 100 tokens to
        end, 21 ms a token beside two: for one of the three, then for two.
        """
        worker = a_worker()
        fill(worker)
        waits_s = [booked(worker, 20.0, 0.0).wait_s for _ in range(3)]

        assert pytest.approx([0.0, 0.7, 1.4]) == waits_s

    def test_as_long_as_no_engine_was_full_no_one_waits_for_answers(self) -> None:
        """A hundred of them generate."""
        worker = a_worker()
        for _ in range(100):
            worker.first_byte(booked(worker, 0.0, 0.0), 0.0)

        assert 0.0 == booked(worker, 0.0).wait_s


class TestElsewhere:
    """Bookings of another gateway on the same worker."""

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

    def test_its_prefill_ends_by_time_where_no_one_sees_it(self) -> None:
        """An answer that does not stream behaves as our own."""
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

    def test_how_many_the_engine_runs_is_not_learned_from_it(self) -> None:
        """A first byte that is heard of late says nothing of the engine's queue."""
        worker = a_worker()
        own, other = booked(worker, 0.0, 0.1), sent_elsewhere(worker, 0.0, 0.1)
        worker.first_byte_elsewhere(other, 60.0)

        assert math.inf == worker.room(0.0, 0.05, 60.0) or worker.room(9.0, 0.05, 60.0) == 0.0

        worker.first_byte(own, 120.0)
        worker.first_byte(booked(worker, 120.0, 0.1), 180.0)

        assert 3.0 == worker.room(0.0, 0.05, 180.0) + worker.in_flight - 1.0

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

    def test_an_expired_foreign_booking_is_not_lost_here(self) -> None:
        """Its gateway is gone: the load ends, and there is nothing to report here."""
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


class TestPrefillsThatYield:
    def test_they_delay_others_by_no_more_than_they_yield_in(self) -> None:
        """The prefill of 10 s has 0.05 s left at the end."""
        worker = a_worker()
        yielding(worker, 0.0, 10.0, yields_in_s=0.1)

        assert (0.1, 1, 0) == counts(worker, 0.0)
        assert (0.1, 1, 0) == counts(worker, 9.0)
        assert (0.05, 1, 0) == counts(worker, 9.95)
        assert (0.0, 0, 1) == counts(worker, 10.0)

    def test_work_behind_them_counts_as_usual(self) -> None:
        worker = a_worker()
        yielding(worker, 0.0, 10.0, yields_in_s=0.1)
        booked(worker, 1.0, 2.0)

        assert (2.1, 2, 0) == counts(worker, 1.0)

    def test_they_do_not_make_the_worker_busy(self) -> None:
        """Prefill has no higher price on a worker that computes only such prompts."""
        worker, other = a_worker(), a_worker()
        yielding(worker, 0.0, 10.0, yields_in_s=0.1)
        booked(other, 0.0, 10.0, streams=False)

        assert 0.0 == worker.busy_share(5.0) < other.busy_share(5.0)
        booked(worker, 5.0, 1.0)
        assert worker.busy_share(6.0) > 0.0

    def test_only_bookings_of_others_show_that_a_worker_is_asked(self) -> None:
        worker = a_worker()
        yielding(worker, 3.0, 10.0, yields_in_s=0.1)
        before = worker.asked_at
        booked(worker, 4.0)

        assert (-math.inf, 4.0) == (before, worker.asked_at)


def yielding(worker: Worker, at: float, work_s: float, *, yields_in_s: float) -> None:
    """Book a line of a batch that its sender can interrupt."""
    request = a_request(streams=False).changed(priority=BATCH, yields_in_s=yields_in_s)
    worker.book(Booking(worker.id, request, 0, 1.0, work_s, at), at)
