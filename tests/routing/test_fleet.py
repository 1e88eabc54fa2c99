"""Literal facts, and random sequences of events compared with an oracle that only counts."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache_index import WorkerId
from routing.booking import Booking, Ending, Outcome
from routing.fleet import Fleet
from routing.request import Request
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
)
from tests.routing.fleet_examples import admitted, fail, hits, names, worker_of


class TestWorkers:
    def test_all_workers_are_candidates(self) -> None:
        """They are up until somebody says otherwise."""
        assert "abc" == names(a_fleet(A, B, C))

    def test_a_fleet_may_be_empty(self) -> None:
        """Discovery has found no worker yet."""
        assert "" == names(a_fleet())

    def test_a_worker_is_found_by_its_name(self) -> None:
        """A worker is found as long as it is there."""
        fleet = a_fleet(A, B)

        assert B == fleet.worker(B).id
        with pytest.raises(KeyError):
            fleet.worker(C)

    def test_workers_that_are_not_candidates_are_reported_with_the_reason(self) -> None:
        """b and c are down, and only one worker is asked for."""
        fleet = a_fleet(A, B, C)
        fleet.set_up(B, up=False)
        fleet.set_up(C, up=False)
        request = a_request("x")
        order = fleet.candidates(request, 0.0)

        assert (3, [(B, "down")]) == (fleet.size, fleet.left_out(request, order, 1))

    def test_each_call_sets_the_whole_set(self) -> None:
        """a leaves, b stays with its load, c joins, and one reported twice is one."""
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

    def test_generated_tokens_take_learned_times(self) -> None:
        """20 ms for a token of a lone stream, and 0.5 ms more for each other stream."""
        fleet = a_fleet(A)

        assert (0.02, 0.0005) == pytest.approx(fleet.decode_times(), rel=0.01)

    def test_a_worker_that_left_is_forgotten(self) -> None:
        """If it comes back, its cache counts as empty, its breaker is closed, and its load is zero."""
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
        fleet.bookings.first_byte(booking, 2.0)
        fleet.bookings.release(booking, outcome, 3.0)

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
        """The cache of the earlier process is gone, and its failures do not count."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        former = [book(fleet, a_request("abc"), 0.0) for _ in range(5)]
        fleet.set_workers([], 1.0)
        fleet.set_workers([A], 2.0)
        for booking in former:
            fleet.bookings.release(booking, outcome, 3.0)

        assert 0 == index.held(A)
        assert not worker_of(fleet, A).breaker.is_open

    def test_bookings_of_a_former_life_leave_a_returned_worker_alone(self) -> None:
        """The load of the returned worker is its own."""
        fleet = a_fleet(A)
        former = book(fleet, a_request("abc"), 0.0)
        fleet.set_workers([], 1.0)
        fleet.set_workers([A], 2.0)
        book(fleet, a_request("xyz"), 2.0)
        fleet.bookings.first_byte(former, 3.0)
        fleet.bookings.release(former, ABORTED, 3.0)

        assert 1 == worker_of(fleet, A).in_flight


class TestHealth:
    def test_a_worker_that_is_down_is_no_candidate(self) -> None:
        """This holds even for the only worker."""
        fleet = a_fleet(A, B)
        fleet.set_up(A, up=False)

        assert "b" == names(fleet)

        fleet.set_up(B, up=False)

        assert "" == names(fleet)

    def test_a_worker_that_comes_back_is_trusted_and_warmed_up(self) -> None:
        """Its breaker is closed, and it gets four requests at first."""
        fleet = a_fleet(A, B)
        for _ in range(40):
            fleet.bookings.release(book(fleet, a_request(), 0.0, A), ANSWERED, 0.0)
        fail(fleet, A, times=5)
        fleet.set_up(A, up=False)
        fleet.set_up(A, up=True)

        assert "ab" == names(fleet)
        assert [True] * 4 + [False] * 2 == [admitted(fleet, A) for _ in range(6)]

    def test_a_repeated_call_changes_nothing(self) -> None:
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
        fleet.engine_restarted(B)

        assert "a" == names(fleet)


