"""Besides literal facts, random sequences of events are compared with an oracle that only counts."""

import string
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache_index import WorkerId
from routing.booking import Booking, Ending, Outcome
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.prefix_aware import PrefixAware
from routing.worker import Worker
from tests.routing.confirmed_examples import MODEL, an_exact_request, exact_prefix, stored, told_fleet
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


def names(fleet: Fleet, now: float = 0.0) -> str:
    """The candidates for any request."""
    return "".join(candidate.worker for candidate in fleet.candidates(a_request(), now))


def worker_of(fleet: Fleet, worker_id: WorkerId) -> Worker:
    return next(worker for worker in fleet if worker.id == worker_id)


def hits(fleet: Fleet, letters: str) -> dict[WorkerId, int]:
    return {c.worker: c.hit_blocks for c in fleet.candidates(a_request(letters), 0.0) if c.hit_blocks}


def unkept(letters: str) -> Request:
    """A request whose prompt is not in the cache afterwards."""
    return a_request(letters).changed(writes_cache=False)


class TestWorkers:
    def test_all_workers_are_candidates(self) -> None:
        """They are up until somebody says otherwise."""
        assert "abc" == names(a_fleet(A, B, C))

    def test_a_fleet_may_be_empty(self) -> None:
        """Discovery has found nobody yet."""
        assert "" == names(a_fleet())

    def test_a_worker_is_found_by_its_name(self) -> None:
        """As long as it is there."""
        fleet = a_fleet(A, B)

        assert B == fleet.worker(B).id
        with pytest.raises(KeyError):
            fleet.worker(C)

    def test_the_whole_set_is_told_each_time(self) -> None:
        """a leaves, b stays with its load, c joins, and one told twice is one."""
        fleet = a_fleet(A, B)
        book(fleet, a_request("x"), 0.0, B)
        fleet.set_workers([B, C, B], 1.0)

        assert [(B, 1), (C, 0)] == [(worker.id, worker.in_flight) for worker in fleet]

    def test_what_is_generated_side_by_side_shares_the_time_of_a_token(self) -> None:
        """1 ms for a prompt token; alone, 20 ms for one that is generated, and beside 32 others about a thirtieth."""
        fleet = a_fleet(A, B)
        prefill_s, alone_s = fleet.token_times()
        for _ in range(33):
            book(fleet, a_request(), 0.0, on=A)
        _, shared_s = fleet.token_times()

        assert (0.001, 0.02) == pytest.approx((prefill_s, alone_s), rel=0.01)
        assert 0.036 / 33 == pytest.approx(shared_s, rel=0.01)

    def test_a_worker_that_left_is_forgotten(self) -> None:
        """If it comes back its cache is held for empty, its breaker closed, its load zero."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        book(fleet, a_request("abc"), 0.0, A)
        fail(fleet, A, times=5)
        fleet.set_workers([B], 1.0)

        assert 0 == index.held(A)

        fleet.set_workers([A, B], 2.0)

        assert {} == hits(fleet, "abc")
        assert 0 == worker_of(fleet, A).in_flight
        assert not worker_of(fleet, A).breaker.is_open

    @pytest.mark.parametrize("outcome", [ANSWERED, REFUSED, FAILED, ABORTED])
    def test_bookings_on_a_worker_that_left_can_still_be_released(self, outcome: Outcome) -> None:
        """Nothing comes of it: the worker stays forgotten."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        booking = book(fleet, a_request("abc"), 0.0, A)
        fleet.set_workers([B], 1.0)
        fleet.first_byte(booking, 2.0)
        fleet.release(booking, outcome, 3.0)

        assert 0 == index.held(A)
        assert "b" == names(fleet)

    def test_the_index_keeps_a_worker_that_another_fleet_has(self) -> None:
        """Two models may be served by one process, whose cache is still there when one of them goes."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        for worker in (A, B):
            book(fleet, a_request("abc"), 0.0, worker)
        fleet.set_workers([], 1.0, elsewhere={A, C})

        assert (3, 0) == (index.held(A), index.held(B))

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED])
    def test_a_returned_worker_learns_nothing_from_its_former_life(self, outcome: Outcome) -> None:
        """What an earlier process computed is not in the cache of this one, nor are failures its own."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        former = [book(fleet, a_request("abc"), 0.0) for _ in range(5)]
        fleet.set_workers([], 1.0)
        fleet.set_workers([A], 2.0)
        for booking in former:
            fleet.release(booking, outcome, 3.0)

        assert 0 == index.held(A)
        assert not worker_of(fleet, A).breaker.is_open

    def test_bookings_of_a_former_life_leave_a_returned_worker_alone(self) -> None:
        """The load of the returned worker is its own."""
        fleet = a_fleet(A)
        former = book(fleet, a_request("abc"), 0.0)
        fleet.set_workers([], 1.0)
        fleet.set_workers([A], 2.0)
        book(fleet, a_request("xyz"), 2.0)
        fleet.first_byte(former, 3.0)
        fleet.release(former, ABORTED, 3.0)

        assert 1 == worker_of(fleet, A).in_flight


class TestHealth:
    def test_a_worker_that_is_down_is_no_candidate(self) -> None:
        """Not even if it is the only one."""
        fleet = a_fleet(A, B)
        fleet.set_up(A, up=False)

        assert "b" == names(fleet)

        fleet.set_up(B, up=False)

        assert "" == names(fleet)

    def test_a_worker_that_comes_back_is_trusted_and_warmed_up(self) -> None:
        """Its breaker is closed, and it gets four requests at first."""
        fleet = a_fleet(A, B)
        for _ in range(40):
            fleet.release(book(fleet, a_request(), 0.0, A), ANSWERED, 0.0)
        fail(fleet, A, times=5)
        fleet.set_up(A, up=False)
        fleet.set_up(A, up=True)

        assert "ab" == names(fleet)
        assert [True] * 4 + [False] * 2 == [admitted(fleet, A) for _ in range(6)]

    def test_being_told_the_same_again_changes_nothing(self) -> None:
        """A health check reports every few seconds; only changes count."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        fleet.set_up(A, up=True)

        assert "b" == names(fleet)

    def test_news_of_an_unknown_worker_is_ignored(self) -> None:
        """It may have left a moment ago."""
        fleet = a_fleet(A)
        fleet.set_up(B, up=True)
        fleet.set_asleep(B, asleep=True)
        fleet.set_draining(B, draining=True)
        fleet.set_capacity(B, blocks=10, block_size=16)
        fleet.restarted(B)

        assert "a" == names(fleet)


class TestDraining:
    def test_a_worker_that_drains_is_no_candidate(self) -> None:
        """Not even if it is the only one; it is up all the while, and comes back as it was."""
        fleet = a_fleet(A, B)
        fleet.set_draining(A, draining=True)

        assert "b" == names(fleet)
        assert (True, False) == (worker_of(fleet, A).is_up, worker_of(fleet, A).is_ready)

        fleet.set_draining(B, draining=True)

        assert "" == names(fleet)

        fleet.set_draining(A, draining=False)

        assert "a" == names(fleet)

    def test_a_worker_that_drains_ends_what_it_has(self) -> None:
        """Its requests count until they are over, and its cache stays: it may be wanted again."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.set_draining(A, draining=True)

        assert 1 == worker_of(fleet, A).in_flight

        fleet.first_byte(booking, 1.0)
        fleet.release(booking, ANSWERED, 2.0)
        fleet.set_draining(A, draining=False)

        assert 0 == worker_of(fleet, A).in_flight
        assert {A: 3} == hits(fleet, "abc")

    def test_a_worker_that_is_drained_after_the_ranking_is_not_booked(self) -> None:
        """The next in the order gets the request."""
        fleet = a_fleet(A)
        (candidate,) = fleet.candidates(a_request(), 0.0)
        fleet.set_draining(A, draining=True)

        assert fleet.book(a_request(), candidate, 0.0) is None

    def test_draining_stays_when_health_and_sleep_change(self) -> None:
        """What an operator wants and what the worker can do are told apart."""
        fleet = a_fleet(A)
        fleet.set_draining(A, draining=True)
        fleet.set_up(A, up=False)
        fleet.set_up(A, up=True)
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)
        fleet.restarted(A)
        fleet.set_workers([A, B], 1.0)

        assert "b" == names(fleet)

    def test_a_worker_that_left_does_not_drain_when_it_comes_back(self) -> None:
        """It may be another one, and nobody has said a word about that."""
        fleet = a_fleet(A)
        fleet.set_draining(A, draining=True)
        fleet.set_workers([], 1.0)
        fleet.set_workers([A], 2.0)

        assert "a" == names(fleet)


