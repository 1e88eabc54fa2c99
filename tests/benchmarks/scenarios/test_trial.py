import dataclasses

import pytest

from benchmarks.scenarios.contexts import Contexts
from benchmarks.scenarios.conversations import Conversations
from benchmarks.scenarios.trial import AtRate, Beginning, Bench, Case, Fleet, InFlight, Load, Trial, Users

CONTEXTS = Contexts(4_000, live=6, new_share=0.1, requests=100, answer_tokens=(10, 20))
CHATS = Conversations(20, (3, 3), 300, (2_000, 3_000), (20, 80), (50, 150), think_s=2.0)
FLEET = Fleet(3, cache_tokens=40_000)


def hit(load: Load, strategy: str, fleet: Fleet = FLEET) -> float:
    return Trial(load, fleet, strategy, seed=1).outcome().hit


def test_every_kind_of_load_is_routed_better_than_by_turns() -> None:
    """Share of prompt tokens that come out of a cache."""
    for load in (AtRate(CONTEXTS, 3.0), InFlight(CONTEXTS, 6), Users(CHATS, 5), Beginning(CHATS, 0.5)):
        turns, ours = hit(load, "round_robin"), hit(load, "kv_aware")

        assert turns + 0.05 < ours


def test_a_closed_loop_is_the_faster_the_more_is_cached() -> None:
    by_turns, ours = (Trial(InFlight(CONTEXTS, 12), FLEET, name, 1).outcome() for name in ("round_robin", "kv_aware"))

    assert by_turns.answers_per_s < ours.answers_per_s
    assert by_turns.gpu_s > ours.gpu_s


def test_an_open_loop_answers_what_comes() -> None:
    """Three in a second, whatever is cached."""
    for strategy in ("round_robin", "prefix_aware"):
        assert 2.0 < Trial(AtRate(CONTEXTS, 3.0), FLEET, strategy, 1).outcome().answers_per_s < 4.0


def test_engines_may_batch_with_chunked_prefill() -> None:
    """The other timing model: the same hits, other times."""
    chunked = Fleet(3, cache_tokens=40_000, timing="chunked")
    fifo, other = (Trial(AtRate(CONTEXTS, 3.0), fleet, "prefix_aware", 1).outcome() for fleet in (FLEET, chunked))

    assert abs(fifo.hit - other.hit) < 0.1
    assert fifo.latency_mean_s != other.latency_mean_s


@pytest.mark.e2e
def test_outcomes_are_in_the_order_of_cases_strategies_and_seeds() -> None:
    """Also when processes share the work."""
    few = dataclasses.replace(CONTEXTS, requests=40)
    cases = [Case("open", AtRate(few, 3.0), FLEET), Case("closed", InFlight(few, 6), FLEET)]
    alone = Bench((1, 2), strategies=("round_robin", "prefix_aware")).outcomes(cases)
    shared = Bench((1, 2), processes=2, strategies=("round_robin", "prefix_aware")).outcomes(cases)

    assert alone == shared
    assert ["round_robin", "prefix_aware"] == list(alone[0])
    assert Trial(cases[1].load, FLEET, "prefix_aware", 2).outcome() == alone[1]["prefix_aware"][1]


def test_one_seed_is_the_first() -> None:
    assert (4,) == tuple(Bench((4, 5), processes=3).with_one_seed().seeds)
