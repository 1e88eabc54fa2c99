import pytest

from routing.dispatcher import Immediate, Refusal
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from routing.strategies.prefix_aware import PrefixAware
from routing.strategies.round_robin import RoundRobin
from tests.routing.examples import ANSWERED, A, B, C, a_fleet, a_request, book, dispatch, only, release_all, seeded


class TestImmediate:
    def test_nothing_waits(self) -> None:
        assert not Immediate(a_fleet(A), only(RoundRobin())).others_wait

    def test_what_is_submitted_is_released_by_the_next_poll(self) -> None:
        """Requests are released in the order of submission, on workers of any load."""
        dispatcher = Immediate(a_fleet(A), only(RoundRobin()))
        requests = [a_request("x" * i) for i in range(50)]
        for request in requests:
            dispatcher.submit(request, 0.0)

        assert requests == [released.request for released in dispatcher.poll(0.0)]
        assert [] == dispatcher.poll(1.0)

    def test_each_of_a_burst_sees_those_before_it(self) -> None:
        """Two different prompts submitted together go to two workers, the same one again to its hit."""
        dispatcher = Immediate(a_fleet(A, B), only(PrefixAware(seeded())))
        dispatcher.submit(a_request("p" * 100), 0.0)
        dispatcher.submit(a_request("q" * 100), 0.0)
        first, second = dispatcher.poll(0.0)

        assert {A, B} == {first.order[0].worker, second.order[0].worker}
        assert ("cold", "cold") == (first.reason, second.reason)

    def test_the_reason_is_reported(self) -> None:
        """The second turn of a conversation hits, and the order says how much."""
        fleet = a_fleet(A, B)
        strategy = PrefixAware(seeded())
        first = dispatch(fleet, strategy, a_request("p" * 100), 0.0)
        home = first.worker
        fleet.bookings.first_byte(first, 1.61)
        dispatcher = Immediate(fleet, only(strategy))
        dispatcher.submit(a_request("p" * 150), 0.0)
        (second,) = dispatcher.poll(60.0)

        assert "hit" == second.reason
        assert (home, 100) == (second.order[0].worker, second.order[0].hit_blocks)

    def test_a_worker_that_is_warmed_up_comes_last_once_it_has_its_share(self) -> None:
        """It is first in turn, but has four requests in flight already."""
        fleet = a_fleet(A, B, C)
        for _ in range(4):
            book(fleet, a_request(), 0.0, A)
        dispatcher = Immediate(fleet, only(RoundRobin()))
        dispatcher.submit(a_request(), 0.0)
        (released,) = dispatcher.poll(0.0)

        assert [B, C, A] == [candidate.worker for candidate in released.order]

    def test_workers_that_are_all_warmed_up_keep_their_order(self) -> None:
        """Somebody must answer."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            for _ in range(4):
                book(fleet, a_request(), 0.0, worker)
        dispatcher = Immediate(fleet, only(RoundRobin()))
        dispatcher.submit(a_request(), 0.0)
        (released,) = dispatcher.poll(0.0)

        assert [A, B] == [candidate.worker for candidate in released.order]

    def test_a_request_may_ask_for_its_strategy(self) -> None:
        """It is made when it is first asked for, keeps its own turn, and the dispatch says whose order it is."""
        strategies = StrategiesByName("round_robin", lambda name: STRATEGIES[name](seeded()))
        fleet = a_fleet(A, B, C)
        book(fleet, a_request(), 0.0, A)
        dispatcher = Immediate(fleet, strategies)
        asking = a_request(strategy="session", session="bob")
        released = release_all(dispatcher, a_request(), asking, a_request(), asking, a_request())

        assert ["a", "b", "b", "b", "c"] == [each.order[0].worker for each in released]
        assert ["round_robin", "session"] * 2 + ["round_robin"] == [each.strategy for each in released]

    def test_an_empty_order_says_its_strategy_too(self) -> None:
        """A decision without a worker is counted like the others."""
        dispatcher = Immediate(a_fleet(), only(RoundRobin(), "round_robin"))
        released = release_all(dispatcher, a_request(), a_request(strategy="session"))

        assert ["round_robin", "session"] == [each.strategy for each in released]

    def test_an_explanation_puts_workers_that_are_warmed_up_last(self) -> None:
        """The worker is first in turn, but already has four requests in flight, as in the dispatch."""
        fleet = a_fleet(A, B, C)
        for _ in range(4):
            book(fleet, a_request(), 0.0, A)
        explained = Immediate(fleet, only(RoundRobin())).explain(a_request(), 0.0)

        assert [(1, B, True), (2, C, True), (3, A, False)] == [
            (place.rank, place.candidate.worker, place.candidate.admits) for place in explained.places
        ]

    def test_an_explanation_is_by_the_strategy_that_the_request_asks_for(self) -> None:
        """Else by the model's."""
        strategies = StrategiesByName("prefix_aware", lambda name: STRATEGIES[name](seeded()))
        dispatcher = Immediate(a_fleet(A, B), strategies)
        plain = dispatcher.explain(a_request("a"), 0.0)
        asking = dispatcher.explain(a_request("a", strategy="round_robin"), 0.0)

        assert ("prefix_aware", "random") == (plain.strategy, plain.effective)
        assert ("round_robin", "round_robin") == (asking.strategy, asking.effective)
        assert [True, True] == [place.cost_s is not None for place in plain.places]
        assert [None, None] == [place.cost_s for place in asking.places]

    def test_an_explanation_reports_the_reason_of_the_order(self) -> None:
        """A hit for whom it is the longest, spread where another holds more, cold, and none."""
        fleet = a_fleet(A, B)
        book(fleet, a_request("pq"), 0.0, A)
        round_robin = Immediate(fleet, only(RoundRobin()))
        reasons = [round_robin.explain(a_request(letters), 0.0).reason for letters in ("pqr", "xyz")]
        release_all(round_robin, a_request())
        reasons.append(round_robin.explain(a_request("pqr"), 0.0).reason)

        assert ["hit", "cold", "spread"] == reasons
        assert "none" == Immediate(a_fleet(), only(RoundRobin())).explain(a_request(), 0.0).reason