class TestSleep:
    def test_a_worker_that_sleeps_is_no_candidate(self) -> None:
        """Not even if it is the only one; it is up all the while."""
        fleet = a_fleet(A, B)
        fleet.set_asleep(A, asleep=True)

        assert "b" == names(fleet)
        assert (True, False) == (worker_of(fleet, A).is_up, worker_of(fleet, A).is_ready)

        fleet.set_asleep(B, asleep=True)

        assert "" == names(fleet)

    def test_sleep_and_health_are_told_apart(self) -> None:
        """Whoever is down and wakes is still down, and whoever sleeps and comes up still sleeps."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            fleet.set_up(worker, up=False)
            fleet.set_asleep(worker, asleep=True)
        fleet.set_asleep(A, asleep=False)
        fleet.set_up(B, up=True)

        assert "" == names(fleet)

        fleet.set_up(A, up=True)
        fleet.set_asleep(B, asleep=False)

        assert "ab" == names(fleet)

    def test_a_worker_that_falls_asleep_drops_its_cache(self) -> None:
        """vLLM resets the prefix cache; the room for it is as large as before."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.set_capacity(A, blocks=2, block_size=16)
        book(fleet, a_request("abc"), 0.0)
        fleet.set_asleep(A, asleep=True)
        assert 0 == index.held(A)
        fleet.set_asleep(A, asleep=False)
        book(fleet, a_request("abc"), 0.0)

        assert 2 == index.held(A)

    def test_a_worker_that_wakes_is_trusted_and_warmed_up(self) -> None:
        """What it refused in its sleep opened its breaker; it gets four requests at first."""
        fleet = a_fleet(A, B)
        for _ in range(40):
            fleet.release(book(fleet, a_request(), 0.0, A), ANSWERED, 0.0)
        fail(fleet, A, times=5)
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)

        assert "ab" == names(fleet)
        assert [True] * 4 + [False] * 2 == [admitted(fleet, A) for _ in range(6)]

    def test_being_told_the_same_again_changes_nothing(self) -> None:
        """A reading comes every few seconds; only changes count."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        fleet.set_asleep(A, asleep=False)

        assert "b" == names(fleet)

    def test_a_worker_that_fell_asleep_is_not_booked_any_more(self) -> None:
        """It was ranked before; failover passes it over."""
        fleet = a_fleet(A)
        (candidate,) = fleet.candidates(a_request("a"), 0.0)
        fleet.set_asleep(A, asleep=True)

        assert fleet.book(a_request("a"), candidate, 0.0) is None


class TestWarmUp:
    def test_a_fresh_worker_admits_four_requests(self) -> None:
        """The fifth candidate says so."""
        fleet = a_fleet(A)

        assert [True] * 4 + [False] == [admitted(fleet, A) for _ in range(5)]

    def test_answers_open_the_window(self) -> None:
        """Failures and refusals do not."""
        fleet = a_fleet(A)
        for outcome in (ANSWERED, FAILED, REFUSED, ABORTED, ANSWERED):
            fleet.release(book(fleet, a_request(), 0.0), outcome, 0.0)

        assert [True] * 6 + [False] == [admitted(fleet, A) for _ in range(7)]


class TestBreaker:
    def test_a_worker_that_keeps_failing_is_no_candidate(self) -> None:
        """Five failures in a row cut it off; after ten seconds one request may try."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)

        assert "b" == names(fleet, 9.9)
        assert "ab" == names(fleet, 10.0)

        book(fleet, a_request(), 10.0, A)

        assert "b" == names(fleet, 10.0)

    def test_a_probe_that_is_answered_brings_it_back(self) -> None:
        """From then on it is a candidate like the others."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        fleet.release(book(fleet, a_request(), 10.0, A), ANSWERED, 11.0)

        assert "ab" == names(fleet, 11.0)

    def test_it_never_takes_the_last_worker(self) -> None:
        """If all are cut off, all that are up are candidates."""
        fleet = a_fleet(A, B, C)
        fail(fleet, A, times=5)
        fail(fleet, B, times=5)
        fleet.set_up(C, up=False)

        assert "ab" == names(fleet)

    def test_refused_requests_never_count(self) -> None:
        """Forty bad requests open nothing."""
        fleet = a_fleet(A, B)
        for _ in range(40):
            fleet.release(book(fleet, a_request(), 0.0, A), REFUSED, 0.0)

        assert "ab" == names(fleet)

    @pytest.mark.parametrize("outcome", [REFUSED, ABORTED])
    def test_refused_and_aborted_requests_count_neither_way(self, outcome: Outcome) -> None:
        """Between failures they do not break the row."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=4)
        fleet.release(book(fleet, a_request(), 0.0, A), outcome, 0.0)

        assert "ab" == names(fleet)

        fail(fleet, A, times=1)

        assert "b" == names(fleet)

    def test_an_answer_breaks_the_row(self) -> None:
        """Four failures, an answer, and four more are not five in a row."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=4)
        fleet.release(book(fleet, a_request(), 0.0, A), ANSWERED, 0.0)
        fail(fleet, A, times=4)

        assert "ab" == names(fleet)


class TestPinned:
    def test_only_its_worker_is_a_candidate(self) -> None:
        """What it goes on from is nowhere else."""
        assert [B] == [c.worker for c in a_fleet(A, B, C).candidates(a_request(pinned=B), 0.0)]

    def test_its_worker_is_one_whatever_its_breaker_says(self) -> None:
        """Nobody else could answer."""
        fleet = a_fleet(A, B)
        fail(fleet, B, times=5)

        assert "a" == names(fleet)
        assert [B] == [c.worker for c in fleet.candidates(a_request(pinned=B), 0.0)]

    @pytest.mark.parametrize("gone", ["down", "asleep", "left"])
    def test_without_its_worker_there_is_no_candidate(self, gone: str) -> None:
        """Another worker would know nothing of the response."""
        fleet = a_fleet(A, B)
        if gone == "down":
            fleet.set_up(B, up=False)
        elif gone == "asleep":
            fleet.set_asleep(B, asleep=True)
        else:
            fleet.set_workers([A], 1.0)

        assert [] == fleet.candidates(a_request(pinned=B), 0.0)


class TestHits:
    def test_a_booking_counts_as_present_at_once(self) -> None:
        """The next request of a burst hits what is on its way."""
        fleet = a_fleet(A, B)
        book(fleet, a_request("abc"), 0.0, B)
        a, b = fleet.candidates(a_request("abcd"), 0.0)

        assert (0, 0.0) == (a.hit_blocks, a.hit_tokens)
        assert (3, 48.0) == (b.hit_blocks, b.hit_tokens)

    def test_what_is_held_need_not_be_computed(self) -> None:
        """A hundred tokens, of which 48 are held."""
        fleet = a_fleet(A)
        book(fleet, a_request("abc"), 0.0)
        booking = book(fleet, a_request("abcd", prompt_tokens=100.0), 0.0)

        assert (1, 52.0) == (booking.new_blocks, booking.uncached_tokens)
        assert pytest.approx(0.01 + 52 * 1.15 / 1000) == booking.work_s

    def test_the_last_token_is_always_computed(self) -> None:
        """Even if the index holds the whole prompt."""
        fleet = a_fleet(A)
        book(fleet, a_request("abc"), 0.0)

        assert 1.0 == book(fleet, a_request("abc"), 0.0).uncached_tokens

    def test_a_prompt_that_does_not_read_the_cache_has_no_hit_tokens_and_is_recorded(self) -> None:
        """Prompt log-probabilities need the whole prompt computed; what it leaves in the cache serves others."""
        fleet = a_fleet(A)
        book(fleet, a_request("abc"), 0.0)
        reads_nothing = a_request("abcde", reads_cache=False)
        (candidate,) = fleet.candidates(reads_nothing, 0.0)
        booking = book(fleet, reads_nothing, 0.0)

        assert (0, 0.0) == (candidate.hit_blocks, candidate.hit_tokens)
        assert 80.0 == booking.uncached_tokens
        assert {A: 5} == hits(fleet, "abcde")

    def test_a_restarted_engine_holds_nothing(self) -> None:
        """The others keep what they have, and the capacity is known still."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        fleet.set_capacity(A, blocks=2, block_size=16)
        book(fleet, a_request("abc"), 0.0, A)
        book(fleet, a_request("abc"), 0.0, B)
        fleet.restarted(A)

        assert {B: 3} == hits(fleet, "abc")

        book(fleet, a_request("abc"), 0.0, A)

        assert 2 == index.held(A)


