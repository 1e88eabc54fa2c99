import string
from collections import Counter

import pytest

from cache_index import WorkerId
from cache_index.event import Tier
from routing.booking import Booking, Ending, Outcome
from routing.fleet import Fleet
from routing.loads import Loads
from routing.request import BATCH, NORMAL
from routing.strategies.prefix_aware import PrefixAware
from tests.routing.confirmed_examples import MODEL, an_exact_request, exact_prefix, reporting_fleet, stored
from tests.routing.examples import (
    ABORTED,
    ANSWERED,
    FAILED,
    REFUSED,
    A,
    B,
    C,
    a_fleet,
    a_request,
    an_index,
    book,
    dispatch,
    prompt,
    rates_of,
    seeded,
)
from tests.routing.fleet_examples import hits, teach, unkept, worker_of


class TestBooking:
    def test_it_counts_as_load_from_its_moment(self) -> None:
        """A hundred tokens at 1,000 a second, and 10 ms."""
        fleet = a_fleet(A, B)
        book(fleet, a_request(prompt_tokens=100.0), 0.0, A)
        a, b = fleet.candidates(a_request(), 0.0)

        assert (0.11, 1) == (round(a.load.backlog_s, 9), a.load.in_flight)
        assert (0.0, 0) == (b.load.backlog_s, b.load.in_flight)

    def test_its_work_is_that_of_the_usual_hit(self) -> None:
        """One hit of four was missing, which makes hits worth three quarters; most prompts are cached nevertheless."""
        fleet = a_fleet(A)
        accuracy = worker_of(fleet, A).hit_accuracy.predicted
        for reported in (0.0, 2000.0, 2000.0, 2000.0) * 3:
            accuracy.learn(predicted=2000.0, reported=reported)
        (usual,) = fleet.candidates(a_request(prompt_tokens=2000.0), 0.0)
        usual = usual.changed(plain_tokens=1600.0, hit_tokens=1200.0)
        booking = fleet.bookings.book(a_request(prompt_tokens=2000.0), usual, 0.0)
        assert booking is not None
        for reported in (0.0, 0.0, 2000.0) * 9:
            accuracy.learn(predicted=2000.0, reported=reported)
        unusual = fleet.bookings.book(a_request(prompt_tokens=2000.0), usual, 0.0)
        assert unusual is not None

        assert (0.41, 800.0) == (round(booking.work_s, 9), booking.uncached_tokens)
        assert (0.81, 800.0) == (round(unusual.work_s, 9), unusual.uncached_tokens)

    def test_a_worker_that_left_since_it_was_ranked_cannot_be_booked(self) -> None:
        """Nothing is recorded of it."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        (a, _) = fleet.candidates(a_request("abc"), 0.0)
        fleet.set_workers([B], 1.0)

        assert fleet.bookings.book(a_request("abc"), a, 2.0) is None
        assert 0 == index.held(A)

    def test_the_first_byte_of_a_stream_ends_its_prefill(self) -> None:
        """From then on it generates."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request(prompt_tokens=100.0), 0.0)
        fleet.bookings.first_byte(booking, 0.5)
        load = worker_of(fleet, A).load(0.5)

        assert (0, 1) == (load.pending, load.decodes)
        assert 0.5 == booking.service_s

    def test_the_first_byte_of_another_answer_says_nothing_of_its_prefill(self) -> None:
        """It comes when all is generated."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request(prompt_tokens=100.0, streams=False), 0.0)
        fleet.bookings.first_byte(booking, 0.1)

        assert booking.service_s is None
        assert 1 == worker_of(fleet, A).load(0.1).pending

    def test_lost_bookings_expire(self) -> None:
        """After 600 seconds they are held for lost and answered, once."""
        fleet = a_fleet(A, B)
        lost = [book(fleet, a_request(), 0.0, worker) for worker in (A, B)]
        kept = book(fleet, a_request(), 1.0, A)

        assert [] == fleet.tick(600.0)
        assert lost == fleet.tick(600.01)
        assert [] == fleet.tick(600.01)
        assert [1, 0] == [worker.in_flight for worker in fleet]
        assert [kept] == fleet.tick(700.0)


class TestOutcomes:
    @pytest.mark.parametrize("outcome", [REFUSED, FAILED, ABORTED])
    def test_a_request_that_ends_before_its_first_byte_leaves_nothing(self, outcome: Outcome) -> None:
        """The blocks that it would have added are taken back; those that it hit stay."""
        fleet = a_fleet(A)
        fleet.bookings.release(book(fleet, a_request("ab"), 0.0), ANSWERED, 1.0)
        fleet.bookings.release(book(fleet, a_request("abcde"), 2.0), outcome, 2.0)

        assert {A: 2} == hits(fleet, "abcde")

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED, ABORTED])
    def test_a_request_that_ends_after_its_first_byte_leaves_its_prompt(self, outcome: Outcome) -> None:
        """The prefill was over."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, outcome, 2.0)

        assert {A: 3} == hits(fleet, "abc")

    def test_an_answer_makes_its_prompt_the_last_used(self) -> None:
        """An engine frees the blocks when a request ends: the prompt booked later and answered earlier goes first."""
        fleet = a_fleet(A)
        fleet.set_capacity(A, blocks=4, block_size=16)
        first = book(fleet, a_request("ab"), 0.0)
        second = book(fleet, a_request("xy"), 0.0)
        for booking in (second, first):
            fleet.bookings.first_byte(booking, 1.0)
            fleet.bookings.release(booking, ANSWERED, 2.0)
        book(fleet, a_request("pq"), 3.0)

        assert {A: 2} == hits(fleet, "ab")
        assert {} == hits(fleet, "xy")

    def test_the_answer_takes_room_in_the_cache(self) -> None:
        """Forty tokens of four bytes fill two blocks of 64."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.bookings.release(book(fleet, a_request("abc"), 0.0), Outcome(Ending.ANSWERED, completion_tokens=40), 1.0)

        assert 5 == index.held(A)

    def test_the_length_of_answers_is_learned(self) -> None:
        """One of 56 tokens takes the mean of 256 down by a twentieth of the difference."""
        fleet = a_fleet(A)
        fleet.bookings.release(book(fleet, a_request(), 0.0), Outcome(Ending.ANSWERED, completion_tokens=56), 1.0)

        assert pytest.approx(246.0) == fleet.output_length.expected(None)

    @pytest.mark.parametrize(("priority", "learns"), [(NORMAL, True), (BATCH, False)])
    def test_lines_of_batches_teach_nothing_about_sessions(self, priority: int, *, learns: bool) -> None:
        """Nothing continues their prompts, so what they add to a cache does not grow."""
        fleet = a_fleet(A)
        session = a_request("abc", session="x")
        for _ in range(2):
            fleet.sessions.begins(session)
            fleet.sessions.sent(session, A, 90.0)
        usual = fleet.sessions.newcomer(0).displaced_tokens(A, 10_000.0)
        booking = book(fleet, a_request("a" * 100).changed(priority=priority), 0.0)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, completion_tokens=9_000), 1.0)

        assert usual > 0.0
        assert learns == (fleet.sessions.newcomer(0).displaced_tokens(A, 10_000.0) > usual)

    def test_the_token_ratio_is_learned(self) -> None:
        """64,000 bytes were 32,000 tokens: hits are worth nearly twice as many tokens as four bytes each would make."""
        fleet = a_fleet(A)
        fleet.bookings.release(
            book(fleet, a_request("a" * 1000), 0.0), Outcome(Ending.ANSWERED, prompt_tokens=32_000), 1.0
        )
        (candidate,) = fleet.candidates(a_request("aaa").changed(prompt_tokens=100.0), 2.0)

        assert pytest.approx(2.04, abs=0.01) == fleet.bytes_per_token.ratio
        assert pytest.approx(3 * 31.3, abs=0.5) == candidate.hit_tokens

    def test_no_more_is_predicted_than_there_is_of_the_prompt(self) -> None:
        """The tokens in a block of text are an estimate; those of the prompt may be known."""
        fleet = a_fleet(A)
        fleet.bookings.release(book(fleet, a_request("abc"), 0.0), ANSWERED, 1.0)
        (candidate,) = fleet.candidates(a_request("abc").changed(prompt_tokens=5.0), 2.0)

        assert (3, 5.0) == (candidate.hit_blocks, candidate.hit_tokens)

    def test_a_cache_that_was_cleared_is_found_out_by_two_prompts(self) -> None:
        """One that is gone may have been evicted: nothing is scaled down for it. With the next, all is gone."""
        fleet = a_fleet(A)

        def asked(letters: str, cached: int) -> None:
            request = a_request(letters).changed(prompt_tokens=5000.0)
            fleet.bookings.release(book(fleet, request, 0.0), Outcome(Ending.ANSWERED, 5000, cached), 1.0)

        asked("abc", 0)
        asked("xyz", 0)
        assert {A: 3} == hits(fleet, "abc")
        asked("abc", 0)
        assert ({A: 3}, {A: 3}, 1.0) == (
            hits(fleet, "abc"),
            hits(fleet, "xyz"),
            worker_of(fleet, A).hit_accuracy.predicted.correction,
        )
        asked("xyz", 0)
        assert ({}, {A: 3}, 1.0) == (
            hits(fleet, "abc"),
            hits(fleet, "xyz"),
            worker_of(fleet, A).hit_accuracy.predicted.correction,
        )

    @pytest.mark.parametrize(
        ("cached_tokens", "service_s"), [(None, 1.01), (900, 0.11), (999, 0.011), (1000, 0.011), (5000, 0.011)]
    )
    def test_rates_are_learned_from_what_the_engine_computed(self, cached_tokens: int | None, service_s: float) -> None:
        """A prefill as long as the engine's own uncached count predicts leaves the rate alone; it is at least one."""
        fleet = a_fleet(A)
        before = worker_of(fleet, A).load(0.0)
        booking = book(fleet, a_request(prompt_tokens=1000.0), 0.0)
        fleet.bookings.first_byte(booking, service_s)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1000, cached_tokens), 9.0)
        after = worker_of(fleet, A).load(9.0)

        assert pytest.approx(before.prefill_overhead_s) == after.prefill_overhead_s
        assert pytest.approx(before.prefill_s_per_token) == after.prefill_s_per_token

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED, ABORTED])
    def test_a_prompt_that_leaves_nothing_in_the_cache_is_not_recorded(self, outcome: Outcome) -> None:
        """The index is unchanged at its booking and at its end. It is load all the same."""
        fleet = a_fleet(A)
        booking = book(fleet, unkept("abc"), 0.0)

        assert ({}, 1) == (hits(fleet, "abc"), worker_of(fleet, A).in_flight)

        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, outcome, 2.0)

        assert ({}, 0) == (hits(fleet, "abc"), worker_of(fleet, A).in_flight)

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED, ABORTED])
    def test_it_leaves_alone_what_others_left_there(self, outcome: Outcome) -> None:
        """The same text as the prompt of a completion is still held."""
        fleet = a_fleet(A)
        fleet.bookings.release(book(fleet, a_request("abc"), 0.0), ANSWERED, 1.0)
        fleet.bookings.release(book(fleet, unkept("abcd"), 2.0), outcome, 3.0)

        assert {A: 3} == hits(fleet, "abcd")

    def test_it_teaches_no_token_ratio(self) -> None:
        """If a request continues a response, the tokens are those of the whole conversation."""
        fleet = a_fleet(A)
        fleet.bookings.release(book(fleet, unkept("abc"), 0.0), Outcome(Ending.ANSWERED, 32_000), 1.0)

        assert 4.0 == fleet.bytes_per_token.ratio

    def test_it_teaches_no_rates_where_no_one_knows_what_was_computed(self) -> None:
        """Thirty seconds for a few words of audio, or of a long conversation, say nothing of a token."""
        fleet = a_fleet(A)
        before = worker_of(fleet, A).load(0.0)
        booking = book(fleet, unkept(""), 0.0)
        fleet.bookings.first_byte(booking, 30.0)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1000, None, 50), 60.0)

        assert rates_of(before) == rates_of(worker_of(fleet, A).load(60.0))

    def test_it_teaches_rates_where_the_engine_says_what_it_computed(self) -> None:
        """A hundred tokens in a second are a tenth of what was believed."""
        fleet = a_fleet(A)
        booking = book(fleet, unkept(""), 0.0)
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1000, 900), 9.0)

        assert worker_of(fleet, A).speed.prefill_tokens_per_s < 800.0

    @pytest.mark.parametrize("outcome", [REFUSED, FAILED, ABORTED])
    def test_only_answers_teach(self, outcome: Outcome) -> None:
        """The times and counts of others say little."""
        fleet = a_fleet(A)
        before = worker_of(fleet, A).load(0.0)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.bookings.first_byte(booking, 30.0)
        fleet.bookings.release(booking, Outcome(outcome.ending, 10, 0, 5000), 60.0)

        assert rates_of(before) == rates_of(worker_of(fleet, A).load(60.0))
        assert 4.0 == fleet.bytes_per_token.ratio
        assert 256.0 == fleet.output_length.expected(None)


