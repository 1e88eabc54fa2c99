from collections import Counter

import pytest

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from routing.strategies.least_loaded import LeastLoaded
from tests.routing.examples import a_candidate, a_request, order_of, seeded

REQUEST = a_request()


@pytest.mark.parametrize(
    ("order", "candidates"),
    [
        ("abc", [a_candidate("a"), a_candidate("b", pending=1), a_candidate("c", pending=2)]),
        ("cba", [a_candidate("a", decodes=9), a_candidate("b", decodes=8), a_candidate("c", decodes=7)]),
        # What waits and what generates count alike.
        ("bca", [a_candidate("a", pending=2, decodes=3), a_candidate("b", decodes=3), a_candidate("c", pending=4)]),
        # Neither seconds nor hits count.
        ("ab", [a_candidate("a", backlog_s=60.0), a_candidate("b", pending=1, hit_tokens=5000)]),
    ],
)
def test_fewest_requests_in_flight_come_first(order: str, candidates: list[Candidate]) -> None:
    """A table of candidates and their order."""
    assert order == order_of(LeastLoaded(seeded()), REQUEST, *candidates)


def test_ties_are_random() -> None:
    """Each of three idle workers gets about a hundred of 300 requests."""
    strategy = LeastLoaded(seeded())
    idle = [a_candidate("a"), a_candidate("b"), a_candidate("c")]
    first = Counter(order_of(strategy, REQUEST, *idle)[0] for _ in range(300))

    assert all(80 <= first[worker] <= 120 for worker in "abc")


def test_the_same_seed_gives_the_same_order() -> None:
    """A replay can be repeated."""
    idle = [a_candidate(worker) for worker in "abcdefgh"]

    assert order_of(LeastLoaded(seeded(7)), REQUEST, *idle) == order_of(LeastLoaded(seeded(7)), REQUEST, *idle)


def test_an_explanation_says_whether_the_load_decides() -> None:
    """Ties are broken at random, whether requests wait or generate."""
    strategy = LeastLoaded(seeded())
    differing = strategy.explain(REQUEST, [a_candidate("a", pending=1), a_candidate("b")])
    equal = strategy.explain(REQUEST, [a_candidate("a", pending=1), a_candidate("b", decodes=1)])

    assert ("least_loaded", ["b", "a"]) == (differing.effective, [c.worker for c in differing.order])
    assert ("random", {}) == (equal.effective, equal.costs_s)


def test_replicas_choose_the_same_of_the_least_loaded() -> None:
    """Whatever chance each of them has; one alone, or a prompt without blocks, is as without them."""
    request = a_request("xyz")
    idle = [a_candidate(worker) for worker in "abcd"]
    busy = a_candidate("e", pending=1)
    orders = {order_of(LeastLoaded(seeded(seed), Rendezvous()), request, busy, *idle) for seed in range(20)}
    strategy = LeastLoaded(seeded(3), Rendezvous())

    assert 1 == len(orders)
    assert "e" == orders.pop()[-1]
    assert strategy.rank(request, idle) == strategy.explain(request, idle).order
    assert "ba" == order_of(strategy, request, a_candidate("a", pending=1), a_candidate("b"))
    assert "a" == order_of(strategy, request, a_candidate("a"))
    assert 2 < len({order_of(LeastLoaded(seeded(seed), Rendezvous()), REQUEST, *idle) for seed in range(20)})