class TestBooking:
    def test_it_counts_as_load_from_its_moment(self) -> None:
        """A hundred tokens at 1,000 a second, taken 15 % slower, and 10 ms."""
        fleet = a_fleet(A, B)
        book(fleet, a_request(prompt_tokens=100.0), 0.0, A)
        a, b = fleet.candidates(a_request(), 0.0)

        assert (0.125, 1) == (round(a.load.backlog_s, 9), a.load.in_flight)
        assert (0.0, 0) == (b.load.backlog_s, b.load.in_flight)

    def test_a_worker_that_left_since_it_was_ranked_cannot_be_booked(self) -> None:
        """Nothing is recorded of it."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        (a, _) = fleet.candidates(a_request("abc"), 0.0)
        fleet.set_workers([B], 1.0)

        assert fleet.book(a_request("abc"), a, 2.0) is None
        assert 0 == index.held(A)

    def test_the_first_byte_of_a_stream_ends_its_prefill(self) -> None:
        """From then on it generates."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request(prompt_tokens=100.0), 0.0)
        fleet.first_byte(booking, 0.5)
        load = worker_of(fleet, A).load(0.5)

        assert (0, 1) == (load.pending, load.decodes)
        assert 0.5 == booking.service_s

    def test_the_first_byte_of_another_answer_says_nothing_of_its_prefill(self) -> None:
        """It comes when all is generated."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request(prompt_tokens=100.0, streams=False), 0.0)
        fleet.first_byte(booking, 0.1)

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
        """What it was to bring is taken back; what it hit stays."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, a_request("ab"), 0.0), ANSWERED, 1.0)
        fleet.release(book(fleet, a_request("abcde"), 2.0), outcome, 2.0)

        assert {A: 2} == hits(fleet, "abcde")

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED, ABORTED])
    def test_a_request_that_ends_after_its_first_byte_leaves_its_prompt(self, outcome: Outcome) -> None:
        """The prefill was over."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.first_byte(booking, 1.0)
        fleet.release(booking, outcome, 2.0)

        assert {A: 3} == hits(fleet, "abc")

    def test_an_answer_makes_its_prompt_the_last_used(self) -> None:
        """An engine frees the blocks when a request ends: the prompt booked later and answered earlier goes first."""
        fleet = a_fleet(A)
        fleet.set_capacity(A, blocks=4, block_size=16)
        first = book(fleet, a_request("ab"), 0.0)
        second = book(fleet, a_request("xy"), 0.0)
        for booking in (second, first):
            fleet.first_byte(booking, 1.0)
            fleet.release(booking, ANSWERED, 2.0)
        book(fleet, a_request("pq"), 3.0)

        assert {A: 2} == hits(fleet, "ab")
        assert {} == hits(fleet, "xy")

    def test_the_answer_takes_room_in_the_cache(self) -> None:
        """Forty tokens of four bytes fill two blocks of 64."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.release(book(fleet, a_request("abc"), 0.0), Outcome(Ending.ANSWERED, completion_tokens=40), 1.0)

        assert 5 == index.held(A)

    def test_the_length_of_answers_is_learnt(self) -> None:
        """One of 56 tokens takes the mean of 256 down by a twentieth of the difference."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, a_request(), 0.0), Outcome(Ending.ANSWERED, completion_tokens=56), 1.0)

        assert pytest.approx(246.0) == fleet.output_length.expected(None)

    def test_the_token_ratio_is_learnt(self) -> None:
        """64,000 bytes were 32,000 tokens: hits are worth nearly twice as many tokens as four bytes each would make."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, a_request("a" * 1000), 0.0), Outcome(Ending.ANSWERED, prompt_tokens=32_000), 1.0)
        (candidate,) = fleet.candidates(a_request("aaa").changed(prompt_tokens=100.0), 2.0)

        assert pytest.approx(2.04, abs=0.01) == fleet.bytes_per_token.ratio
        assert pytest.approx(3 * 31.3, abs=0.5) == candidate.hit_tokens

    def test_no_more_is_predicted_than_there_is_of_the_prompt(self) -> None:
        """How many tokens a block of text has is a guess; how many the prompt has may be known."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, a_request("abc"), 0.0), ANSWERED, 1.0)
        (candidate,) = fleet.candidates(a_request("abc").changed(prompt_tokens=5.0), 2.0)

        assert (3, 5.0) == (candidate.hit_blocks, candidate.hit_tokens)

    def test_a_cache_that_was_cleared_is_found_out_by_two_prompts(self) -> None:
        """One that is gone may have been evicted: nothing is scaled down for it. With the next, all is gone."""
        fleet = a_fleet(A)

        def asked(letters: str, cached: int) -> None:
            request = a_request(letters).changed(prompt_tokens=5000.0)
            fleet.release(book(fleet, request, 0.0), Outcome(Ending.ANSWERED, 5000, cached), 1.0)

        asked("abc", 0)
        asked("xyz", 0)
        assert {A: 3} == hits(fleet, "abc")
        asked("abc", 0)
        assert ({A: 3}, {A: 3}, 1.0) == (
            hits(fleet, "abc"),
            hits(fleet, "xyz"),
            worker_of(fleet, A).shadow_accuracy.correction,
        )
        asked("xyz", 0)
        assert ({}, {A: 3}, 1.0) == (
            hits(fleet, "abc"),
            hits(fleet, "xyz"),
            worker_of(fleet, A).shadow_accuracy.correction,
        )

    @pytest.mark.parametrize(
        ("cached_tokens", "service_s"), [(None, 1.01), (900, 0.11), (999, 0.011), (1000, 0.011), (5000, 0.011)]
    )
    def test_rates_are_learnt_from_what_the_engine_computed(self, cached_tokens: int | None, service_s: float) -> None:
        """A prefill as long as the engine's own uncached count predicts leaves the rate alone; it is at least one."""
        fleet = a_fleet(A)
        before = worker_of(fleet, A).load(0.0)
        booking = book(fleet, a_request(prompt_tokens=1000.0), 0.0)
        fleet.first_byte(booking, service_s)
        fleet.release(booking, Outcome(Ending.ANSWERED, 1000, cached_tokens), 9.0)
        after = worker_of(fleet, A).load(9.0)

        assert pytest.approx(before.prefill_overhead_s) == after.prefill_overhead_s
        assert pytest.approx(before.prefill_s_per_token) == after.prefill_s_per_token

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED, ABORTED])
    def test_a_prompt_that_leaves_nothing_in_the_cache_is_not_recorded(self, outcome: Outcome) -> None:
        """Neither when it is booked nor at its end; it is load all the same."""
        fleet = a_fleet(A)
        booking = book(fleet, unkept("abc"), 0.0)

        assert ({}, 1) == (hits(fleet, "abc"), worker_of(fleet, A).in_flight)

        fleet.first_byte(booking, 1.0)
        fleet.release(booking, outcome, 2.0)

        assert ({}, 0) == (hits(fleet, "abc"), worker_of(fleet, A).in_flight)

    @pytest.mark.parametrize("outcome", [ANSWERED, FAILED, ABORTED])
    def test_it_leaves_alone_what_others_left_there(self, outcome: Outcome) -> None:
        """The same text as the prompt of a completion is still held."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, a_request("abc"), 0.0), ANSWERED, 1.0)
        fleet.release(book(fleet, unkept("abcd"), 2.0), outcome, 3.0)

        assert {A: 3} == hits(fleet, "abcd")

    def test_it_teaches_no_token_ratio(self) -> None:
        """Where a request goes on from a response, the tokens are those of the whole conversation."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, unkept("abc"), 0.0), Outcome(Ending.ANSWERED, 32_000), 1.0)

        assert 4.0 == fleet.bytes_per_token.ratio

    def test_it_teaches_no_rates_where_nobody_knows_what_was_computed(self) -> None:
        """Thirty seconds for a few words of audio, or of a long conversation, say nothing of a token."""
        fleet = a_fleet(A)
        before = worker_of(fleet, A).load(0.0)
        booking = book(fleet, unkept(""), 0.0)
        fleet.first_byte(booking, 30.0)
        fleet.release(booking, Outcome(Ending.ANSWERED, 1000, None, 50), 60.0)

        assert rates_of(before) == rates_of(worker_of(fleet, A).load(60.0))

    def test_it_teaches_rates_where_the_engine_says_what_it_computed(self) -> None:
        """A hundred tokens in a second are a tenth of what was believed."""
        fleet = a_fleet(A)
        booking = book(fleet, unkept(""), 0.0)
        fleet.first_byte(booking, 1.0)
        fleet.release(booking, Outcome(Ending.ANSWERED, 1000, 900), 9.0)

        assert worker_of(fleet, A).prefill_tokens_per_s < 800.0

    @pytest.mark.parametrize("outcome", [REFUSED, FAILED, ABORTED])
    def test_only_answers_teach(self, outcome: Outcome) -> None:
        """The times and counts of others say little."""
        fleet = a_fleet(A)
        before = worker_of(fleet, A).load(0.0)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.first_byte(booking, 30.0)
        fleet.release(booking, Outcome(outcome.ending, 10, 0, 5000), 60.0)

        assert rates_of(before) == rates_of(worker_of(fleet, A).load(60.0))
        assert 4.0 == fleet.bytes_per_token.ratio
        assert 256.0 == fleet.output_length.expected(None)


