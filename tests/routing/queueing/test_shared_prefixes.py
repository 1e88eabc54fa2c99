"""Prompts have 16 tokens to the letter, at 1 ms per token, so the shared prefix takes 1.6 s."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index import WorkerId
from routing.dispatcher import Dispatch
from routing.fleet import Fleet
from routing.queueing.fair_queue import Fairness
from routing.queueing.late_binding import LateBinding
from routing.queueing.release_policy import ReleasePolicy
from routing.request import Request
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.routing.examples import ABORTED, ANSWERED, A, B, C, a_fleet, a_request, book, seeded

TASK = "t" * 100
"""1,600 tokens: a system prompt and a task that all sub-agents of a parent share."""


def late(fleet: Fleet, strategy: str = "kv_aware", fairness: Fairness | None = None) -> LateBinding:
    strategies = StrategiesByName(strategy, lambda name: STRATEGIES[name](seeded()))
    return LateBinding(fleet, strategies, seeded(), ReleasePolicy(), fairness)


def agent(name: str, shared: str = TASK, own: int = 5, **more: object) -> Request:
    return a_request(shared + name * own, session=name).changed(**more)


def submit(dispatcher: LateBinding, *requests: Request, now: float = 0.0) -> list[Dispatch]:
    for request in requests:
        dispatcher.submit(request, now)
    return list(dispatcher.poll(now))


def names(dispatches: list[Dispatch]) -> list[str | None]:
    return [dispatch.request.session for dispatch in dispatches]


def workers(dispatches: list[Dispatch]) -> list[WorkerId]:
    return [dispatch.order[0].worker for dispatch in dispatches]


def finish_prefill(fleet: Fleet, dispatch: Dispatch, now: float) -> None:
    assert dispatch.booking is not None
    fleet.bookings.first_byte(dispatch.booking, now)


class TestAGroup:
    def test_the_first_computes_and_the_others_follow_it(self) -> None:
        """Three arrive together on three idle workers. When the first has its prefix, its worker takes the next."""
        fleet = a_fleet(A, B, C)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"), agent("y"), agent("z"))
        assert 2 == dispatcher.waiting
        assert [] == list(dispatcher.poll(1.0))

        finish_prefill(fleet, first, 1.7)
        (second,) = dispatcher.poll(1.7)
        finish_prefill(fleet, second, 1.8)
        third = list(dispatcher.poll(1.8))

        assert {first.order[0].worker} == {*workers([second]), *workers(third)}

    def test_a_later_member_waits_as_well(self) -> None:
        """The worker computes the first, and then a short prompt of which it caches nothing."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"))
        book(fleet, a_request("", prompt_tokens=400), 0.0, first.order[0].worker)

        assert [] == submit(dispatcher, agent("y"))

    def test_the_next_is_sent_shortly_before_the_worker_is_free(self) -> None:
        """The first takes 1.69 s with its own 80 tokens, so that the worker counts as free from 1.64 s on."""
        dispatcher = late(a_fleet(A, B))
        (first,) = submit(dispatcher, agent("x"), agent("y"))

        assert [] == list(dispatcher.poll(1.6))
        assert workers([first]) == workers(list(dispatcher.poll(1.66)))

    def test_others_are_not_held(self) -> None:
        """A request behind the group in the queue goes to the idle worker."""
        dispatcher = late(a_fleet(A, B))

        assert ["x", "n"] == names(submit(dispatcher, agent("x"), agent("y"), agent("n", "n" * 100)))

    @pytest.mark.parametrize(("letters", "sent"), [(5, 2), (10, 1)])
    def test_a_short_prefix_is_computed_twice(self, letters: int, sent: int) -> None:
        """80 tokens save 0.08 s, and 160 tokens 0.16 s."""
        dispatcher = late(a_fleet(A, B))

        assert sent == len(submit(dispatcher, agent("x", "t" * letters, 1), agent("y", "t" * letters, 1)))

    @pytest.mark.parametrize(("own", "sent"), [(90, 1), (110, 2)])
    def test_a_request_with_more_of_its_own_does_not_wait(self, own: int, sent: int) -> None:
        """It shares 100 letters."""
        dispatcher = late(a_fleet(A, B))

        assert sent == len(submit(dispatcher, agent("x"), agent("y", own=own)))

    def test_a_cached_prefix_is_not_waited_for(self) -> None:
        """One worker has the prefix in its cache and another computes a longer prompt with it."""
        fleet = a_fleet(A, B)
        fleet.bookings.release(book(fleet, agent("w"), 0.0, A), ANSWERED, 0.0)
        book(fleet, agent("v", own=50), 0.0, B)

        assert [A] == workers(submit(late(fleet), agent("x")))

    def test_a_large_group_takes_a_copy(self) -> None:
        """Each of 30 has 0.8 s of its own work, and they share 1.6 s: soon one goes to another worker, at once."""
        dispatcher = late(a_fleet(A, B))
        group = [agent(chr(ord("A") + number), own=50) for number in range(30)]

        assert [{A, B}, 28] == [set(workers(submit(dispatcher, *group))), dispatcher.waiting]