class TestSharedRates:
    def test_what_one_worker_teaches_is_believed_of_all(self) -> None:
        """Documents asked for one after the other spread over an idle fleet, though few workers have been measured."""
        fleet = a_fleet(A, B, C)
        strategy = PrefixAware(seeded())
        used: Counter[WorkerId] = Counter()
        for i, letter in enumerate(string.ascii_letters):
            now = 10.0 * i
            booking = dispatch(fleet, strategy, a_request(letter * 60), now)
            fleet.bookings.first_byte(booking, now + 0.01 + booking.uncached_tokens / 10_000)
            fleet.bookings.release(booking, ANSWERED, now + 1.0)
            used[booking.worker] += 1

        assert all(used[worker] >= 10 for worker in (A, B, C))

    def test_a_restarted_engine_is_warmed_up_again(self) -> None:
        """A fresh process is as cold as a new worker."""
        fleet = a_fleet(A)
        for i in range(40):
            fleet.bookings.release(book(fleet, a_request("a"), float(i)), ANSWERED, float(i))
        fleet.engine_restarted(A)
        for _ in range(4):
            book(fleet, a_request("a"), 50.0)

        assert [False] == [candidate.admits for candidate in fleet.candidates(a_request("a"), 50.0)]

    def test_a_hanging_worker_is_not_believed_to_have_computed_what_it_was_sent(self) -> None:
        """An answer that does not stream failed: that its prefill should have been over by then proves nothing."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request("abc", streams=False), 0.0)
        fleet.candidates(a_request("abc"), 100.0)
        fleet.bookings.release(booking, FAILED, 100.0)

        assert {} == hits(fleet, "abc")


def test_a_worker_that_went_down_is_not_booked_any_more() -> None:
    """It was ranked before; failover passes it over instead of waiting for it."""
    fleet = a_fleet(A)
    (candidate,) = fleet.candidates(a_request("a"), 0.0)
    fleet.set_up(A, up=False)

    assert fleet.bookings.book(a_request("a"), candidate, 0.0) is None


class TestPredictedFirstByte:
    def test_no_one_is_cut_by_what_was_never_measured(self) -> None:
        """The settings say how fast workers are; they may be wrong."""
        fleet = a_fleet(A)

        assert fleet.bookings.first_byte_in_s(book(fleet, a_request("x" * 100), 0.0), 0.0) is None

    def test_it_is_the_backlog_and_the_prompt(self) -> None:
        """The prediction at the time of booking, less the time since."""
        fleet = a_fleet(A)
        teach(fleet)
        one, two = (book(fleet, a_request(letter * 100), 20.0) for letter in "yz")

        assert pytest.approx(one.work_s) == fleet.bookings.first_byte_in_s(one, 20.0)
        assert pytest.approx(one.work_s + two.work_s) == fleet.bookings.first_byte_in_s(two, 20.0)
        assert pytest.approx(one.work_s + two.work_s - 0.5) == fleet.bookings.first_byte_in_s(two, 20.5)
        assert 0.0 == fleet.bookings.first_byte_in_s(two, 99.0)

    def test_of_other_answers_the_first_byte_is_the_last(self) -> None:
        """There is no prediction of its first byte."""
        fleet = a_fleet(A)
        teach(fleet)

        assert fleet.bookings.first_byte_in_s(book(fleet, a_request("y", streams=False), 20.0), 20.0) is None

    def test_gaps_are_known_of_workers_that_are_there(self) -> None:
        """40 ms a token, as it was measured on one of them."""
        fleet = a_fleet(A, B)
        assert fleet.usual_gap_s(A) is None
        booking = book(fleet, a_request("x" * 10), 0.0, A)
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 160, 0, 101), 5.0)

        assert [0.04, 0.04, None] == [fleet.usual_gap_s(worker) for worker in (A, B, C)]


class Reports:
    """A `BookingObserver` that keeps what it is notified of."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Booking]] = []

    def booked(self, booking: Booking) -> None:
        self.said.append(("booked", booking))

    def first_byte(self, booking: Booking) -> None:
        self.said.append(("first byte", booking))

    def released(self, booking: Booking, outcome: Outcome) -> None:
        self.said.append((outcome.ending.value, booking))