class TestCapacity:
    @pytest.mark.parametrize(
        ("blocks", "block_size", "held"),
        [(4, 16, 4), (4, 32, 8), (8, 8, 4), (1, 8, 0), (0, 16, 0), (1000, 16, 20)],
    )
    def test_it_is_told_in_the_engines_blocks_and_kept_in_ours(self, blocks: int, block_size: int, held: int) -> None:
        """Four bytes a token: 16 tokens are a block of 64 bytes."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.set_capacity(A, blocks=blocks, block_size=block_size)
        book(fleet, a_request("abcdefghijklmnopqrst"), 0.0)

        assert held == index.held(A)

    def test_it_follows_the_token_ratio(self) -> None:
        """Where a token turns out to be two bytes, the cache has room for half the text; a tick takes it in."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.set_capacity(A, blocks=100, block_size=16)
        for _ in range(20):
            fleet.bytes_per_token.learn(20_000, 10_000)
        fleet.tick(1.0)
        book(fleet, a_request("x" * 100), 2.0)

        assert 50 == index.held(A)


def fail(fleet: Fleet, worker: WorkerId, *, times: int) -> None:
    for _ in range(times):
        fleet.release(book(fleet, a_request(), 0.0, worker), FAILED, 0.0)


def admitted(fleet: Fleet, worker: WorkerId) -> bool:
    """Whether *worker* admits one more request, which it then gets."""
    candidate = next(c for c in fleet.candidates(a_request(), 0.0) if c.worker == worker)
    fleet.book(a_request(), candidate, 0.0)
    return candidate.admits


