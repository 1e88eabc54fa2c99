import pytest

from routing.candidate import Candidate
from routing.explanation import Reason, effective_of, longest_wait_s, places_of, predicted_ttft_s, reason_of
from routing.strategies.prefix_aware import cost_s
from routing.strategy import Ranking
from tests.routing.examples import A, a_candidate, a_request

REQUEST = a_request(prompt_tokens=1000.0)


@pytest.mark.parametrize(
    ("effective", "order"),
    [
        ("session", [a_candidate("a"), a_candidate("b")]),
        ("only_candidate", [a_candidate("a")]),
        ("none", []),
    ],
)
def test_a_strategy_without_a_choice_comes_to_nothing(effective: str, order: list[Candidate]) -> None:
    """One candidate, or none, is the order whatever the strategy."""
    assert effective == effective_of(Ranking(order, "session"))


@pytest.mark.parametrize(
    ("seconds", "candidate"),
    [
        (1.01, a_candidate("a")),
        (3.01, a_candidate("a", backlog_s=2.0)),
        (0.51, a_candidate("a", hit_tokens=500)),
        # The last token is always computed, and an estimate may be short of the hit.
        (0.011, a_candidate("a", hit_tokens=9000)),
        # SharedWorkerLoad that generate slow the tokens after the first.
        (1.01, a_candidate("a", decodes=50)),
    ],
)
def test_the_first_token_comes_after_backlog_and_prefill(seconds: float, candidate: Candidate) -> None:
    """A table of candidates for a prompt that an idle worker without a hit prefills in 1.01 s."""
    assert pytest.approx(seconds) == predicted_ttft_s(REQUEST, candidate)


def test_the_prediction_is_the_cost_on_an_idle_fleet() -> None:
    """On idle workers, with a price of 1, prefix_aware ranks by time to first token."""
    candidate = a_candidate("a", hit_tokens=123, backlog_s=0.7)

    assert pytest.approx(cost_s(REQUEST, candidate)) == predicted_ttft_s(REQUEST, candidate)


def test_places_count_from_one_and_carry_the_costs_there_are() -> None:
    """A strategy may know the cost of some only, or of none."""
    places = places_of(REQUEST, [a_candidate("b"), a_candidate("a")], {A: 2.5})

    assert [(1, "b", None), (2, "a", 2.5)] == [(place.rank, place.candidate.worker, place.cost_s) for place in places]
    assert [pytest.approx(1.01)] * 2 == [place.predicted_ttft_s for place in places]


@pytest.mark.parametrize(
    ("reason", "order"),
    [
        ("none", []),
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


@pytest.mark.parametrize(
    ("within_s", "prefill_s", "longest_s"), [(10.0, 4.0, 6.0), (10.0, 9.0, 2.0), (10.0, 60.0, 2.0)]
)
def test_a_fifth_of_the_time_is_always_there_to_wait_in(within_s: float, prefill_s: float, longest_s: float) -> None:
    """However long the prefill is believed to take."""
    assert longest_s == longest_wait_s(within_s, prefill_s)