class TestDraining:
    def test_a_worker_that_drains_is_no_candidate(self) -> None:
        """This holds even for the only worker. It is up all the time, and comes back as it was."""
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

        fleet.bookings.first_byte(booking, 1.0)
        fleet.bookings.release(booking, ANSWERED, 2.0)
        fleet.set_draining(A, draining=False)

        assert 0 == worker_of(fleet, A).in_flight
        assert {A: 3} == hits(fleet, "abc")

    def test_a_worker_that_is_drained_after_the_ranking_is_not_booked(self) -> None:
        """The next in the order gets the request."""
        fleet = a_fleet(A)
        (candidate,) = fleet.candidates(a_request(), 0.0)
        fleet.set_draining(A, draining=True)

        assert fleet.bookings.book(a_request(), candidate, 0.0) is None

    def test_draining_stays_when_health_and_sleep_change(self) -> None:
        """Draining and health are kept apart."""
        fleet = a_fleet(A)
        fleet.set_draining(A, draining=True)
        fleet.set_up(A, up=False)
        fleet.set_up(A, up=True)
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)
        fleet.engine_restarted(A)
        fleet.set_workers([A, B], 1.0)

        assert "b" == names(fleet)

    def test_a_worker_that_left_does_not_drain_when_it_comes_back(self) -> None:
        """It may be another engine, which has not reported its sleep yet."""
        fleet = a_fleet(A)
        fleet.set_draining(A, draining=True)
        fleet.set_workers([], 1.0)
        fleet.set_workers([A], 2.0)

        assert "a" == names(fleet)


class TestSleep:
    def test_a_worker_that_sleeps_is_no_candidate(self) -> None:
        """This holds even for the only worker, which is up all the time."""
        fleet = a_fleet(A, B)
        fleet.set_asleep(A, asleep=True)

        assert "b" == names(fleet)
        assert (True, False) == (worker_of(fleet, A).is_up, worker_of(fleet, A).is_ready)

        fleet.set_asleep(B, asleep=True)

        assert "" == names(fleet)

    def test_sleep_and_health_are_kept_apart(self) -> None:
        """A worker that is down and wakes is still down, and one that sleeps and comes up still sleeps."""
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
        """Its refusals during sleep opened its breaker, which is reset; it gets four requests at first."""
        fleet = a_fleet(A, B)
        for _ in range(40):
            fleet.bookings.release(book(fleet, a_request(), 0.0, A), ANSWERED, 0.0)
        fail(fleet, A, times=5)
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)

        assert "ab" == names(fleet)
        assert [True] * 4 + [False] * 2 == [admitted(fleet, A) for _ in range(6)]

    def test_a_repeated_call_changes_nothing(self) -> None:
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

        assert fleet.bookings.book(a_request("a"), candidate, 0.0) is None


class TestWarmUp:
    def test_a_fresh_worker_admits_four_requests(self) -> None:
        """The fifth candidate says so."""
        fleet = a_fleet(A)

        assert [True] * 4 + [False] == [admitted(fleet, A) for _ in range(5)]

    def test_answers_open_the_window(self) -> None:
        """Failures and refusals do not."""
        fleet = a_fleet(A)
        for outcome in (ANSWERED, FAILED, REFUSED, ABORTED, ANSWERED):
            fleet.bookings.release(book(fleet, a_request(), 0.0), outcome, 0.0)

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
        fleet.bookings.release(book(fleet, a_request(), 10.0, A), ANSWERED, 11.0)

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
            fleet.bookings.release(book(fleet, a_request(), 0.0, A), REFUSED, 0.0)

        assert "ab" == names(fleet)

    @pytest.mark.parametrize("outcome", [REFUSED, ABORTED])
    def test_refused_and_aborted_requests_count_neither_way(self, outcome: Outcome) -> None:
        """Between failures they do not break the row."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=4)
        fleet.bookings.release(book(fleet, a_request(), 0.0, A), outcome, 0.0)

        assert "ab" == names(fleet)

        fail(fleet, A, times=1)

        assert "b" == names(fleet)

    def test_an_answer_breaks_the_row(self) -> None:
        """Four failures, an answer, and four more are not five in a row."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=4)
        fleet.bookings.release(book(fleet, a_request(), 0.0, A), ANSWERED, 0.0)
        fail(fleet, A, times=4)

        assert "ab" == names(fleet)