WORKERS = [A, B, C]


class FleetAgainstCounts(RuleBasedStateMachine):
    """Whatever happens to requests, each worker has as many in flight as were booked and not ended."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.index = an_index()
        self.fleet = a_fleet(*WORKERS, index=self.index, lease_s=50.0)
        self.bookings: list[Booking] = []
        self.in_flight: dict[WorkerId, set[Booking]] = {worker: set() for worker in WORKERS}

    @rule(pause_s=st.sampled_from([0.0, 0.01, 0.1, 1.0, 20.0]))
    def wait(self, pause_s: float) -> None:
        self.now += pause_s

    @rule(letters=st.text("ab", max_size=6), streams=st.booleans(), reads_cache=st.booleans(), which=st.integers(0, 2))
    def book(self, letters: str, streams: bool, reads_cache: bool, which: int) -> None:
        request = a_request(letters, streams=streams, reads_cache=reads_cache)
        candidates = self.fleet.candidates(request, self.now)
        if candidates:
            booking = self.fleet.book(request, candidates[which % len(candidates)], self.now)
            assert booking is not None
            self.bookings.append(booking)
            self.in_flight[booking.worker].add(booking)

    @rule(which=st.integers(0, 100))
    def first_byte(self, which: int) -> None:
        if self.bookings:
            self.fleet.first_byte(self.bookings[which % len(self.bookings)], self.now)

    @rule(which=st.integers(0, 100), ending=st.sampled_from(Ending), tokens=st.none() | st.integers(0, 200))
    def release(self, which: int, ending: Ending, tokens: int | None) -> None:
        if self.bookings:
            booking = self.bookings[which % len(self.bookings)]
            self.fleet.release(booking, Outcome(ending, tokens, tokens, tokens), self.now)
            self.in_flight[booking.worker].discard(booking)

    @rule()
    def tick(self) -> None:
        lost = {b for bookings in self.in_flight.values() for b in bookings if b.booked_at < self.now - 50.0}

        assert lost == set(self.fleet.tick(self.now))

        self.in_flight = {worker: bookings - lost for worker, bookings in self.in_flight.items()}

    @rule(workers=st.sets(st.sampled_from(WORKERS)))
    def set_workers(self, workers: set[WorkerId]) -> None:
        self.fleet.set_workers(workers, self.now)
        for worker in self.in_flight:
            if worker not in workers:
                self.in_flight[worker] = set()

    @rule(worker=st.sampled_from(WORKERS), up=st.booleans())
    def set_up(self, worker: WorkerId, up: bool) -> None:
        self.fleet.set_up(worker, up=up)

    @rule(worker=st.sampled_from(WORKERS), asleep=st.booleans())
    def set_asleep(self, worker: WorkerId, asleep: bool) -> None:
        self.fleet.set_asleep(worker, asleep=asleep)

    @rule(worker=st.sampled_from(WORKERS), draining=st.booleans())
    def set_draining(self, worker: WorkerId, draining: bool) -> None:
        self.fleet.set_draining(worker, draining=draining)

    @rule(worker=st.sampled_from(WORKERS))
    def restarted(self, worker: WorkerId) -> None:
        self.fleet.restarted(worker)

    @rule(worker=st.sampled_from(WORKERS), blocks=st.integers(0, 20))
    def set_capacity(self, worker: WorkerId, blocks: int) -> None:
        self.fleet.set_capacity(worker, blocks=blocks, block_size=16)

    @invariant()
    def counts_agree(self) -> None:
        self.index._check()
        for worker in self.fleet:
            load = worker.load(self.now)

            assert len(self.in_flight[worker.id]) == worker.in_flight == load.in_flight
            assert load.pending or load.backlog_s == 0.0
            assert load.backlog_s >= 0.0
            assert -1e-9 <= load.busy_share <= 1.0 + 1e-9
            assert worker.prefill_tokens_per_s > 0.0

    def teardown(self) -> None:
        for booking in self.bookings:
            self.fleet.release(booking, ABORTED, self.now)

        loads = [worker.load(self.now) for worker in self.fleet]
        assert all((0.0, 0) == (load.backlog_s, load.in_flight) for load in loads)


TestFleetAgainstCounts = FleetAgainstCounts.TestCase
TestFleetAgainstCounts.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_the_index_holds_the_booked_prompt() -> None:
    """What the fleet records is the request's own prefix."""
    index = an_index()
    book(a_fleet(A, index=index), a_request("abc"), 0.0)

    assert {A: 3} == index.match(prompt("abc"))


class TestSharedRates:
    def test_what_one_worker_teaches_is_believed_of_all(self) -> None:
        """Documents asked for one after the other spread over an idle fleet, though few workers have been measured."""
        fleet = a_fleet(A, B, C)
        strategy = PrefixAware(seeded())
        used: Counter[WorkerId] = Counter()
        for i, letter in enumerate(string.ascii_letters):
            now = 10.0 * i
            booking = dispatch(fleet, strategy, a_request(letter * 60), now)
            fleet.first_byte(booking, now + 0.01 + booking.uncached_tokens / 10_000)
            fleet.release(booking, ANSWERED, now + 1.0)
            used[booking.worker] += 1

        assert all(used[worker] >= 10 for worker in (A, B, C))

    def test_a_restarted_engine_is_warmed_up_again(self) -> None:
        """A fresh process is as cold as a new worker."""
        fleet = a_fleet(A)
        for i in range(40):
            fleet.release(book(fleet, a_request("a"), float(i)), ANSWERED, float(i))
        fleet.restarted(A)
        for _ in range(4):
            book(fleet, a_request("a"), 50.0)

        assert [False] == [candidate.admits for candidate in fleet.candidates(a_request("a"), 50.0)]

    def test_a_hanging_worker_is_not_believed_to_have_computed_what_it_was_sent(self) -> None:
        """An answer that does not stream failed: that its prefill should have been over by then proves nothing."""
        fleet = a_fleet(A)
        booking = book(fleet, a_request("abc", streams=False), 0.0)
        fleet.candidates(a_request("abc"), 100.0)
        fleet.release(booking, FAILED, 100.0)

        assert {} == hits(fleet, "abc")


def test_a_worker_that_went_down_is_not_booked_any_more() -> None:
    """It was ranked before; failover passes it over instead of waiting for it."""
    fleet = a_fleet(A)
    (candidate,) = fleet.candidates(a_request("a"), 0.0)
    fleet.set_up(A, up=False)

    assert fleet.book(a_request("a"), candidate, 0.0) is None