class TestSpill:
    """A first token is wanted in two seconds; who would wait for longer goes elsewhere."""

    def refused(self, fleet: Fleet, request: Request, now: float) -> list[Refusal]:
        dispatcher = Immediate(fleet, only(PrefixAware(seeded())))
        release_all(dispatcher, request, now=now)
        return dispatcher.refused()

    def test_a_refusal_has_the_predicted_wait(self) -> None:
        """About eight seconds until one is free; of two seconds all but the own prefill, a tenth, may be waited for."""
        fleet = busy()
        (refusal,) = self.refused(fleet, HURRIES, 10.0)

        assert (HURRIES, "spill") == (refusal.request, refusal.why)
        assert min(worker.load(10.0).backlog_s for worker in fleet) == refusal.wait_s
        assert 8.0 == pytest.approx(refusal.wait_s, abs=0.1)
        assert refusal.wait_s - 1.9 == pytest.approx(refusal.retry_after_s, abs=0.1)
        assert [1, 1] == [worker.in_flight for worker in fleet]

    def test_what_was_never_measured_turns_no_one_away(self) -> None:
        """The workers may be a hundred times as fast as the settings believe."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            book(fleet, a_request("x" * 500), 10.0, worker)

        assert [] == self.refused(fleet, HURRIES, 10.0)

    def test_one_worker_that_has_time_is_enough(self) -> None:
        """The preference of the strategy makes no difference."""
        fleet = busy()
        fleet.set_workers([A, B, C], 10.0)

        assert [] == self.refused(fleet, HURRIES, 10.0)

    def test_what_one_worker_keeps_is_not_refused(self) -> None:
        """No one else has it."""
        assert [] == self.refused(busy(), HURRIES.changed(pinned=A), 10.0)

    def test_nothing_is_refused_without_workers(self) -> None:
        """An empty order reports it instead."""
        dispatcher = Immediate(a_fleet(), only(PrefixAware(seeded())))
        (released,) = release_all(dispatcher, HURRIES)

        assert ([], []) == (released.order, dispatcher.refused())

    def test_who_has_waited_elsewhere_has_waited(self) -> None:
        """It comes from a dispatcher that held it for a minute."""
        fleet = busy()
        dispatcher = Immediate(fleet, only(PrefixAware(seeded())))
        dispatcher.submit(HURRIES, 10.0)

        assert [] == dispatcher.poll(70.0)
        assert 60.0 == pytest.approx(dispatcher.refused()[0].wait_s, abs=0.1)
        assert [] == dispatcher.refused()


HURRIES = a_request("abc").changed(spill_in_s=2.0)


def busy() -> Fleet:
    """Two workers that have shown how fast they are, and compute for 9.2 s since 10.0."""
    fleet = a_fleet(A, B)
    taught = book(fleet, a_request("t" * 100), 0.0)
    fleet.bookings.first_byte(taught, taught.work_s)
    fleet.bookings.release(taught, ANSWERED, taught.work_s)
    for worker in (A, B):
        book(fleet, a_request("x" * 500), 10.0, worker)
    return fleet


def test_immediate_holds_no_request() -> None:
    """There is nothing to hand over, and no later poll is needed."""
    dispatcher = Immediate(a_fleet(A), only(PrefixAware(seeded())))
    dispatcher.submit(a_request(), 0.0)
    dispatcher.poll(0.0)

    assert (0, 0.0, None, []) == (
        dispatcher.waiting,
        dispatcher.oldest_wait_s(9.0),
        dispatcher.next_poll_at(9.0),
        dispatcher.hand_over(),
    )
