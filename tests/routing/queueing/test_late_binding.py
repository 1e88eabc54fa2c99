"""Prompts have 16 tokens to the letter, at 1 ms per token."""

from collections.abc import Callable

import pytest

from cache_index import RadixTree, WorkerId
from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.fifo import FifoEngine
from engine_model.timing import Timing
from routing.booking import Booking
from routing.dispatcher import Dispatch, Dispatcher, Immediate, Refusal
from routing.fleet import Fleet
from routing.queueing.fair_queue import Fairness
from routing.queueing.late_binding import LateBinding
from routing.queueing.release_policy import ReleasePolicy
from routing.rendezvous import Rendezvous
from routing.request import BATCH, NORMAL, Request
from routing.strategies import NAMES, STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.routing.examples import ABORTED, ANSWERED, FAILED, A, B, C, a_fleet, a_request, book, prompt, seeded
from tests.routing.sharing import Ask, Sharing

LONG = "x" * 500
"""9.2 s of prefill."""


def late(fleet: Fleet, **policy: float) -> LateBinding:
    strategies = StrategiesByName("kv_aware", lambda name: STRATEGIES[name](seeded()))
    return LateBinding(fleet, strategies, seeded(), ReleasePolicy(**policy))  # type: ignore[arg-type]


def warm(fleet: Fleet, worker: WorkerId, letters: str) -> None:
    """*worker* holds a prompt."""
    fleet.bookings.release(book(fleet, a_request(letters), 0.0, worker), ANSWERED, 0.0)


def held(fleet: Fleet, worker: WorkerId, now: float = 0.0) -> Booking:
    """*worker* computes a long prompt that shares nothing with others."""
    return book(fleet, a_request(f"{worker}{LONG}"), now, worker)


def sent(dispatches: list[Dispatch]) -> list[tuple[str, str]]:
    """Requests, named by session, with the worker that each was sent to."""
    return [(each.request.session or "", each.booking.worker if each.booking else "-") for each in dispatches]


def asked(letters: str, name: str, **more: object) -> Request:
    return a_request(letters, session=name).changed(**more)