class TestExcluded:
    def test_each_worker_is_a_candidate_or_says_why_not(self) -> None:
        """With its load and its hit, as if it were one."""
        fleet = a_fleet(A, B, C)
        book(fleet, a_request("pq"), 0.0, A)
        fail(fleet, B, times=5)
        fleet.set_up(A, up=False)
        down, open_ = fleet.excluded(a_request("pqr"), 0.0)

        assert "c" == names(fleet)
        assert [("a", 2, 1, "down"), ("b", 0, 0, "breaker open")] == [
            (each.candidate.worker, each.candidate.hit_blocks, each.candidate.load.in_flight, each.why_not)
            for each in (down, open_)
        ]

    def test_an_open_breaker_excludes_nobody_where_all_are_open(self) -> None:
        """The last workers are never taken away."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            fail(fleet, worker, times=5)

        assert [] == fleet.excluded(a_request(), 0.0)

    def test_a_response_is_gone_on_with_where_it_is_kept(self) -> None:
        """Other workers are no candidates, whatever else they are; the one that keeps it may be none either."""
        fleet = a_fleet(A, B, C)
        fleet.set_up(A, up=False)
        elsewhere = "not the worker that keeps the response"
        request = a_request(pinned=B)

        assert [(A, elsewhere), (C, elsewhere)] == reasons(fleet, request)
        fleet.set_asleep(B, asleep=True)
        assert [(A, elsewhere), (B, "asleep"), (C, elsewhere)] == reasons(fleet, request)


def reasons(fleet: Fleet, request: Request) -> list[tuple[WorkerId, str]]:
    return [(each.candidate.worker, each.why_not) for each in fleet.excluded(request, 0.0)]


def test_what_an_engine_tells_of_its_queue_is_its_worker_s() -> None:
    """Nobody else has it; of a worker that left nothing is to be told."""
    fleet = a_fleet(A, B)
    book(fleet, a_request("abc"), 0.0, A)
    fleet.told(A, 3.0, 0.0)
    fleet.told(C, 3.0, 0.0)
    backlogs_s = {c.worker: c.load.backlog_s for c in fleet.candidates(a_request(), 0.0)}

    assert backlogs_s[A] > 0.0 == backlogs_s[B]


class TestLives:
    def test_whoever_comes_up_again_has_another_life(self) -> None:
        """Also who restarted unseen, or woke; others have theirs."""
        fleet = a_fleet(A, B)
        lives = [fleet.life(A)]
        fleet.set_up(A, up=False)
        lives.append(fleet.life(A))
        fleet.set_up(A, up=True)
        lives.append(fleet.life(A))
        fleet.restarted(A)
        lives.append(fleet.life(A))
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)
        lives.append(fleet.life(A))

        assert [0, 0, 1, 2, 3] == lives
        assert 0 == fleet.life(B)

    def test_what_is_said_twice_begins_no_life(self) -> None:
        """It was up all the while."""
        fleet = a_fleet(A)
        fleet.set_up(A, up=True)
        fleet.set_asleep(A, asleep=False)

        assert 0 == fleet.life(A)

    def test_who_is_not_there_has_none(self) -> None:
        """It has left, or never came."""
        fleet = a_fleet(A)
        fleet.set_workers([B], 1.0)

        assert [-1, -1] == [fleet.life(A), fleet.life(C)]

    def test_who_joins_again_has_a_life_that_it_never_had(self) -> None:
        """Whoever was excluded for its failures may try it."""
        fleet = a_fleet(A, B)
        fleet.restarted(A)
        before = fleet.life(A)
        fleet.set_workers([B], 1.0)
        fleet.set_workers([A, B], 2.0)

        assert fleet.life(A) > before

    def test_failures_of_an_earlier_life_are_not_held_against_a_worker(self) -> None:
        """Five requests that it never answered come to their end when it is up again."""
        fleet = a_fleet(A, B)
        lost = [book(fleet, a_request(), 0.0, A) for _ in range(5)]
        fleet.set_up(A, up=False)
        fleet.set_up(A, up=True)
        for booking in lost:
            fleet.release(booking, FAILED, 1.0)

        assert not worker_of(fleet, A).breaker.is_open

    def test_a_restart_closes_the_breaker(self) -> None:
        """Another engine runs there."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        assert "b" == names(fleet)
        fleet.restarted(A)

        assert "ab" == names(fleet)


class TestProbes:
    def test_a_worker_that_fails_every_other_request_is_cut_off(self) -> None:
        """It never fails twice in a row."""
        fleet = a_fleet(A, B)
        for i in range(10):
            fleet.release(book(fleet, a_request(), 0.0, A), FAILED if i % 2 else ANSWERED, 0.0)

        assert "b" == names(fleet)

    def test_whoever_was_wrong_or_left_is_no_failure(self) -> None:
        """A hundred of each."""
        fleet = a_fleet(A, B)
        for _ in range(100):
            for outcome in (REFUSED, ABORTED):
                fleet.release(book(fleet, a_request(), 0.0, A), outcome, 0.0)

        assert "ab" == names(fleet)

    @pytest.mark.parametrize("outcome", [REFUSED, ABORTED])
    def test_a_probe_that_shows_nothing_is_followed_by_another(self, outcome: Outcome) -> None:
        """While it is under way nobody else goes there."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        probe = book(fleet, a_request(), 10.0, A)
        assert "b" == names(fleet, 10.0)
        fleet.release(probe, outcome, 11.0)

        assert "ab" == names(fleet, 11.0)

    def test_a_probe_that_is_answered_opens_the_worker_to_all(self) -> None:
        """One that fails keeps it away for twice as long."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        fleet.release(book(fleet, a_request(), 10.0, A), FAILED, 10.0)
        assert "b" == names(fleet, 29.0)
        fleet.release(book(fleet, a_request(), 30.0, A), ANSWERED, 30.5)

        assert "ab" == names(fleet, 30.5)


class TestPredictedFirstByte:
    def test_nobody_is_cut_by_what_was_never_measured(self) -> None:
        """The settings say how fast workers are; they may be wrong."""
        fleet = a_fleet(A)

        assert fleet.first_byte_in_s(book(fleet, a_request("x" * 100), 0.0), 0.0) is None

    def test_it_is_the_backlog_and_the_prompt(self) -> None:
        """As it was believed when it was booked, less the time since."""
        fleet = a_fleet(A)
        teach(fleet)
        one, two = (book(fleet, a_request(letter * 100), 20.0) for letter in "yz")

        assert pytest.approx(one.work_s) == fleet.first_byte_in_s(one, 20.0)
        assert pytest.approx(one.work_s + two.work_s) == fleet.first_byte_in_s(two, 20.0)
        assert pytest.approx(one.work_s + two.work_s - 0.5) == fleet.first_byte_in_s(two, 20.5)
        assert 0.0 == fleet.first_byte_in_s(two, 99.0)

    def test_of_other_answers_the_first_byte_is_the_last(self) -> None:
        """When that comes nobody predicts."""
        fleet = a_fleet(A)
        teach(fleet)

        assert fleet.first_byte_in_s(book(fleet, a_request("y", streams=False), 20.0), 20.0) is None

    def test_gaps_are_known_of_workers_that_are_there(self) -> None:
        """40 ms a token, as it was measured on one of them."""
        fleet = a_fleet(A, B)
        assert fleet.usual_gap_s(A) is None
        booking = book(fleet, a_request("x" * 10), 0.0, A)
        fleet.first_byte(booking, 1.0)
        fleet.release(booking, Outcome(Ending.ANSWERED, 160, 0, 101), 5.0)

        assert [0.04, 0.04, None] == [fleet.usual_gap_s(worker) for worker in (A, B, C)]


