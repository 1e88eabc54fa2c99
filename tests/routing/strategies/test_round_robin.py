from routing.strategies.round_robin import RoundRobin
from tests.routing.examples import a_candidate, a_request, order_of

REQUEST = a_request()


def test_the_first_choice_moves_on_and_the_others_follow() -> None:
    """Four requests over three workers."""
    strategy = RoundRobin()
    candidates = [a_candidate("a"), a_candidate("b"), a_candidate("c")]

    assert ["abc", "bca", "cab", "abc"] == [order_of(strategy, REQUEST, *candidates) for _ in range(4)]


def test_the_circle_does_not_depend_on_the_order_of_candidates() -> None:
    """Discovery may list workers in any order."""
    strategy = RoundRobin()

    assert "abc" == order_of(strategy, REQUEST, a_candidate("c"), a_candidate("a"), a_candidate("b"))
    assert "bca" == order_of(strategy, REQUEST, a_candidate("b"), a_candidate("c"), a_candidate("a"))


def test_load_and_hits_do_not_matter() -> None:
    """Load and hits are ignored."""
    strategy = RoundRobin()

    assert "ab" == order_of(strategy, REQUEST, a_candidate("a", backlog_s=60.0), a_candidate("b", hit_tokens=1000))


def test_turns_go_on_when_the_fleet_changes() -> None:
    """With a worker less, and with none at all for a while, each is still first in turn."""
    strategy = RoundRobin()
    order_of(strategy, REQUEST, a_candidate("a"), a_candidate("b"), a_candidate("c"))
    order_of(strategy, REQUEST)

    assert ["ab", "ba"] == [order_of(strategy, REQUEST, a_candidate("a"), a_candidate("b")) for _ in range(2)]


def test_an_explanation_takes_no_turn() -> None:
    """However often one asks, the next request gets what was said."""
    strategy = RoundRobin()
    candidates = [a_candidate("a"), a_candidate("b")]
    order_of(strategy, REQUEST, *candidates)
    explained = [strategy.explain(REQUEST, candidates) for _ in range(3)]

    assert [("round_robin", ["b", "a"], {})] * 3 == [
        (ranking.effective, [c.worker for c in ranking.order], ranking.costs_s) for ranking in explained
    ]
    assert "ba" == order_of(strategy, REQUEST, *candidates)