class TestPinned:
    def test_only_its_worker_is_a_candidate(self) -> None:
        """The response that it continues is on no other worker."""
        assert [B] == [c.worker for c in a_fleet(A, B, C).candidates(a_request(pinned=B), 0.0)]

    def test_its_worker_is_one_whatever_its_breaker_says(self) -> None:
        """No other worker could answer."""
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
            booking = self.fleet.bookings.book(request, candidates[which % len(candidates)], self.now)
            assert booking is not None
            self.bookings.append(booking)
            self.in_flight[booking.worker].add(booking)

    @rule(which=st.integers(0, 100))
    def first_byte(self, which: int) -> None:
        if self.bookings:
            self.fleet.bookings.first_byte(self.bookings[which % len(self.bookings)], self.now)

    @rule(which=st.integers(0, 100), ending=st.sampled_from(Ending), tokens=st.none() | st.integers(0, 200))
    def release(self, which: int, ending: Ending, tokens: int | None) -> None:
        if self.bookings:
            booking = self.bookings[which % len(self.bookings)]
            self.fleet.bookings.release(booking, Outcome(ending, tokens, tokens, tokens), self.now)
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
        self.fleet.engine_restarted(worker)

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
            assert worker.speed.prefill_tokens_per_s > 0.0

    def teardown(self) -> None:
        for booking in self.bookings:
            self.fleet.bookings.release(booking, ABORTED, self.now)

        loads = [worker.load(self.now) for worker in self.fleet]
        assert all((0.0, 0) == (load.backlog_s, load.in_flight) for load in loads)


TestFleetAgainstCounts = FleetAgainstCounts.TestCase


TestFleetAgainstCounts.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


class TestExcluded:
    def test_each_worker_is_a_candidate_or_says_why_not(self) -> None:
        """It has the load and the hit that it would have as a candidate."""
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

    def test_an_open_breaker_excludes_no_one_where_all_are_open(self) -> None:
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

    def test_only_allowed_workers_are_candidates(self) -> None:
        """A proxy in front of the gateway may accept only some of the workers, also as a last resort."""
        fleet = a_fleet(A, B, C)
        request = a_request(allowed=frozenset({B, C}))

        assert [B, C] == [each.worker for each in fleet.candidates(request, 0.0)]
        assert [(A, "not among the allowed workers")] == reasons(fleet, request)
        for worker in (A, B):
            fail(fleet, worker, times=5)
        assert [C] == [each.worker for each in fleet.candidates(request, 0.0)]
        assert [B] == [each.worker for each in fleet.cut_off(request, 0.0)]


def reasons(fleet: Fleet, request: Request) -> list[tuple[WorkerId, str]]:
    return [(each.candidate.worker, each.why_not) for each in fleet.excluded(request, 0.0)]


def test_the_report_of_a_queue_counts_for_its_worker() -> None:
    """Other workers are not affected; reports about a worker that left are ignored."""
    fleet = a_fleet(A, B)
    book(fleet, a_request("abc"), 0.0, A)
    fleet.engine_queue_reported(A, 3.0, 0.0)
    fleet.engine_queue_reported(C, 3.0, 0.0)
    backlogs_s = {c.worker: c.load.backlog_s for c in fleet.candidates(a_request(), 0.0)}

    assert backlogs_s[A] > 0.0 == backlogs_s[B]