def teach(fleet: Fleet) -> None:
    """One prefill as long as was believed."""
    booking = book(fleet, a_request("x" * 100), 0.0)
    fleet.first_byte(booking, booking.work_s)
    fleet.release(booking, ANSWERED, booking.work_s)


class TestPools:
    def near(self, fleet: Fleet, request: Request, now: float = 0.0) -> tuple[str, str]:
        reach = fleet.reach(request, fleet.candidates(request, now))
        return "".join(each.worker for each in reach.near), "".join(each.worker for each in reach.far)

    def test_workers_are_of_one_pool_until_somebody_says_otherwise(self) -> None:
        """There are no reserves."""
        fleet = a_fleet(A, B)
        assert not fleet.has_pools
        assert ("ab", "") == self.near(fleet, a_request())

    def test_the_first_pool_comes_first(self) -> None:
        """Whoever is not named is of it; the same for workers that join later."""
        fleet = a_fleet(A, B)
        fleet.set_tiers({B: 1, C: 1})
        assert ("a", "b") == self.near(fleet, a_request())
        fleet.set_workers([A, B, C], 1.0)

        assert [0, 1, 1] == [worker.tier for worker in fleet]
        assert ("a", "bc") == self.near(fleet, a_request())

    def test_where_all_are_of_one_tier_there_are_no_pools(self) -> None:
        """Whatever its number, and when the others have left."""
        fleet = a_fleet(A, B)
        fleet.set_tiers({B: 1})
        before = fleet.has_pools
        fleet.set_workers([B], 1.0)

        assert (True, False) == (before, fleet.has_pools)
        assert ("b", "") == self.near(fleet, a_request())

    def test_the_next_pool_stands_in_for_one_that_cannot_be_used(self) -> None:
        """Its workers are down, or behind their breakers."""
        fleet = a_fleet(A, B, C)
        fleet.set_tiers({C: 1})
        fleet.set_up(A, up=False)
        assert ("b", "c") == self.near(fleet, a_request())
        fail(fleet, B, times=5)

        assert ("c", "") == self.near(fleet, a_request())

    def test_the_next_pool_joins_a_busy_one(self) -> None:
        """Five seconds of prefill are enough, as it is set here, with every worker."""
        fleet = a_fleet(A, B, C)
        fleet.set_tiers({C: 1})
        book(fleet, a_request("x" * 400), 0.0, A)
        assert ("ab", "c") == self.near(fleet, a_request())
        book(fleet, a_request("y" * 400), 0.0, B)

        assert ("abc", "") == self.near(fleet, a_request())
        assert ("ab", "c") == self.near(fleet, a_request(), 4.0)

    def test_who_may_go_elsewhere_says_how_long_it_waits(self) -> None:
        """Two seconds to the first token, of which its own prefill takes 1.16; the workers have more to do."""
        fleet = a_fleet(A, B)
        fleet.set_tiers({B: 1})
        book(fleet, a_request("x" * 60), 0.0, A)

        assert ("a", "b") == self.near(fleet, a_request("z" * 63))
        assert ("ab", "") == self.near(fleet, a_request("z" * 63).changed(spill_in_s=2.0))
        assert ("a", "b") == self.near(fleet, a_request("z").changed(spill_in_s=2.0))

    def test_a_pinned_request_has_its_worker_in_any_pool(self) -> None:
        """It has no choice."""
        fleet = a_fleet(A, B)
        fleet.set_tiers({B: 1})

        assert ("b", "") == self.near(fleet, a_request(pinned=B))

    def test_of_nobody_there_is_no_pool(self) -> None:
        """All are down."""
        fleet = a_fleet(A, B)
        fleet.set_tiers({B: 1})
        for worker in (A, B):
            fleet.set_up(worker, up=False)

        assert ("", "") == self.near(fleet, a_request().changed(spill_in_s=1.0))


def test_workers_behind_an_open_breaker_are_known_for_when_all_others_fail() -> None:
    """The one with the least to do first; a pinned request knows only its own."""
    fleet = a_fleet(A, B, C)
    book(fleet, a_request("xyz"), 0.0, on=B)
    for worker in (B, C):
        for _ in range(5):
            booking = book(fleet, a_request("x"), 0.0, on=worker)
            fleet.release(booking, Outcome(Ending.FAILED), 0.0)

    assert [C, B] == [candidate.worker for candidate in fleet.cut_off(a_request("q"), 0.0)]
    assert [B] == [candidate.worker for candidate in fleet.cut_off(a_request("q", pinned=B), 0.0)]
    assert [] == fleet.cut_off(a_request("q", pinned=A), 0.0)