class TestHolding:
    def test_an_idle_worker_is_sent_a_request_at_once(self) -> None:
        """No request waits while a worker is free."""
        dispatcher = late(a_fleet(A))
        dispatcher.submit(asked("abc", "one"), 0.0)

        assert [("one", "a")] == sent(dispatcher.poll(0.0))
        assert (0, 0.0) == (dispatcher.waiting, dispatcher.oldest_wait_s(1.0))

    def test_a_busy_fleet_holds_requests(self) -> None:
        """Until the first token of what is computed, or the time at which it should have come."""
        fleet = a_fleet(A)
        running = held(fleet, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 1.0)

        assert [] == dispatcher.poll(1.0)
        assert (1, 2.0) == (dispatcher.waiting, dispatcher.oldest_wait_s(3.0))
        fleet.bookings.first_byte(running, 3.0)
        assert [("one", "a")] == sent(dispatcher.poll(3.0))

    def test_lines_of_batches_are_no_others_that_wait(self) -> None:
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "line", priority=BATCH), 1.0)
        alone = dispatcher.others_wait
        dispatcher.submit(asked("abc", "one"), 1.0)

        assert (False, True) == (alone, dispatcher.others_wait)

    def test_it_is_sent_when_the_worker_is_about_to_be_free(self) -> None:
        """50 ms before the end of its prefill, so that the worker never idles; nothing else has to happen."""
        fleet = a_fleet(A)
        work_s = held(fleet, A).work_s
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 1.0)
        assert [] == dispatcher.poll(1.0)
        at = dispatcher.next_poll_at(1.0)

        assert at == pytest.approx(work_s - 0.05)
        assert at is not None
        assert [] == dispatcher.poll(at - 0.01)
        assert [("one", "a")] == sent(dispatcher.poll(at))
        assert dispatcher.next_poll_at(at) is None

    def test_the_queue_is_looked_at_again_while_nothing_is_known_to_change(self) -> None:
        """Two prompts are there: the first token of the first shows more than the clock."""
        fleet = a_fleet(A)
        held(fleet, A)
        book(fleet, a_request("z" * 500), 0.0, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 1.0)
        dispatcher.poll(1.0)

        assert 1.5 == dispatcher.next_poll_at(1.0)

    def test_a_cancelled_request_is_not_sent(self) -> None:
        """Its caller went away; the other one is sent."""
        fleet = a_fleet(A)
        running = held(fleet, A)
        dispatcher = late(fleet)
        one, other = asked("abc", "one"), asked("abc", "other")
        for request in (one, other):
            dispatcher.submit(request, 1.0)
        dispatcher.cancel(one)
        fleet.bookings.first_byte(running, 2.0)

        assert [("other", "a")] == sent(dispatcher.poll(2.0))

    def test_requests_of_other_strategies_are_sent_at_once(self) -> None:
        """A request that only one worker can answer is sent at once as well."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "turn", strategy="round_robin"), 1.0)
        dispatcher.submit(asked("abc", "pinned", pinned=A), 1.0)

        assert [("turn", "a"), ("pinned", "a")] == sent(dispatcher.poll(1.0))

    def test_with_too_many_waiting_more_are_sent_at_once(self) -> None:
        """Nothing is lost, and memory is bounded."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet, max_waiting=2)
        for name in ("one", "two", "three"):
            dispatcher.submit(asked("abc", name), 1.0)

        assert [("three", "a")] == sent(dispatcher.poll(1.0))
        assert 2 == dispatcher.waiting

    def test_without_any_worker_no_one_is_waited_for(self) -> None:
        """They are handed on at once: somebody else may answer."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 1.0)
        dispatcher.poll(1.0)
        fleet.set_up(A, up=False)

        assert [("one", "-")] == sent(dispatcher.poll(1.0))
        assert 0 == dispatcher.waiting

    def test_waiting_requests_can_be_handed_over(self) -> None:
        """Each has the time of its arrival, the longest wait first."""
        fleet = a_fleet(A)
        held(fleet, A)
        one, other = late(fleet), late(fleet)
        for i, name in enumerate(("first", "second")):
            one.submit(asked("abc", name), float(i))
        for request, since in one.hand_over():
            other.submit(request, since)

        assert (0, 2) == (one.waiting, other.waiting)
        assert 9.0 == other.oldest_wait_s(9.0)


class TestOrder:
    def queued(self, *requests: tuple[Request, float], now: float = 10.0, **policy: float) -> list[str]:
        """Order in which a worker that becomes free at *now* gets *requests*, each with its arrival time."""
        fleet = a_fleet(A)
        warm(fleet, A, "w" * 100)
        running: list[Booking | None] = [held(fleet, A)]
        dispatcher = late(fleet, **policy)
        for request, since in requests:
            dispatcher.submit(request, since)
        order: list[str] = []
        while dispatcher.waiting:
            for booking in running:
                assert booking is not None
                fleet.bookings.release(booking, ABORTED, now)
            dispatches = dispatcher.poll(now)
            running = [dispatch.booking for dispatch in dispatches]
            order += [name for name, _ in sent(dispatches)]
        return order

    def test_what_is_short_goes_first(self) -> None:
        """This holds even if it came later."""
        assert ["short", "long"] == self.queued((asked("l" * 90, "long"), 9.0), (asked("s" * 30, "short"), 9.5))

    def test_what_is_warm_goes_before_what_is_cold(self) -> None:
        """It is the work that is left that counts."""
        assert ["warm", "cold"] == self.queued((asked("c" * 100, "cold"), 9.0), (asked("w" * 100, "warm"), 9.5))

    def test_what_has_waited_long_moves_up(self) -> None:
        """Twice the work, three times the wait and head start together."""
        long, short = asked("l" * 60, "long"), asked("s" * 30, "short")

        assert ["short", "long"] == self.queued((long, 90.0), (short, 100.0), now=100.0)
        assert ["long", "short"] == self.queued((long, 30.0), (short, 100.0), now=100.0)

    def test_who_has_waited_too_long_goes_first(self) -> None:
        """Whatever it costs; among several the one that came first."""
        huge, large, short = asked("h" * 400, "huge"), asked("l" * 300, "large"), asked("s", "short")

        assert ["huge", "large", "short"] == self.queued(
            (huge, 0.0), (large, 10.0), (short, 129.0), now=130.0, max_wait_s=120.0
        )

    def test_who_goes_on_with_a_session_does_not_go_first_for_having_waited(self) -> None:
        """There may be many, all cold: they would take the place of all that is warm."""
        begun, large, short = asked("l", "large"), asked("l" * 300, "large"), asked("s", "short")

        assert ["large", "short", "large"] == self.queued(
            (begun, 0.0), (large, 10.0), (short, 129.0), now=130.0, max_wait_s=120.0
        )

    def test_who_would_be_late_goes_first(self) -> None:
        """The caller wants its first token in six seconds, of which four are over and two are work."""
        wanted = asked("l" * 126, "wanted", wanted_in_s=6.0)
        short = asked("s", "short")

        assert ["wanted", "short"] == self.queued((wanted, 6.0), (short, 6.0))
        assert ["short", "wanted"] == self.queued((wanted.changed(wanted_in_s=60.0), 6.0), (short, 6.0))


class TestHome:
    def test_a_warm_prompt_waits_for_the_worker_that_holds_it(self) -> None:
        """a is free in 0.2 s; computing the prompt on b, which idles, would take 1.8 s."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 100)
        book(fleet, a_request("y" * 10), 0.0, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("w" * 100, "warm"), 0.0)
        assert [] == dispatcher.poll(0.0)
        at = dispatcher.next_poll_at(0.0)

        assert at is not None
        assert [("warm", "a")] == sent(dispatcher.poll(at))

    def test_it_does_not_wait_for_longer_than_computing_it_again_is_worth(self) -> None:
        """a is busy for 9 s: more than three times 1.8."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 100)
        held(fleet, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("w" * 100, "warm"), 0.0)

        assert [("warm", "b")] == sent(dispatcher.poll(0.0))

    def test_a_hot_prefix_spreads_when_its_queue_costs_more_than_a_second_copy(self) -> None:
        """Eight requests share 40 blocks that a holds, and have 40 of their own; b idles."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "h" * 40)
        dispatcher = late(fleet)
        for i in range(8):
            dispatcher.submit(asked("h" * 40 + str(i) * 40, str(i)), 0.0)

        assert {"a", "b"} == {worker for _, worker in sent(dispatcher.poll(0.0))}

    def test_what_is_cold_goes_to_any_worker_that_is_free(self) -> None:
        """Equal workers are taken by chance, each once."""
        dispatcher = late(a_fleet(A, B, C))
        for name in "xyz":
            dispatcher.submit(asked(name * 40, name), 0.0)

        assert {"a", "b", "c"} == {worker for _, worker in sent(dispatcher.poll(0.0))}

    def test_it_is_looked_up_again_before_it_is_sent(self) -> None:
        """Its worker has lost the prompt meanwhile, and the other one, which is free, does as well."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 100)
        book(fleet, a_request("y" * 10), 0.0, A)
        dispatcher = late(fleet, fresh_s=1000.0)
        dispatcher.submit(asked("w" * 100, "warm"), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.engine_restarted(A)
        running = held(fleet, B)
        at = dispatcher.next_poll_at(0.1)
        assert at is not None
        fleet.bookings.release(running, ABORTED, at)

        assert [("warm", "b")] == sent(dispatcher.poll(at))

    def test_an_order_has_all_candidates(self) -> None:
        """The home first, the others as the strategy ranks them."""
        fleet = a_fleet(A, B, C)
        warm(fleet, B, "w" * 100)
        dispatcher = late(fleet)
        dispatcher.submit(asked("w" * 100, "warm"), 0.0)
        (dispatch,) = dispatcher.poll(0.0)

        assert ("b", ["a", "b", "c"]) == (dispatch.order[0].worker, sorted(c.worker for c in dispatch.order))
        assert ("hit", "kv_aware") == (dispatch.reason, dispatch.strategy)

    def test_workers_come_and_go_while_requests_wait(self) -> None:
        """One that is warmed up has its share only; one whose breaker is open gets nothing."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet)
        for name in ("one", "two", "three"):
            dispatcher.submit(asked(name[:2] * 200, name), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.set_workers([A, B], 1.0)
        first = sent(dispatcher.poll(1.0))
        fleet.set_workers([B, C], 2.0)
        second = sent(dispatcher.poll(2.0))

        assert [["b"], ["c"]] == [[worker for _, worker in each] for each in (first, second)]

    def test_a_worker_behind_its_breaker_is_nobodys_home(self) -> None:
        """The others are waited for."""
        fleet = a_fleet(A, B)
        for _ in range(5):
            fleet.bookings.release(book(fleet, a_request("f"), 0.0, A), FAILED, 0.0)
        held(fleet, B)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 0.5)

        assert [] == dispatcher.poll(0.5)

    def test_only_some_are_looked_up_again_at_one_look(self) -> None:
        """The others keep what was found; their turn comes."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet, max_lookups=1, fresh_s=0.0)
        for i in range(5):
            dispatcher.submit(asked(str(i) * 40, str(i)), 0.0)
        dispatcher.poll(0.0)
        fleet.set_workers([A, B], 1.0)

        assert 1 == len(dispatcher.poll(1.0))

    def test_it_explains_as_if_it_were_sent_now(self) -> None:
        """No one is held or booked by that."""
        fleet = a_fleet(A, B)
        warm(fleet, B, "w" * 100)
        dispatcher = late(fleet)
        explanation = dispatcher.explain(asked("w" * 100, "warm"), 0.0)

        assert "b" == explanation.places[0].candidate.worker
        assert 0 == dispatcher.waiting


FAIRNESS = Fairness()


def shared(fleet: Fleet, strategy: str = "prefix_aware", fairness: Fairness = FAIRNESS, **policy: float) -> LateBinding:
    """The dispatcher of a fleet that teams share."""
    strategies = StrategiesByName(strategy, lambda name: STRATEGIES[name](seeded()))
    return LateBinding(fleet, strategies, seeded(), ReleasePolicy(**policy), fairness)  # type: ignore[arg-type]


def of(team: str, name: str, letters: str = "abc", **more: object) -> Request:
    return asked(letters, name, team=team, **more)


class TestTeams:
    @pytest.mark.parametrize("strategy", NAMES)
    def test_a_fleet_that_has_room_keeps_no_one(self, strategy: str) -> None:
        """Whatever the strategy, it is sent at once, and one after the other."""
        dispatcher = shared(a_fleet(A, B, C), strategy)
        for name in "xyz" if strategy != "session" else "x":
            dispatcher.submit(of(name, name, name * 40), 0.0)

            assert 1 == len(dispatcher.poll(0.0))

    @pytest.mark.parametrize("strategy", NAMES)
    def test_a_saturated_fleet_serves_the_team_next_that_had_least(self, strategy: str) -> None:
        """Red came last, and goes first."""
        fleet = a_fleet(A)
        running = held(fleet, A)
        dispatcher = shared(fleet, strategy)
        for name in ("one", "two", "three"):
            dispatcher.submit(of("blue", name, name * 40), 1.0)
        dispatcher.submit(of("red", "other", "r" * 40), 2.0)
        assert [] == dispatcher.poll(2.0)
        dispatcher._queue.served("blue", NORMAL, 1.0, 1.0, 2.0)
        assert {"blue": 3, "red": 1} == dispatcher.waiting_by_team
        fleet.bookings.first_byte(running, 3.0)

        assert [("other", "a")] == sent(dispatcher.poll(3.0))

    @pytest.mark.parametrize("strategy", ["round_robin", "least_loaded"])
    def test_any_worker_will_do_that_is_free(self, strategy: str) -> None:
        """The first choice is not: a and b compute, and it would be a's turn."""
        fleet = a_fleet(A, B, C)
        for worker in (A, B):
            held(fleet, worker)
        dispatcher = shared(fleet, strategy)
        dispatcher.submit(of("blue", "one"), 0.0)
        explained = dispatcher.explain(of("blue", "one"), 0.0).places[0].candidate.worker
        (dispatch,) = dispatcher.poll(0.0)

        assert ("c", "c") == (dispatch.order[0].worker, explained)
        assert ["a", "b", "c"] == sorted(candidate.worker for candidate in dispatch.order)

    @pytest.mark.parametrize("strategy", ["round_robin", "least_loaded"])
    def test_of_those_who_wait_the_next_goes_to_the_first_that_is_free(self, strategy: str) -> None:
        """The order of the teams does not matter."""
        fleet = a_fleet(A, B)
        held(fleet, A)
        running = held(fleet, B)
        dispatcher = shared(fleet, strategy)
        dispatcher.submit(of("blue", "one"), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.bookings.first_byte(running, 1.0)

        assert [("one", "b")] == sent(dispatcher.poll(1.0))

    def test_a_session_waits_for_its_worker(self) -> None:
        """Others go before it to the worker that is free."""
        fleet = a_fleet(A, B)
        home = shared(fleet, "session").explain(of("blue", "bob"), 0.0).places[0].candidate.worker
        running = {worker: held(fleet, worker) for worker in (A, B)}
        dispatcher = shared(fleet, "session")
        dispatcher.submit(of("blue", "bob"), 0.0)
        dispatcher.submit(of("blue", "").changed(session=None), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.bookings.first_byte(running.pop(B if home == A else A), 1.0)
        first = sent(dispatcher.poll(1.0))
        fleet.bookings.first_byte(running[home], 2.0)

        assert [("", B if home == A else A)] == first
        assert [("bob", home)] == sent(dispatcher.poll(2.0))

    def test_a_warm_prompt_of_prefix_aware_waits_for_the_worker_that_holds_it(self) -> None:
        """a is free in 0.4 s; computing the prompt on b, which idles, would take 1.8 s."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 100)
        book(fleet, a_request("y" * 20), 0.0, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "warm", "w" * 100), 0.0)
        assert [] == dispatcher.poll(0.0)
        at = dispatcher.next_poll_at(0.0)

        assert at is not None
        assert [("warm", "a")] == sent(dispatcher.poll(at))

    def test_the_queue_is_looked_at_twice_a_second_at_least(self) -> None:
        """Callers may give up meanwhile."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one"), 1.0)
        dispatcher.poll(1.0)

        assert 1.5 == dispatcher.next_poll_at(1.0)

    def test_a_pinned_request_waits_for_its_worker(self) -> None:
        """A flood of them would fill its queue like any other. If the worker goes, no one can answer."""
        fleet = a_fleet(A, B)
        running = held(fleet, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one", "s" * 40, pinned=A), 0.0)
        dispatcher.submit(of("blue", "two", "t" * 40, pinned=A), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.bookings.first_byte(running, 1.0)
        (first,) = sent(dispatcher.poll(1.0))
        fleet.set_up(A, up=False)

        assert "a" == first[1]
        assert ["-"] == [worker for _, worker in sent(dispatcher.poll(2.0))]
        dispatcher.submit(of("blue", "three", pinned=A), 3.0)
        assert [("three", "-")] == sent(dispatcher.poll(3.0))
        assert 0 == dispatcher.waiting

    def test_without_any_worker_no_one_is_held(self) -> None:
        """Somebody else may answer."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one"), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.set_up(A, up=False)

        assert [("one", "-")] == sent(dispatcher.poll(1.0))

    def test_a_worker_that_goes_as_it_is_chosen_costs_no_one_anything(self) -> None:
        """Nothing is booked, and nothing charged."""
        fleet = a_fleet(A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one"), 0.0)
        candidates = fleet.candidates(a_request("abc"), 0.0)
        fleet.set_up(A, up=False)
        dispatch = dispatcher._book(of("blue", "one"), candidates, 0.0, level=NORMAL)

        assert dispatch.booking is None
        assert {} == dispatcher._queue._classes[NORMAL].accounts._accounts

    def test_who_comes_before_it_was_looked_at_can_leave_again(self) -> None:
        """It is neither sent nor held."""
        dispatcher = shared(a_fleet(A))
        one = of("blue", "one")
        dispatcher.submit(one, 0.0)
        dispatcher.cancel(one)

        assert [] == dispatcher.poll(0.0)

    def test_a_team_with_too_many_waiting_is_refused(self) -> None:
        """Others are not."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = shared(fleet, fairness=Fairness(max_waiting_per_team=1))
        for team, name in (("blue", "one"), ("blue", "two"), ("red", "three")):
            dispatcher.submit(of(team, name), 0.0)
        assert [] == dispatcher.poll(0.0)
        (refusal,) = dispatcher.refused()

        assert ("two", "queue full") == (refusal.request.session, refusal.why)
        assert {"blue": 1, "red": 1} == dispatcher.waiting_by_team
        assert [] == dispatcher.refused()

    def test_whose_caller_gives_up_is_refused(self) -> None:
        """Its caller would not get the answer."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one", deadline_s=4.0), 0.0)
        dispatcher.poll(0.0)
        assert [] == dispatcher.refused()
        dispatcher.poll(4.0)
        (refusal,) = dispatcher.refused()

        assert ("one", "too late", 4.0) == (refusal.request.session, refusal.why, refusal.wait_s)
        assert 0 == dispatcher.waiting

    def test_prefills_that_no_one_sees_end_are_not_waited_for(self) -> None:
        """Answers that do not stream: the engine says that it has no queue, whatever is believed of its speed."""
        fleet = a_fleet(A)
        for _ in range(4):
            book(fleet, a_request("y" * 40, streams=False), 0.0, A)
        dispatcher = shared(fleet)
        for _ in range(8):
            dispatcher.submit(of("blue", "one", streams=False), 0.0)
        assert 8 == len(dispatcher.poll(0.0))
        fleet.engine_queue_reported(A, 0.0, 0.0)
        dispatcher.submit(of("blue", "one", streams=False), 0.0)

        assert 1 == len(dispatcher.poll(0.0))

    def test_an_engine_with_a_queue_is_sent_nothing(self) -> None:
        """The first token should have come long ago; by the clock nothing is left to do."""
        fleet = a_fleet(A)
        running = book(fleet, a_request("y" * 10), 0.0, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one"), 5.0)
        assert [] == dispatcher.poll(5.0)
        fleet.bookings.first_byte(running, 6.0)

        assert [("one", "a")] == sent(dispatcher.poll(6.0))


PREFILL_S = 0.42
"""One of the flood's, of 4,096 tokens, on a worker that does nothing else."""


class TestFlood:
    """200 clients of one team ask without end; another asks twice a second. Engines as in the simulator."""

    def ttfts_s(self, strategy: str, *, floods: bool = True, chunked: bool = False, fair: bool = True) -> list[float]:
        def make(fleet: Fleet) -> Dispatcher:
            strategies = StrategiesByName(strategy, lambda name: STRATEGIES[name](seeded()))
            return shared(fleet, strategy) if fair else Immediate(fleet, strategies)

        sharing = Sharing(make, engine=ChunkedEngine if chunked else FifoEngine)
        if floods:
            sharing.flood(200, Ask("flood"))
        sharing.at([2.0 + 0.5 * i for i in range(24)], Ask("sparse", 1024))
        sharing.run(17.0 if fair else 34.0)
        return sharing.ttfts_s("sparse")

    @pytest.mark.parametrize("strategy", NAMES)
    def test_the_sparse_team_waits_for_no_more_than_the_prefill_that_runs(self, strategy: str) -> None:
        """Every one of its requests: as long as alone, and one prefill."""
        alone, beside = self.ttfts_s(strategy, floods=False), self.ttfts_s(strategy)

        assert 24 == len(beside)
        assert beside[-1] <= alone[-1] + PREFILL_S

    def test_engines_that_compute_in_steps_are_shared_as_well(self) -> None:
        """A step may have a part of two prefills: 100 ms more."""
        alone, beside = (self.ttfts_s("prefix_aware", floods=floods, chunked=True) for floods in (False, True))

        assert 24 == len(beside)
        assert beside[-1] <= alone[-1] + PREFILL_S + 0.1

    def test_in_order_of_arrival_it_would_wait_for_the_whole_flood(self) -> None:
        """Requests that are sent at once wait in the engines' queues."""
        assert self.ttfts_s("prefix_aware", fair=False)[0] > 4.0 * self.ttfts_s("prefix_aware")[-1]

    def test_the_flood_gets_all_that_is_left(self) -> None:
        """No worker idles for fairness: within 5 %, as much is computed as when all is sent at once."""
        done = []
        for fair in (True, False):
            sharing = Sharing(lambda fleet, fair=fair: shared(fleet) if fair else late(fleet))  # type: ignore[misc]
            sharing.flood(100, Ask("flood"))
            sharing.run(20.0)
            done.append(sharing.work("flood"))

        assert done[0] >= 0.95 * done[1]

    def test_floods_share_by_weight(self) -> None:
        """Two to one, though the one that weighs less has ten times as many clients."""
        sharing = Sharing(shared)
        sharing.flood(20, Ask("blue", weight=2.0))
        sharing.flood(200, Ask("red"))
        sharing.run(30.0)

        assert 2.0 == pytest.approx(sharing.work("blue") / sharing.work("red"), rel=0.1)

    def test_engines_that_cannot_run_more_keep_no_queue(self) -> None:
        """Eight run at a time, and answers are long: one or two wait in an engine, all others here."""
        sharing = Sharing(
            shared, engine=lambda pool: ChunkedEngine(pool, max_num_seqs=8, max_num_batched_tokens=2048), reports=False
        )
        sharing.flood(60, Ask("flood", 512, 200))
        sharing.at([20.0 + i for i in range(10)], Ask("sparse", 512))
        sharing.run(40.0)

        assert 3 >= sharing.most_queued
        assert 10 == len(sharing.ttfts_s("sparse"))
        assert 6.0 >= sharing.ttfts_s("sparse")[-1]

    def test_who_is_refused_would_have_been_late(self) -> None:
        """Requests that are served are in time: callers wait for 10 s, and there is room for a third of the flood."""
        sharing = Sharing(shared)
        sharing.at([0.05 * i for i in range(600)], Ask("blue", deadline_s=10.0))
        sharing.run(60.0)
        late = [refusal for refusal in sharing.refused if refusal.wait_s >= 10.0]

        assert 300 >= len(sharing.answered["blue"]) >= 180
        assert 600 == len(sharing.answered["blue"]) + len(sharing.refused)
        assert 10.1 + PREFILL_S >= sharing.ttfts_s("blue")[-1]
        assert all(10.0 >= refusal.retry_after_s >= 1.0 for refusal in sharing.refused)
        assert len(sharing.refused) // 5 >= len(late)

    def test_a_wait_for_what_was_sent_before_makes_no_one_late(self) -> None:
        """A small request waits 6 s for a long one that was sent at once. Then a burst is served in time, each within
        5 s: 45 requests of 52 ms, on one worker."""
        sharing = Sharing(shared, workers=1)
        sharing.at([0.0], Ask("blue", 60_000))
        sharing.at([0.1], Ask("blue", 16))
        sharing.at([10.0] * 45, Ask("blue", 512, 1, deadline_s=5.0))
        sharing.run(30.0)

        assert [] == sharing.refused
        assert 47 == len(sharing.answered["blue"])
        assert 5.0 >= max(each.ttft_s for each in sharing.answered["blue"] if each.since == 10.0)

    def test_the_time_of_room_follows_the_measured_speed(self) -> None:
        """After the same beginning: the burst takes 2.75 s, and who is refused may come back after one."""
        sharing = Sharing(lambda fleet: shared(fleet, fairness=Fairness(max_waiting_per_team=44)), workers=1)
        sharing.at([0.0], Ask("blue", 60_000))
        sharing.at([0.1], Ask("blue", 16))
        sharing.at([10.0] * 46, Ask("blue", 512, 1))
        sharing.run(30.0)
        (refusal,) = sharing.refused
        burst_s = max(each.ttft_s for each in sharing.answered["blue"] if each.since == 10.0)

        assert ("queue full", 1.0) == (refusal.why, refusal.retry_after_s)
        assert 2.75 == pytest.approx(refusal.wait_s, rel=0.15)
        assert 2.75 == pytest.approx(burst_s, rel=0.1)


class TestOwed:
    """A request that is next in any case is sent 250 ms before its worker is free, others 50 ms."""

    def test_who_is_owed_its_turn_is_sent_earlier(self) -> None:
        """Red has had nothing; blue, which has, waits on."""
        fleet = a_fleet(A)
        work_s = held(fleet, A).work_s
        dispatcher = shared(fleet)
        dispatcher._queue.served("blue", NORMAL, 1.0, 1.0, 0.0)
        for team in ("blue", "red"):
            dispatcher.submit(of(team, team, team * 10), 0.0)
        assert [] == dispatcher.poll(work_s - 0.26)
        at = dispatcher.next_poll_at(work_s - 0.26)

        assert at == pytest.approx(work_s - 0.25)
        assert at is not None
        assert [("red", "a")] == sent(dispatcher.poll(at))
        assert [] == dispatcher.poll(work_s - 0.1)

    def test_no_more_than_one_is_sent_to_be_the_next(self) -> None:
        """Red and green are both owed theirs; the worker that is free first takes one, the other one the other."""
        fleet = a_fleet(A, B)
        work_s = held(fleet, A).work_s
        book(fleet, a_request(f"b{LONG}z"), 0.0, B)
        dispatcher = shared(fleet)
        for team in ("red", "green", "gray"):
            dispatcher.submit(of(team, team, team * 10), 0.0)
        released = sent(dispatcher.poll(work_s - 0.2))

        assert [["red", "green"], ["a", "b"]] == [[each[0] for each in released], sorted(each[1] for each in released)]
        assert {"gray": 1} == dispatcher.waiting_by_team

    def test_who_is_owed_its_turn_waits_for_its_home(self) -> None:
        """b holds its prompt and is free in half a second; a is in a fifth."""
        fleet = a_fleet(A, B)
        warm(fleet, B, "w" * 100)
        book(fleet, a_request("y" * 10), 0.0, A)
        book(fleet, a_request("z" * 26), 0.0, B)
        dispatcher = shared(fleet)
        dispatcher.submit(of("red", "red", "w" * 100), 0.0)
        assert [] == dispatcher.poll(0.0)

        assert [("red", "b")] == sent(dispatcher.poll(0.3))

    def test_a_worker_that_went_is_nobodys_next(self) -> None:
        """The pinned request that it kept has no other worker, and is released without one."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            held(fleet, worker)
        dispatcher = shared(fleet)
        dispatcher.submit(of("red", "red", pinned=A), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.set_workers([B, C], 9.0)
        (dispatch,) = dispatcher.poll(9.0)

        assert dispatch.booking is None

    def test_one_whose_only_worker_went_is_not_sent_to_the_next_that_is_free(self) -> None:
        """The other worker is free in 200 ms. The request is released without a worker then."""
        fleet = a_fleet(A, B)
        work_s = held(fleet, A).work_s
        held(fleet, B)
        dispatcher = shared(fleet)
        dispatcher.submit(of("red", "red", pinned=A), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.set_workers([B], work_s - 0.2)

        assert [] == list(dispatcher.poll(work_s - 0.2))
        assert [None] == [dispatch.booking for dispatch in dispatcher.poll(work_s)]

    def test_one_whose_only_worker_fell_asleep_is_not_sent_elsewhere(self) -> None:
        """No worker is free, so no request was looked up, and b would be next."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            held(fleet, worker)
        dispatcher = shared(fleet)
        dispatcher.submit(of("red", "red", pinned=A), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.set_asleep(A, asleep=True)

        assert [] == dispatcher.poll(7.0)

    def test_it_is_sent_to_a_pool_that_it_may_have(self) -> None:
        """The reserve is free sooner."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
        book(fleet, a_request("y" * 12), 0.0, A)
        book(fleet, a_request("z" * 10), 0.0, B)
        dispatcher = shared(fleet)
        dispatcher.submit(of("red", "red"), 0.0)
        (dispatch,) = dispatcher.poll(0.0)

        assert [A, B] == [candidate.worker for candidate in dispatch.order]


class TestPools:
    def held(self, make: Callable[[Fleet], LateBinding], *requests: Request) -> tuple[Fleet, LateBinding]:
        """*requests* come at 0.0 before a, which computes for 9.2 s; b, of the second pool, idles."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
        held(fleet, A)
        dispatcher = make(fleet)
        for request in requests:
            dispatcher.submit(request, 0.0)
        return fleet, dispatcher

    @pytest.mark.parametrize("make", [late, shared])
    def test_the_second_pool_is_used_when_the_first_is_too_busy(self, make: Callable[[Fleet], LateBinding]) -> None:
        """Nine seconds are more than five."""
        _, dispatcher = self.held(make, of("blue", "one"))
        (dispatch,) = dispatcher.poll(0.0)

        assert [B, A] == [candidate.worker for candidate in dispatch.order]

    @pytest.mark.parametrize("make", [late, shared])
    def test_the_first_pool_is_waited_for_as_long_as_that_is_worth(self, make: Callable[[Fleet], LateBinding]) -> None:
        """Four seconds are left when it comes. It is sent there, and the reserve comes after it."""
        _, dispatcher = self.held(make)
        dispatcher.submit(of("blue", "one"), 5.5)
        assert [] == dispatcher.poll(5.5)
        (dispatch,) = dispatcher.poll(9.19)

        assert [A, B] == [candidate.worker for candidate in dispatch.order]
        assert 1 == dispatch.reserves

    def test_what_it_has_waited_counts(self) -> None:
        """The engine of a is full, whatever the clock says: after five seconds the second pool is as good."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
        running = book(fleet, a_request("y" * 10), 0.0, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one"), 1.0)
        assert [] == dispatcher.poll(1.0)
        assert [] == dispatcher.poll(5.9)
        assert running.first_byte_at is None

        assert [("one", "b")] == sent(dispatcher.poll(6.1))

    @pytest.mark.parametrize("make", [late, shared])
    def test_only_those_at_the_end_of_a_long_queue_go_to_the_second_pool(
        self, make: Callable[[Fleet], LateBinding]
    ) -> None:
        """Each of ten takes 1 s; a is free in 1.05. Requests that would wait there for more than five
        seconds go to b, which takes one."""
        fleet = a_fleet(A, B)
        fleet.members.set_tiers({B: 1})
        book(fleet, a_request("y" * 65), 0.0, A)
        dispatcher = make(fleet)
        for number in range(10):
            dispatcher.submit(of("blue", str(number), str(number) * 62), 0.0)

        assert ["b"] == [worker for _, worker in sent(dispatcher.poll(0.0))]
        assert 9 == dispatcher.waiting

    @pytest.mark.parametrize("strategy", NAMES)
    def test_an_idle_first_pool_is_sent_all_at_once(self, strategy: str) -> None:
        """The reserves come after it."""
        fleet = a_fleet(A, B, C)
        fleet.members.set_tiers({B: 1, C: 1})
        dispatcher = shared(fleet, strategy)
        dispatcher.submit(of("blue", "one"), 0.0)
        (dispatch,) = dispatcher.poll(0.0)

        assert [A, B, C] == [candidate.worker for candidate in dispatch.order]
        assert 2 == dispatch.reserves


class TestPrice:
    """The price of a second of prefill. A prompt of 300 letters takes 5.5 s."""

    def test_below_saturation_a_prefix_spreads(self) -> None:
        """Waiting for the worker that holds it would take 5.9 s. Computing it again is faster, and no others wait."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 300)
        book(fleet, a_request("y" * 320), 0.0, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("w" * 300, "one"), 0.0)

        assert [("one", "b")] == sent(dispatcher.poll(0.0))

    def test_a_shorter_wait_is_preferred(self) -> None:
        """4.6 s."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 300)
        book(fleet, a_request("y" * 250), 0.0, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("w" * 300, "one"), 0.0)

        assert [] == dispatcher.poll(0.0)

    @pytest.mark.parametrize(("price", "goes"), [(3.0, []), (1.0, [("one", "b")])])
    def test_where_all_were_busy_the_cache_decides(self, price: float, goes: list[tuple[str, str]]) -> None:
        """A minute of work on both: a second of it is dearer than one of waiting, up to *price* times."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 300)
        first, second = held(fleet, A), held(fleet, B)
        fleet.bookings.first_byte(first, 60.0)
        fleet.bookings.first_byte(second, 60.0)
        book(fleet, a_request("y" * 320), 60.0, A)
        dispatcher = late(fleet, price=price)
        dispatcher.submit(asked("w" * 300, "one"), 60.0)

        assert goes == sent(dispatcher.poll(60.0))

    def test_a_session_begins_where_nothing_of_use_has_to_leave(self) -> None:
        """Both hold its first block, and a has a little less to do, but is full of what is asked for every time."""
        index = RadixTree(max_bytes=10_000_000, default_capacity=8)
        for _ in range(32):
            index.record(A, prompt("abcdefgh"))
            index.record(B, prompt("a"))
        fleet = a_fleet(A, B, index=index)
        book(fleet, a_request("", prompt_tokens=30.0), 0.0, B)
        dispatcher = late(fleet)
        dispatcher.submit(asked("apqrs", "one"), 0.0)

        assert [("one", "b")] == sent(dispatcher.poll(0.0))


class TestSpill:
    @pytest.mark.parametrize("make", [late, shared])
    def test_who_has_waited_too_long_goes_elsewhere(self, make: Callable[[Fleet], LateBinding]) -> None:
        """Nothing is known of what is done, but that is known: of three seconds it has had all but its own 65 ms."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = make(fleet)
        one = of("blue", "one", spill_in_s=3.0)
        dispatcher.submit(one, 1.0)
        now: float | None = 1.0
        refused: list[Refusal] = []
        while not refused:
            assert now is not None
            assert [] == dispatcher.poll(now)
            refused, now = dispatcher.refused(), dispatcher.next_poll_at(now)

        assert [(one, "spill")] == [(refusal.request, refusal.why) for refusal in refused]
        assert 3.5 >= refused[0].wait_s >= 2.93
        assert 0 == dispatcher.waiting

    @pytest.mark.parametrize("make", [late, shared])
    def test_a_request_is_refused_at_once_when_the_wait_is_known(self, make: Callable[[Fleet], LateBinding]) -> None:
        """One worker, a burst of 60 that takes a minute, and everybody wants a first token in ten seconds: those who
        are served get it, and no one who is not waited for long, once five seconds have shown what is done."""
        sharing = Sharing(make, workers=1)
        sharing.at([0.5 * i for i in range(60)], Ask("blue", 8192, 1, spill_in_s=10.0))
        sharing.run(60.0)
        answered, refused = sharing.ttfts_s("blue"), [refusal.request for refusal in sharing.refused]

        assert {"spill"} == {refusal.why for refusal in sharing.refused}
        assert 60 == len(answered) + len(refused)
        assert len(answered) >= 30
        assert 10.0 + 2 * 0.84 >= answered[-1]

    def test_once_it_is_known_how_long_a_queue_takes_no_one_joins_it_in_vain(self) -> None:
        """Fourteen seconds of other work wait. Two requests want a first token in four: both are refused at once."""
        sharing = Sharing(shared, workers=1)
        sharing.at([0.0] * 40, Ask("blue", 8192, 1))
        sharing.at([20.0, 20.1], Ask("blue", 8192, 1, spill_in_s=4.0))
        sharing.run(20.05)
        first = [refusal.wait_s for refusal in sharing.refused]
        sharing.run(20.15)
        second = [refusal.wait_s for refusal in sharing.refused[1:]]

        assert pytest.approx([14.0], rel=0.15) == first
        assert pytest.approx(first, rel=0.05) == second

    def test_others_wait_on(self) -> None:
        """A request that may not go elsewhere keeps its place."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "one"), 0.0)
        dispatcher.submit(of("blue", "two", spill_in_s=1.0), 0.0)
        dispatcher.poll(0.0)
        dispatcher.poll(2.0)

        assert ["two"] == [refusal.request.session for refusal in dispatcher.refused()]
        assert {"blue": 1} == dispatcher.waiting_by_team

    def test_no_one_goes_elsewhere_while_a_worker_is_free(self) -> None:
        """It waits for the one that holds its prompt, because it thinks that better."""
        fleet = a_fleet(A, B)
        warm(fleet, A, "w" * 300)
        book(fleet, a_request("y" * 200), 0.0, A)
        dispatcher = shared(fleet, "kv_aware")
        dispatcher.submit(of("blue", "warm", "w" * 300, spill_in_s=1.0), 0.0)
        assert [] == dispatcher.poll(0.0)
        dispatcher.poll(3.0)

        assert [] == dispatcher.refused()

    def test_who_is_released_as_it_comes_is_not_refused(self) -> None:
        """A worker becomes free in the same moment, and takes what is short; the other one still has time."""
        fleet = a_fleet(A)
        running = held(fleet, A)
        dispatcher = shared(fleet)
        dispatcher.submit(of("blue", "long", "l" * 300, spill_in_s=60.0), 0.0)
        assert [] == dispatcher.poll(0.0)
        fleet.bookings.first_byte(running, 0.1)
        dispatcher.submit(of("blue", "short", "s" * 100, spill_in_s=0.1), 0.1)

        assert [("short", "a")] == sent(dispatcher.poll(0.1))
        assert [] == dispatcher.refused()
        assert 1 == dispatcher.waiting


class TestSlowWorkers:
    @pytest.mark.parametrize("strategy", ["prefix_aware", "kv_aware"])
    @pytest.mark.parametrize("dispatcher", ["immediate", "late", "shared"])
    def test_a_worker_that_has_become_slow_gets_less_and_is_not_cut_off(self, strategy: str, dispatcher: str) -> None:
        """Ten times as slow, under a load that two workers can just do: a tenth of what the others get, but some."""

        def make(fleet: Fleet) -> Dispatcher:
            strategies = StrategiesByName(strategy, lambda name: STRATEGIES[name](seeded()))
            if dispatcher == "immediate":
                return Immediate(fleet, strategies)
            return LateBinding(fleet, strategies, seeded(), fairness=FAIRNESS if dispatcher == "shared" else None)

        engines: list[FifoEngine] = []

        def engine(pool: BlockPool) -> FifoEngine:
            engines.append(FifoEngine(pool))
            return engines[-1]

        sharing = Sharing(make, engine=engine)
        sharing.at([0.055 * i for i in range(400)], Ask("blue", 1024, 20))
        sharing.run(6.0)
        before = dict(sharing.sent)
        engines[0]._timing = Timing(prefill_tokens_per_s=1000.0, prefill_fixed_s=0.1, tpot_s=0.12, tpot_slope_s=0.004)
        sharing.run(22.0)
        slow, *others = [sharing.sent[worker.id] - before[worker.id] for worker in sharing.fleet]

        assert min(before.values()) > 0.8 * max(before.values())
        assert 0 < slow < min(others) / 8
        assert [False] * 3 == [worker.breaker.is_open for worker in sharing.fleet]


class TestReplicas:
    """Homes that cost the same, where other gateways choose them too."""

    def alike(self, seed: int, letters: str, *, backlogs: tuple[int, int, int, int] = (1, 1, 1, 1)) -> str:
        """The worker that one of several gets which wait for four that all compute something."""
        fleet = a_fleet(A, B, C, D)
        for worker, blocks in zip((A, B, C, D), backlogs, strict=True):
            book(fleet, a_request(f"{worker}" + "-" * (100 + blocks)), 0.0, worker)
        strategies = StrategiesByName("kv_aware", lambda name: STRATEGIES[name](seeded(seed), TIES))
        dispatcher = LateBinding(fleet, strategies, seeded(seed), ties=TIES)
        dispatcher.submit(asked(letters, "one"), 0.0)
        assert [] == dispatcher.poll(0.0)
        for at in range(1, 400):
            for _, name in sent(dispatcher.poll(at / 100)):
                return name
        raise AssertionError("it is not sent")

    def test_each_of_them_waits_for_the_same_one(self) -> None:
        """The chance of reuse makes no difference."""
        assert 1 == len({self.alike(seed, "xyz") for seed in range(8)})

    def test_without_blocks_chance_decides(self) -> None:
        """Nothing is known of such a prompt."""
        assert 1 < len({self.alike(seed, "") for seed in range(12)})

    def test_what_costs_more_is_not_waited_for(self) -> None:
        """The difference is two blocks of 16 ms each."""
        assert {"d"} == {self.alike(seed, letters, backlogs=(3, 3, 3, 1)) for seed in range(2) for letters in "xyz"}


D = WorkerId("d")
TIES = Rendezvous(tie_s=0.02)


def test_a_near_worker_is_waited_for() -> None:
    """Both cost the same except for the zone penalty."""
    homes = set()
    for seed in range(8):
        fleet = a_fleet(A, B)
        fleet.members.set_zone_penalties({A: 0.002})
        for worker in (A, B):
            held(fleet, worker)
        strategies = StrategiesByName("kv_aware", lambda name, seed=seed: STRATEGIES[name](seeded(seed)))  # type: ignore[misc]
        dispatcher = LateBinding(fleet, strategies, seeded(seed))
        dispatcher.submit(asked("", "one"), 0.0)
        assert [] == dispatcher.poll(0.0)
        homes.add(sent(dispatcher.poll(9.3))[0][1])

    assert {"b"} == homes