def observed(*workers: WorkerId, lease_s: float = 600.0) -> tuple[Fleet, Reports]:
    reported = Reports()
    fleet = Fleet(an_index(), block_bytes=64, prefill_tokens_per_s=1000.0, lease_s=lease_s, observer=reported)
    fleet.set_workers(workers, 0.0)
    return fleet, reported


def elsewhere(
    fleet: Fleet, letters: str = "", *, worker: WorkerId = A, now: float = 0.0, exact: str = "", streams: bool = True
) -> Booking:
    booking = fleet.bookings.book_elsewhere(
        worker,
        prompt(letters),
        (exact_prefix(exact),) if exact else (),
        uncached_tokens=16.0 * len(letters),
        output_tokens=100.0,
        streams=streams,
        now=now,
    )
    assert booking is not None
    return booking


class TestObserver:
    def test_it_is_notified_of_each_booking_from_beginning_to_end(self) -> None:
        """The first byte is reported once."""
        fleet, reported = observed(A)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, ANSWERED, 2.0)

        assert [("booked", booking), ("first byte", booking), ("answered", booking)] == reported.said

    def test_it_is_notified_of_the_outcome_of_a_prefill(self) -> None:
        """The prefill of an answer that does not stream is over by then."""
        fleet, reported = observed(A)
        booking = book(fleet, a_request("abc", streams=False), 0.0)
        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, ABORTED, 2.0)

        assert ["booked", "aborted"] == [word for word, _ in reported.said]
        assert booking.first_byte_at is not None

    def test_it_is_notified_of_the_end_on_a_worker_that_has_left(self) -> None:
        """Others may still have the worker."""
        fleet, reported = observed(A, B)
        booking = book(fleet, a_request("abc"), 0.0, A)
        fleet.set_workers([B], 1.0)
        fleet.bookings.release(booking, ANSWERED, 2.0)

        assert ["booked", "answered"] == [word for word, _ in reported.said]

    def test_it_is_notified_of_lost_bookings(self) -> None:
        """Its lease is over."""
        fleet, reported = observed(A, lease_s=10.0)
        booking = book(fleet, a_request("abc"), 0.0)
        elsewhere(fleet)

        assert [booking] == fleet.tick(20.0)
        assert ["booked", "aborted"] == [word for word, _ in reported.said]

    def test_it_is_not_notified_of_foreign_bookings(self) -> None:
        """They would hear of themselves, for ever."""
        fleet, reported = observed(A)
        booking = elsewhere(fleet, "abc")
        fleet.bookings.first_byte_elsewhere(booking, 1.0)
        fleet.bookings.release_elsewhere(booking, keep=True, now=2.0)

        assert [] == reported.said


