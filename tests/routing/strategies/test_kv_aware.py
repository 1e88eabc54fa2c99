from random import Random

from routing.candidate import Candidate
from routing.strategies.kv_aware import KvAware
from tests.routing.examples import a_candidate, a_request, order_of, seeded


def reported(candidate: Candidate, load_s: float = 0.0) -> Candidate:
    """The same, with a hit that its engine reported."""
    return candidate.changed(source="reported", load_s=load_s)


def test_the_worker_that_holds_more_is_first() -> None:
    """96 tokens less to compute."""
    candidates = [reported(a_candidate("a")), reported(a_candidate("b", hit_tokens=96))]

    assert "ba" == order_of(KvAware(seeded()), a_request(prompt_tokens=128), *candidates)


def test_what_has_to_be_loaded_costs_its_time() -> None:
    """100 tokens on a's disk take 80 ms to load, 50 on b's GPU nothing; computing takes 1 ms each."""
    a = reported(a_candidate("a", hit_tokens=100), load_s=0.08)
    b = reported(a_candidate("b", hit_tokens=50))

    assert "ba" == order_of(KvAware(seeded()), a_request(prompt_tokens=128), a, b)
    assert "ab" == order_of(KvAware(seeded()), a_request(prompt_tokens=128), reported(a, 0.01), b)


def test_it_says_what_it_comes_to() -> None:
    """Without reports it is prefix_aware; with equal hits, load; if all is equal, chance."""
    request = a_request(prompt_tokens=128)
    strategy = KvAware(Random(0))
    warm, cold, loaded = a_candidate("a", hit_tokens=96), a_candidate("b"), a_candidate("c", backlog_s=1.0)

    assert ["kv_aware", "prefix_aware", "load_alone", "random"] == [
        strategy.explain(request, candidates).effective
        for candidates in ([reported(warm), cold], [warm, cold], [reported(cold), loaded], [reported(cold), cold])
    ]


def test_explaining_changes_nothing() -> None:
    """The next tie is broken as it would have been."""
    candidates = [reported(a_candidate(name)) for name in "abcdef"]
    one, other = KvAware(Random(3)), KvAware(Random(3))
    one.explain(a_request(), candidates)

    assert order_of(one, a_request(), *candidates) == order_of(other, a_request(), *candidates)
