from collections import Counter

from routing.strategies.session import Session
from tests.routing.examples import a_candidate, a_request, order_of, seeded

FIVE = [a_candidate(worker) for worker in "abcde"]


def test_a_session_stays_with_its_worker() -> None:
    """Whatever the load, the hits, the seed and the order of candidates."""
    request = a_request(session="alice")
    home = order_of(Session(seeded(0)), request, *FIVE)[0]
    others = [a_candidate(c.worker, hit_tokens=5000) for c in reversed(FIVE) if c.worker != home]

    assert home == order_of(Session(seeded(1)), request, *others, a_candidate(home, backlog_s=60.0, pending=50))[0]


def test_the_order_is_the_same_in_every_process() -> None:
    """Replicas of the gateway agree: the hash has no key and no salt."""
    assert ["abced", "bdeca", "aecdb"] == [
        order_of(Session(seeded()), a_request(session=session), *FIVE) for session in ("alice", "bob", "\ud800")
    ]


def test_a_worker_that_leaves_moves_only_its_own_sessions() -> None:
    """They go to the second of their order; all other sessions stay where they are."""
    strategy = Session(seeded())
    for i in range(200):
        request = a_request(session=f"session {i}")
        before = order_of(strategy, request, *FIVE)
        after = order_of(strategy, request, *(c for c in FIVE if c.worker != "c"))

        assert before.replace("c", "") == after


def test_sessions_spread_over_the_workers() -> None:
    """Each of five workers gets about 200 of 1,000 sessions."""
    strategy = Session(seeded())
    first = Counter(order_of(strategy, a_request(session=f"session {i}"), *FIVE)[0] for i in range(1000))

    assert all(160 <= first[worker] <= 240 for worker in "abcde")


def test_a_request_without_a_session_goes_to_the_least_loaded_worker() -> None:
    """Nothing belongs together."""
    candidates = [a_candidate("a", pending=2), a_candidate("b"), a_candidate("c", pending=1)]

    assert "bca" == order_of(Session(seeded()), a_request(), *candidates)


def test_an_explanation_says_whether_there_is_a_session() -> None:
    """Without a session, load or chance decides."""
    strategy = Session(seeded())
    loaded = [a_candidate("a", pending=1), a_candidate("b")]
    effective = [
        strategy.explain(request, candidates).effective
        for request, candidates in [(a_request(session="alice"), FIVE), (a_request(), loaded), (a_request(), FIVE)]
    ]

    assert ["session", "least_loaded", "random"] == effective