class TestElsewhere:
    """Bookings of other gateways on the same workers."""

    def test_its_blocks_count_as_present_from_the_booking_on(self) -> None:
        """They stay if its prompt was computed."""
        fleet = a_fleet(A, B)
        booking = elsewhere(fleet, "abc")

        assert {A: 3} == hits(fleet, "abcd")
        assert 1 == worker_of(fleet, A).in_flight

        fleet.bookings.first_byte_elsewhere(booking, 1.0)
        fleet.bookings.release_elsewhere(booking, keep=True, now=2.0)

        assert {A: 3} == hits(fleet, "abcd")
        assert 0 == worker_of(fleet, A).in_flight

    def test_what_was_not_computed_is_taken_back(self) -> None:
        """Blocks that the worker held before stay."""
        fleet = a_fleet(A)
        fleet.bookings.release(book(fleet, a_request("ab"), 0.0), ANSWERED, 1.0)
        fleet.bookings.release_elsewhere(elsewhere(fleet, "abcd", now=1.0), keep=False, now=2.0)

        assert {A: 2} == hits(fleet, "abcd")

    def test_an_answer_takes_room_there_too(self) -> None:
        """100 tokens at 4 bytes are 6 blocks of 64 bytes; a prompt that is not cached leaves none."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.bookings.release_elsewhere(elsewhere(fleet, "abc"), keep=True, completion_tokens=100, now=1.0)

        assert 3 + 6 == index.held(A)

        fleet.bookings.release_elsewhere(elsewhere(fleet), keep=True, completion_tokens=100, now=1.0)

        assert 3 + 6 == index.held(A)

    def test_nothing_is_learned_from_it(self) -> None:
        """Rates, warm-up, breaker and lengths of answers are as before."""
        fleet = a_fleet(A)
        before = rates_of(worker_of(fleet, A).load(0.0))
        for _ in range(20):
            booking = elsewhere(fleet, "abc")
            fleet.bookings.first_byte_elsewhere(booking, 50.0)
            fleet.bookings.release_elsewhere(booking, keep=True, completion_tokens=9, now=60.0)

        assert before == rates_of(worker_of(fleet, A).load(60.0))
        assert not fleet.has_learned
        assert a_fleet(A).output_length.expected(None) == fleet.output_length.expected(None)

    def test_a_worker_that_is_not_there_has_none(self) -> None:
        """The other gateway may know one more."""
        fleet = a_fleet(A)

        assert (
            fleet.bookings.book_elsewhere(
                B, prompt("a"), (), uncached_tokens=1.0, output_tokens=1.0, streams=True, now=0.0
            )
            is None
        )

    def test_a_worker_that_is_down_here_has_load_all_the_same(self) -> None:
        """The other gateway sees it up, and the load is there when it is up here as well."""
        fleet = a_fleet(A)
        fleet.set_up(A, up=False)
        elsewhere(fleet)

        assert 1 == worker_of(fleet, A).in_flight

    def test_a_worker_that_left_forgets_it(self) -> None:
        """Its first byte and its end have no effect, even if the worker has come back."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        one, other = elsewhere(fleet, "abc"), elsewhere(fleet, "abc")
        fleet.set_workers([B], 1.0)
        fleet.bookings.release_elsewhere(one, keep=True, now=2.0)
        fleet.set_workers([A, B], 3.0)
        fleet.bookings.first_byte_elsewhere(other, 4.0)
        fleet.bookings.release_elsewhere(other, keep=True, now=4.0)

        assert (0, 0) == (index.held(A), worker_of(fleet, A).in_flight)

    def test_its_exact_prompt_is_predicted_until_the_engine_reports(self) -> None:
        """The prediction ends if the request failed."""
        fleet, confirmed = reporting_fleet(A, B)
        confirmed.apply(A, stored("z"), model=MODEL)
        request = an_exact_request("abc")
        booking = elsewhere(fleet, "abc", exact="abc")

        assert [3, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 1.0)]

        fleet.bookings.first_byte_elsewhere(booking, 4.0)

        assert [3, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 8.0)]

        fleet.bookings.release_elsewhere(booking, keep=True, now=8.5)

        assert [0, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 20.0)]

        fleet.bookings.release_elsewhere(elsewhere(fleet, "abc", exact="abc", now=20.0), keep=False, now=20.0)

        assert [0, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 20.0)]

    def test_under_another_key_nothing_is_known_of_prompts(self) -> None:
        """The room of workers is as before."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        fleet.set_capacity(A, blocks=2, block_size=16)
        book(fleet, a_request("abc"), 0.0, B)
        fleet.caches.clear_all()
        book(fleet, a_request("abc"), 0.0, A)

        assert (2, 0) == (index.held(A), index.held(B))
        assert 1 == worker_of(fleet, B).in_flight


class TestLoads:
    @pytest.mark.parametrize(("cached_tokens", "is_faster"), [(112, True), (48, False), (None, True)])
    def test_a_load_is_learned_if_the_hit_was_the_predicted_one(
        self, cached_tokens: int | None, is_faster: bool
    ) -> None:
        """Seven blocks from host memory take 1 ms in all, a thirtieth of what was believed. If the engine reports
        another hit, it is unknown how much was loaded.
        """
        fleet, confirmed = reporting_fleet(A)
        confirmed.apply(A, stored("abcdefg", Tier.CPU), model=MODEL)
        request = an_exact_request("abcdefg")
        (before,) = fleet.candidates(request, 0.0)
        for number in range(20):
            booking = book(fleet, request, 10.0 * number, A)
            fleet.bookings.first_byte(booking, 10.0 * number + 0.012)
            outcome = Outcome(Ending.ANSWERED, 113, cached_tokens, 1)
            fleet.bookings.release(booking, outcome, 10.0 * number + 0.012)
        (after,) = fleet.candidates(request, 300.0)

        assert Loads(cpu=112.0) == before.loads == after.loads
        assert (after.load_s < before.load_s) is is_faster