class TestProbes:
    def test_a_worker_that_fails_every_other_request_is_cut_off(self) -> None:
        """It never fails twice in a row."""
        fleet = a_fleet(A, B)
        for i in range(10):
            fleet.bookings.release(book(fleet, a_request(), 0.0, A), FAILED if i % 2 else ANSWERED, 0.0)

        assert "b" == names(fleet)

    def test_bad_requests_and_callers_that_leave_are_not_failures(self) -> None:
        """A hundred of each."""
        fleet = a_fleet(A, B)
        for _ in range(100):
            for outcome in (REFUSED, ABORTED):
                fleet.bookings.release(book(fleet, a_request(), 0.0, A), outcome, 0.0)

        assert "ab" == names(fleet)

    @pytest.mark.parametrize("outcome", [REFUSED, ABORTED])
    def test_a_probe_that_shows_nothing_is_followed_by_another(self, outcome: Outcome) -> None:
        """No other request goes there meanwhile."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        probe = book(fleet, a_request(), 10.0, A)
        assert "b" == names(fleet, 10.0)
        fleet.bookings.release(probe, outcome, 11.0)

        assert "ab" == names(fleet, 11.0)

    def test_a_probe_that_is_answered_opens_the_worker_to_all(self) -> None:
        """One that fails keeps it away for twice as long."""
        fleet = a_fleet(A, B)
        fail(fleet, A, times=5)
        fleet.bookings.release(book(fleet, a_request(), 10.0, A), FAILED, 10.0)
        assert "b" == names(fleet, 29.0)
        fleet.bookings.release(book(fleet, a_request(), 30.0, A), ANSWERED, 30.5)

        assert "ab" == names(fleet, 30.5)


class TestPools:
    def near(self, fleet: Fleet, request: Request, now: float = 0.0) -> tuple[str, str]:
        reach = fleet.reach(request, fleet.candidates(request, now))
        return "".join(each.worker for each in reach.near), "".join(each.worker for each in reach.far)

    def test_workers_are_of_one_pool_until_somebody_says_otherwise(self) -> None:
        """There are no reserves."""
        fleet = a_fleet(A, B)
        assert not fleet.members.has_pools
        assert ("ab", "") == self.near(fleet, a_request())

    def test_the_first_pool_comes_first(self) -> None:
        """Workers that are not named are in the first pool; so are workers that join later."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1, C: 1})
        assert ("a", "b") == self.near(fleet, a_request())
        fleet.set_workers([A, B, C], 1.0)

        assert [0, 1, 1] == [worker.tier for worker in fleet]
        assert ("a", "bc") == self.near(fleet, a_request())

    def test_where_all_are_of_one_tier_there_are_no_pools(self) -> None:
        """Whatever its number, and when the others have left."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
        before = fleet.members.has_pools
        fleet.set_workers([B], 1.0)

        assert (True, False) == (before, fleet.members.has_pools)
        assert ("b", "") == self.near(fleet, a_request())

    def test_the_next_pool_stands_in_for_one_that_cannot_be_used(self) -> None:
        """Its workers are down, or behind their breakers."""
        fleet = a_fleet(A, B, C)
        fleet.members.set_tiers({C: 1})
        fleet.set_up(A, up=False)
        assert ("b", "c") == self.near(fleet, a_request())
        fail(fleet, B, times=5)

        assert ("c", "") == self.near(fleet, a_request())

    def test_the_next_pool_joins_a_busy_one(self) -> None:
        """Five seconds of prefill are enough, as it is set here, with every worker."""
        fleet = a_fleet(A, B, C)
        fleet.members.set_tiers({C: 1})
        book(fleet, a_request("x" * 400), 0.0, A)
        assert ("ab", "c") == self.near(fleet, a_request())
        book(fleet, a_request("y" * 400), 0.0, B)

        assert ("abc", "") == self.near(fleet, a_request())
        assert ("ab", "c") == self.near(fleet, a_request(), 4.0)

    def test_who_may_go_elsewhere_says_how_long_it_waits(self) -> None:
        """Two seconds to the first token, of which its own prefill takes 1.16; the workers have more to do."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
        book(fleet, a_request("x" * 60), 0.0, A)

        assert ("a", "b") == self.near(fleet, a_request("z" * 72))
        assert ("ab", "") == self.near(fleet, a_request("z" * 72).changed(spill_in_s=2.0))
        assert ("a", "b") == self.near(fleet, a_request("z").changed(spill_in_s=2.0))

    def test_a_pinned_request_has_its_worker_in_any_pool(self) -> None:
        """It has no choice."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})

        assert ("b", "") == self.near(fleet, a_request(pinned=B))

    def test_an_empty_fleet_has_no_pools(self) -> None:
        """All are down."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
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
            fleet.bookings.release(booking, Outcome(Ending.FAILED), 0.0)

    assert [C, B] == [candidate.worker for candidate in fleet.cut_off(a_request("q"), 0.0)]
    assert [B] == [candidate.worker for candidate in fleet.cut_off(a_request("q", pinned=B), 0.0)]
    assert [] == fleet.cut_off(a_request("q", pinned=A), 0.0)