class Told:
    """A `Witness` that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Booking]] = []

    def booked(self, booking: Booking) -> None:
        self.said.append(("booked", booking))

    def first_byte(self, booking: Booking) -> None:
        self.said.append(("first byte", booking))

    def released(self, booking: Booking, outcome: Outcome) -> None:
        self.said.append((outcome.ending.value, booking))


def witnessed(*workers: WorkerId, lease_s: float = 600.0) -> tuple[Fleet, Told]:
    told = Told()
    fleet = Fleet(an_index(), block_bytes=64, prefill_tokens_per_s=1000.0, lease_s=lease_s, witness=told)
    fleet.set_workers(workers, 0.0)
    return fleet, told


def elsewhere(
    fleet: Fleet, letters: str = "", *, worker: WorkerId = A, now: float = 0.0, exact: str = "", streams: bool = True
) -> Booking:
    booking = fleet.book_elsewhere(
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


class TestWitness:
    def test_it_is_told_of_each_booking_from_beginning_to_end(self) -> None:
        """Of the first byte once."""
        fleet, told = witnessed(A)
        booking = book(fleet, a_request("abc"), 0.0)
        fleet.first_byte(booking, 1.0)
        fleet.first_byte(booking, 1.0)
        fleet.release(booking, ANSWERED, 2.0)

        assert [("booked", booking), ("first byte", booking), ("answered", booking)] == told.said

    def test_it_is_told_what_became_of_the_prefill(self) -> None:
        """Of an answer that does not stream it is over by then."""
        fleet, told = witnessed(A)
        booking = book(fleet, a_request("abc", streams=False), 0.0)
        fleet.first_byte(booking, 1.0)
        fleet.release(booking, ABORTED, 2.0)

        assert ["booked", "aborted"] == [word for word, _ in told.said]
        assert booking.first_byte_at is not None

    def test_it_is_told_of_the_end_on_a_worker_that_has_left(self) -> None:
        """Others may still have the worker."""
        fleet, told = witnessed(A, B)
        booking = book(fleet, a_request("abc"), 0.0, A)
        fleet.set_workers([B], 1.0)
        fleet.release(booking, ANSWERED, 2.0)

        assert ["booked", "answered"] == [word for word, _ in told.said]

    def test_it_is_told_of_what_is_taken_for_lost(self) -> None:
        """Its lease is over."""
        fleet, told = witnessed(A, lease_s=10.0)
        booking = book(fleet, a_request("abc"), 0.0)
        elsewhere(fleet)

        assert [booking] == fleet.tick(20.0)
        assert ["booked", "aborted"] == [word for word, _ in told.said]

    def test_it_is_not_told_of_what_others_do(self) -> None:
        """They would hear of themselves, for ever."""
        fleet, told = witnessed(A)
        booking = elsewhere(fleet, "abc")
        fleet.first_byte_elsewhere(booking, 1.0)
        fleet.release_elsewhere(booking, keep=True, now=2.0)

        assert [] == told.said


class TestElsewhere:
    """What other gateways have given to the same workers."""

    def test_its_blocks_count_as_present_from_the_booking_on(self) -> None:
        """And stay, if its prompt was computed."""
        fleet = a_fleet(A, B)
        booking = elsewhere(fleet, "abc")

        assert {A: 3} == hits(fleet, "abcd")
        assert 1 == worker_of(fleet, A).in_flight

        fleet.first_byte_elsewhere(booking, 1.0)
        fleet.release_elsewhere(booking, keep=True, now=2.0)

        assert {A: 3} == hits(fleet, "abcd")
        assert 0 == worker_of(fleet, A).in_flight

    def test_what_was_not_computed_is_taken_back(self) -> None:
        """But for what the worker held before."""
        fleet = a_fleet(A)
        fleet.release(book(fleet, a_request("ab"), 0.0), ANSWERED, 1.0)
        fleet.release_elsewhere(elsewhere(fleet, "abcd", now=1.0), keep=False, now=2.0)

        assert {A: 2} == hits(fleet, "abcd")

    def test_an_answer_takes_room_there_too(self) -> None:
        """100 tokens at 4 bytes are 6 blocks of 64 bytes; a prompt that is not cached leaves none."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.release_elsewhere(elsewhere(fleet, "abc"), keep=True, completion_tokens=100, now=1.0)

        assert 3 + 6 == index.held(A)

        fleet.release_elsewhere(elsewhere(fleet), keep=True, completion_tokens=100, now=1.0)

        assert 3 + 6 == index.held(A)

    def test_nothing_is_learnt_from_it(self) -> None:
        """Rates, warm-up, breaker and lengths of answers are as before."""
        fleet = a_fleet(A)
        before = rates_of(worker_of(fleet, A).load(0.0))
        for _ in range(20):
            booking = elsewhere(fleet, "abc")
            fleet.first_byte_elsewhere(booking, 50.0)
            fleet.release_elsewhere(booking, keep=True, completion_tokens=9, now=60.0)

        assert before == rates_of(worker_of(fleet, A).load(60.0))
        assert not fleet.has_learnt
        assert a_fleet(A).output_length.expected(None) == fleet.output_length.expected(None)

    def test_a_worker_that_is_not_there_has_none(self) -> None:
        """The other gateway may know one more."""
        fleet = a_fleet(A)

        assert (
            fleet.book_elsewhere(B, prompt("a"), (), uncached_tokens=1.0, output_tokens=1.0, streams=True, now=0.0)
            is None
        )

    def test_a_worker_that_is_down_here_has_load_all_the_same(self) -> None:
        """The other gateway sees it up, and the load is there when it is up here as well."""
        fleet = a_fleet(A)
        fleet.set_up(A, up=False)
        elsewhere(fleet)

        assert 1 == worker_of(fleet, A).in_flight

    def test_a_worker_that_left_forgets_it(self) -> None:
        """Its first byte and its end are nobody's, also where the worker has come back."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        one, other = elsewhere(fleet, "abc"), elsewhere(fleet, "abc")
        fleet.set_workers([B], 1.0)
        fleet.release_elsewhere(one, keep=True, now=2.0)
        fleet.set_workers([A, B], 3.0)
        fleet.first_byte_elsewhere(other, 4.0)
        fleet.release_elsewhere(other, keep=True, now=4.0)

        assert (0, 0) == (index.held(A), worker_of(fleet, A).in_flight)

    def test_its_exact_prompt_is_predicted_until_the_engine_tells(self) -> None:
        """And no more if it came to nothing."""
        fleet, confirmed = told_fleet(A, B)
        confirmed.apply(A, stored("z"), model=MODEL)
        request = an_exact_request("abc")
        booking = elsewhere(fleet, "abc", exact="abc")

        assert [3, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 1.0)]

        fleet.first_byte_elsewhere(booking, 4.0)

        assert [3, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 8.0)]

        fleet.release_elsewhere(booking, keep=True, now=8.5)

        assert [0, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 20.0)]

        fleet.release_elsewhere(elsewhere(fleet, "abc", exact="abc", now=20.0), keep=False, now=20.0)

        assert [0, 0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 20.0)]

    def test_under_another_key_nothing_is_known_of_prompts(self) -> None:
        """The room of workers is as before."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        fleet.set_capacity(A, blocks=2, block_size=16)
        book(fleet, a_request("abc"), 0.0, B)
        fleet.forget_prompts()
        book(fleet, a_request("abc"), 0.0, A)

        assert (2, 0) == (index.held(A), index.held(B))
        assert 1 == worker_of(fleet, B).in_flight


class TestWays:
    def test_what_a_worker_costs_more_is_said_of_its_candidates(self) -> None:
        """Of those that join later, too; of the others it is nothing, and it can change."""
        fleet = a_fleet(A, B)
        fleet.set_ways({B: 0.002, C: 0.003})
        fleet.set_workers([A, B, C], 1.0)

        assert [0.0, 0.002, 0.003] == [candidate.way_s for candidate in fleet.candidates(a_request("x"), 1.0)]

        fleet.set_ways({})

        assert [0.0] * 3 == [candidate.way_s for candidate in fleet.candidates(a_request("x"), 1.0)]

    def test_it_is_said_of_what_engines_tell_as_well(self) -> None:
        """Whatever a hit is known from."""
        fleet, confirmed = told_fleet(A, B)
        confirmed.apply(A, stored("abc"), model=MODEL)
        fleet.set_ways({A: 0.002})

        candidates = fleet.candidates(an_exact_request("abc"), 1.0)

        assert [("confirmed", 0.002), ("confirmed", 0.0)] == [(each.source, each.way_s) for each in candidates]