class TestTheWait:
    def test_it_is_at_most_twice_what_it_saves(self) -> None:
        """A request saves 1.6 s. The worker is late, and responses that only it stores are sent there meanwhile."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"), agent("y"))
        home = first.order[0].worker
        for second in range(1, 4):
            pinned = agent(f"{second}", "p" * 400).changed(pinned=home)
            assert 1 == len(submit(dispatcher, pinned, now=float(second)))

        assert [] == list(dispatcher.poll(3.19))
        assert [{A, B} - {home}] == [set(workers(list(dispatcher.poll(3.21))))]

    def test_a_worker_with_much_work_behind_the_prefix_is_not_waited_for(self) -> None:
        """A copy takes 1.6 s, and the worker has 4.8 s of work after the prefix."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"))
        home = first.order[0].worker
        book(fleet, agent("v", "v" * 300), 0.1, home)

        assert [{A, B} - {home}] == [set(workers(submit(dispatcher, agent("y"), now=0.1)))]

    def test_a_failure_ends_it(self) -> None:
        """The caller of the first hangs up: the next computes the prefix, and the others wait for that."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"), agent("y"), agent("z"))
        assert first.booking is not None
        fleet.bookings.release(first.booking, ABORTED, 0.5)

        assert [1, 1] == [len(dispatcher.poll(0.5)), dispatcher.waiting]

    def test_a_worker_that_leaves_ends_it(self) -> None:
        """The other worker computes the prefix."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"), agent("y"))
        (other,) = {A, B} - {first.order[0].worker}
        fleet.set_workers([other], 0.5)

        assert [other] == workers(list(dispatcher.poll(0.5)))

    @given(
        groups=st.lists(
            st.tuples(st.sampled_from("tuv"), st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=25
        ),
        count=st.integers(1, 4),
        is_shared=st.booleans(),
    )
    def test_nothing_waits_forever(self, groups: list[tuple[str, int, int]], count: int, *, is_shared: bool) -> None:
        """Workers answer a second after they got requests. All are answered in the end."""
        fleet = a_fleet(*(A, B, C, WorkerId("d"))[:count])
        dispatcher = late(fleet, fairness=Fairness() if is_shared else None)
        requests = [
            agent(f"{number:03}", letter * shared, own).changed(team=letter)
            for number, (letter, shared, own) in enumerate(groups)
        ]
        running = submit(dispatcher, *requests)
        answered = 0
        for second in range(1, 2 * len(requests) + 10):
            for dispatch in running:
                assert dispatch.booking is not None
                fleet.bookings.first_byte(dispatch.booking, float(second))
                fleet.bookings.release(dispatch.booking, ANSWERED, float(second))
            answered += len(running)
            running = list(dispatcher.poll(float(second)))

        assert [len(requests), 0] == [answered, dispatcher.waiting]


class TestTeams:
    @pytest.mark.parametrize("strategy", ["kv_aware", "prefix_aware"])
    def test_a_group_of_a_team_waits(self, strategy: str) -> None:
        """The fleet has a free worker, and the other team gets it."""
        dispatcher = late(a_fleet(A, B), strategy, Fairness())
        first = submit(dispatcher, agent("x", team="blue"))
        second = submit(dispatcher, agent("y", team="blue"), now=0.1)
        third = submit(dispatcher, agent("n", "n" * 100, team="red"), now=0.2)

        assert [["x"], [], ["n"]] == [names(first), names(second), names(third)]
        assert {"blue": 1} == dispatcher.waiting_by_team

    def test_a_request_that_is_next_waits_as_well(self) -> None:
        """One worker computes the prefix and half a second more; the other is free after 0.2 s."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet, "kv_aware", Fairness())
        (first,) = submit(dispatcher, agent("x", team="blue"))
        home = first.order[0].worker
        (other,) = {A, B} - {home}
        book(fleet, a_request("v" * 27), 0.0, home)
        book(fleet, a_request("w" * 11), 0.0, other)

        assert [] == submit(dispatcher, agent("y", team="red"))
        assert [] == list(dispatcher.poll(0.01))
        assert ["n"] == names(submit(dispatcher, agent("n", "n" * 100, team="green"), now=0.02))

    def test_within_the_fair_share_the_order_stays(self) -> None:
        """A waiting member of a group is still the first of its team when its prefix is there."""
        fleet = a_fleet(A)
        dispatcher = late(fleet, "kv_aware", Fairness())
        (first,) = submit(
            dispatcher, agent("x", team="blue"), agent("y", team="blue"), agent("n", "n" * 100, team="blue")
        )
        finish_prefill(fleet, first, 1.7)

        assert ["y"] == names(list(dispatcher.poll(1.7)))


class TestExplaining:
    def test_the_worker_is_named(self) -> None:
        """Only while it computes, and only for requests with the same prefix."""
        fleet = a_fleet(A, B)
        dispatcher = late(fleet)
        (first,) = submit(dispatcher, agent("x"))
        elsewhere = dispatcher.explain(agent("y"), 0.05)

        assert [first.order[0].worker] == [elsewhere.waits_for]
        assert dispatcher.explain(agent("n", "n" * 100), 0.1).waits_for is None
        finish_prefill(fleet, first, 1.7)
        assert dispatcher.explain(agent("y"), 1.7).waits_for is None

    def test_a_strategy_that_sends_at_once_waits_for_nothing(self) -> None:
        """Without teams, prefix_aware holds no request."""
        dispatcher = late(a_fleet(A, B), "prefix_aware")
        submit(dispatcher, agent("x"))

        assert dispatcher.explain(agent("y"), 0.1).waits_for is None

    def test_a_request_that_no_other_can_overtake_waits_as_well(self) -> None:
        """The other team has had nothing yet, so its request is next. It shares the prefix that a worker computes."""
        dispatcher = late(a_fleet(A, B), "kv_aware", Fairness())
        first = submit(dispatcher, agent("x", team="blue"))
        second = submit(dispatcher, agent("y", team="red"), now=0.1)

        assert [["x"], [], 1] == [names(first), names(second), dispatcher.waiting]
