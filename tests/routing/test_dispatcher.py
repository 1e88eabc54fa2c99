import pytest

from routing.candidate import Candidate
from routing.dispatcher import Immediate, Reason, reason_of
from routing.strategies.prefix_aware import PrefixAware
from routing.strategies.round_robin import RoundRobin
from tests.routing.examples import A, B, C, a_candidate, a_fleet, a_request, book, dispatch, seeded


@pytest.mark.parametrize(
    ("reason", "order"),
    [
        ("cold", [a_candidate("a"), a_candidate("b")]),
        ("hit", [a_candidate("a", hit_blocks=3), a_candidate("b")]),
        ("hit", [a_candidate("a", hit_blocks=3), a_candidate("b", hit_blocks=3)]),
        ("spread", [a_candidate("a"), a_candidate("b", hit_blocks=1)]),
        ("spread", [a_candidate("a", hit_blocks=2), a_candidate("b"), a_candidate("c", hit_blocks=3)]),
    ],
)
def test_the_reason_compares_the_first_with_the_longest_hit(reason: Reason, order: list[Candidate]) -> None:
    """A table of orders and reasons."""
    assert reason == reason_of(order)


class TestImmediate:
    def test_what_is_submitted_is_released_by_the_next_poll(self) -> None:
        """In the order of submission, however loaded the workers are."""
        dispatcher = Immediate(a_fleet(A), RoundRobin())
        requests = [a_request("x" * i) for i in range(50)]
        for request in requests:
            dispatcher.submit(request, 0.0)

        assert requests == [released.request for released in dispatcher.poll(0.0)]
        assert [] == dispatcher.poll(1.0)

    def test_each_of_a_burst_sees_those_before_it(self) -> None:
        """Two different prompts submitted together go to two workers, the same one again to its hit."""
        dispatcher = Immediate(a_fleet(A, B), PrefixAware(seeded()))
        dispatcher.submit(a_request("p" * 100), 0.0)
        dispatcher.submit(a_request("q" * 100), 0.0)
        first, second = dispatcher.poll(0.0)

        assert {A, B} == {first.order[0].worker, second.order[0].worker}
        assert ("cold", "cold") == (first.reason, second.reason)

    def test_the_reason_is_told(self) -> None:
        """The second turn of a conversation hits, and the order says how much."""
        fleet = a_fleet(A, B)
        strategy = PrefixAware(seeded())
        home = dispatch(fleet, strategy, a_request("p" * 100), 0.0).worker
        dispatcher = Immediate(fleet, strategy)
        dispatcher.submit(a_request("p" * 150), 0.0)
        (second,) = dispatcher.poll(60.0)

        assert "hit" == second.reason
        assert (home, 100) == (second.order[0].worker, second.order[0].hit_blocks)

    def test_a_worker_that_is_warmed_up_comes_last_once_it_has_its_share(self) -> None:
        """It is first in turn, but has four requests in flight already."""
        fleet = a_fleet(A, B, C)
        for _ in range(4):
            book(fleet, a_request(), 0.0, A)
        dispatcher = Immediate(fleet, RoundRobin())
        dispatcher.submit(a_request(), 0.0)
        (released,) = dispatcher.poll(0.0)

        assert [B, C, A] == [candidate.worker for candidate in released.order]

    def test_workers_that_are_all_warmed_up_keep_their_order(self) -> None:
        """Somebody must answer."""
        fleet = a_fleet(A, B)
        for worker in (A, B):
            for _ in range(4):
                book(fleet, a_request(), 0.0, worker)
        dispatcher = Immediate(fleet, RoundRobin())
        dispatcher.submit(a_request(), 0.0)
        (released,) = dispatcher.poll(0.0)

        assert [A, B] == [candidate.worker for candidate in released.order]
