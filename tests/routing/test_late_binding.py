"""When requests are held, in which order they are sent, and where. Prompts of 16 tokens to the letter, 1.15 ms each."""

import msgspec
import pytest

from cache_index import WorkerId
from routing.booking import Booking
from routing.dispatcher import Dispatch
from routing.fleet import Fleet
from routing.late_binding import LateBinding, Patience
from routing.request import Request
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.routing.examples import ABORTED, ANSWERED, FAILED, A, B, C, a_fleet, a_request, book, seeded

LONG = "x" * 500
"""9.2 s of prefill."""


def late(fleet: Fleet, **patience: float) -> LateBinding:
    strategies = StrategiesByName("kv_aware", lambda name: STRATEGIES[name](seeded()))
    return LateBinding(fleet, strategies, seeded(), Patience(**patience))  # type: ignore[arg-type]


def warm(fleet: Fleet, worker: WorkerId, letters: str) -> None:
    """*worker* holds a prompt."""
    fleet.release(book(fleet, a_request(letters), 0.0, worker), ANSWERED, 0.0)


def held(fleet: Fleet, worker: WorkerId, now: float = 0.0) -> Booking:
    """*worker* computes a long prompt that shares nothing with others."""
    return book(fleet, a_request(f"{worker}{LONG}"), now, worker)


def sent(dispatches: list[Dispatch]) -> list[tuple[str, str]]:
    """Who was sent where; a request is known by its session."""
    return [(each.request.session or "", each.booking.worker if each.booking else "-") for each in dispatches]


def asked(letters: str, name: str, **more: object) -> Request:
    return msgspec.structs.replace(a_request(letters, session=name), **more)


class TestHolding:
    def test_an_idle_worker_is_sent_a_request_at_once(self) -> None:
        """Nobody waits while somebody is free."""
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
        fleet.first_byte(running, 3.0)
        assert [("one", "a")] == sent(dispatcher.poll(3.0))

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
        """Two prompts stand there: the first token of the first will tell more than the clock."""
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
        fleet.first_byte(running, 2.0)

        assert [("other", "a")] == sent(dispatcher.poll(2.0))

    def test_requests_of_other_strategies_are_sent_at_once(self) -> None:
        """So is one that only one worker can answer."""
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
        dispatcher = late(fleet, most_waiting=2)
        for name in ("one", "two", "three"):
            dispatcher.submit(asked("abc", name), 1.0)

        assert [("three", "a")] == sent(dispatcher.poll(1.0))
        assert 2 == dispatcher.waiting

    def test_without_any_worker_nobody_is_waited_for(self) -> None:
        """They are handed on at once: somebody else may answer."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 1.0)
        dispatcher.poll(1.0)
        fleet.set_up(A, up=False)

        assert [("one", "-")] == sent(dispatcher.poll(1.0))
        assert 0 == dispatcher.waiting

    def test_whoever_waits_can_be_handed_over(self) -> None:
        """With the time since when, longest first."""
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
    def queued(self, *requests: tuple[Request, float], now: float = 10.0, **patience: float) -> list[str]:
        """In which order a worker that becomes free at *now* gets *requests*, each with when it came."""
        fleet = a_fleet(A)
        warm(fleet, A, "w" * 100)
        running: list[Booking | None] = [held(fleet, A)]
        dispatcher = late(fleet, **patience)
        for request, since in requests:
            dispatcher.submit(request, since)
        order: list[str] = []
        while dispatcher.waiting:
            for booking in running:
                assert booking is not None
                fleet.release(booking, ABORTED, now)
            dispatches = dispatcher.poll(now)
            running = [dispatch.booking for dispatch in dispatches]
            order += [name for name, _ in sent(dispatches)]
        return order

    def test_what_is_short_goes_first(self) -> None:
        """Also if it came later."""
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
        wanted = asked("l" * 110, "wanted", wanted_in_s=6.0)
        short = asked("s", "short")

        assert ["wanted", "short"] == self.queued((wanted, 6.0), (short, 6.0))
        assert ["short", "wanted"] == self.queued(
            (msgspec.structs.replace(wanted, wanted_in_s=60.0), 6.0), (short, 6.0)
        )


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
        fleet.restarted(A)
        running = held(fleet, B)
        at = dispatcher.next_poll_at(0.1)
        assert at is not None
        fleet.release(running, ABORTED, at)

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
            fleet.release(book(fleet, a_request("f"), 0.0, A), FAILED, 0.0)
        held(fleet, B)
        dispatcher = late(fleet)
        dispatcher.submit(asked("abc", "one"), 0.5)

        assert [] == dispatcher.poll(0.5)

    def test_only_some_are_looked_up_again_at_one_look(self) -> None:
        """The others keep what was found; their turn comes."""
        fleet = a_fleet(A)
        held(fleet, A)
        dispatcher = late(fleet, most_lookups=1, fresh_s=0.0)
        for i in range(5):
            dispatcher.submit(asked(str(i) * 40, str(i)), 0.0)
        dispatcher.poll(0.0)
        fleet.set_workers([A, B], 1.0)

        assert 1 == len(dispatcher.poll(1.0))

    def test_it_explains_as_if_it_were_sent_now(self) -> None:
        """Nobody is held or booked by that."""
        fleet = a_fleet(A, B)
        warm(fleet, B, "w" * 100)
        dispatcher = late(fleet)
        explanation = dispatcher.explain(asked("w" * 100, "warm"), 0.0)

        assert "b" == explanation.places[0].candidate.worker
        assert 0 == dispatcher.waiting
