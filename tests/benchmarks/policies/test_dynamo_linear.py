import random
from collections import Counter

import pytest

from benchmarks.policies.account import Account
from benchmarks.policies.dynamo_linear import AGENTIC, LinearCost, Weights, drawn
from benchmarks.policies.events import Events
from benchmarks.policies.under_way import UnderWay
from replay.policy import Ask
from tests.benchmarks.policies.examples import a_choice, a_setup, an_account, an_ask

LONG = tuple(range(100, 200))


def chosen(weights: Weights, ask: Ask, *accounts: Account, hits: list[int], in_use: tuple[int, ...] = ()) -> int:
    """With *in_use* blocks of answers at each worker. Times are half a second after requests were sent."""
    under_way = UnderWay(len(accounts), Events(len(accounts)))
    for worker, count in enumerate(in_use):
        under_way.sent(worker, an_ask(*LONG[:count]))
    return LinearCost(a_setup(len(accounts)), under_way, weights).choose(a_choice(ask, *accounts, hits=hits, now=0.5))


def test_blocks_to_compute_and_blocks_in_use_weigh_the_same() -> None:
    """0.1 + 5 and six in use against 5.1 + 5: the warm one costs more by a block, and less with five in use."""
    ask, warm, idle = an_ask(*range(5)), an_account(), an_account()

    assert 1 == chosen(Weights(), ask, warm, idle, hits=[5, 0], in_use=(6, 0))
    assert 0 == chosen(Weights(), ask, warm, idle, hits=[5, 0], in_use=(4, 0))


def test_the_scale_makes_blocks_to_compute_dearer() -> None:
    """0.4 + 6 against 20.4."""
    ask = an_ask(*range(5))

    assert 0 == chosen(Weights(prefill_scale=4.0), ask, an_account(), an_account(), hits=[5, 0], in_use=(6, 0))


def test_shared_blocks_are_in_use_once() -> None:
    """The prompt is under way at the first worker, so it brings no new block there: 5.1 + 5 against 5.1 + 5 + 1."""
    under_way, ask = UnderWay(2, Events(2)), an_ask(*range(5))
    under_way.sent(0, an_ask(*range(5)))
    under_way.sent(1, an_ask(9))
    rule = LinearCost(a_setup(), under_way, Weights())

    assert 0 == rule.choose(a_choice(ask, an_account(), an_account(), hits=[0, 0]))


def test_credit_above_one_saves_more_than_what_is_cached_but_never_makes_work_negative() -> None:
    """Three of five blocks cached and two waiting: 7.1 - 6 against 5.1; without work, 0 is all that is saved."""
    ask, busy = an_ask(*range(5)), an_account(pending=[400])

    assert 1 == chosen(Weights(), ask, busy, an_account(), hits=[3, 0])
    assert 0 == chosen(Weights(credit=2.0), ask, busy, an_account(), hits=[3, 0])
    assert 1 == chosen(Weights(credit=9.0), ask, an_account(), an_account(), hits=[5, 0], in_use=(6, 0))


def test_credit_decays_with_the_prefill_that_waits() -> None:
    """510 tokens more than the other's are one prompt more: five cached blocks save two and a half."""
    ask, busy = an_ask(*range(5)), an_account(pending=[510])

    assert 0 == chosen(Weights(credit=2.0), ask, busy, an_account(), hits=[5, 0])
    assert 1 == chosen(Weights(credit=2.0, credit_decay=1.0), ask, busy, an_account(), hits=[5, 0])


def test_each_request_under_way_can_have_a_price() -> None:
    """300 tokens are three blocks: two requests cost six, and five cached blocks save less."""
    ask, busy = an_ask(*range(5)), an_account(decodes=[0, 0])

    assert 0 == chosen(Weights(), ask, busy, an_account(), hits=[5, 0])
    assert 1 == chosen(Weights(request_tokens=300.0), ask, busy, an_account(), hits=[5, 0])


def test_the_load_model_lets_the_oldest_prefill_shrink() -> None:
    """Half of 1,000 tokens is computed after half a second, so less than the 600 of the other waits."""
    ask, older, newer = an_ask(1), an_account(pending=[1000]), an_account(pending=[600], at=0.5)

    assert 1 == chosen(Weights(), ask, older, newer, hits=[0, 0])
    assert 0 == chosen(Weights(has_load_model=True), ask, older, newer, hits=[0, 0])


def test_the_preset_for_agents_has_the_published_weights() -> None:
    """64 blocks of 16 tokens for each request."""
    assert (2.0, 4.0, 1024.0) == (AGENTIC.credit, AGENTIC.prefill_scale, AGENTIC.request_tokens)


@pytest.mark.parametrize(("temperature", "least", "most"), [(0.1, 985, 1000), (1.0, 450, 560), (100.0, 300, 370)])
def test_a_temperature_spreads_choices(temperature: float, least: int, most: int) -> None:
    """Costs of 10, 20 and 15 are 0, 1 and a half: at temperature 1 the first has 1 / (1 + 0.37 + 0.61)."""
    rng = random.Random(0)
    found = Counter(drawn([10.0, 20.0, 15.0], temperature, rng) for _ in range(1000))

    assert least <= found[0] <= most
    assert found[1] <= found[2] + 40


def test_equal_costs_are_drawn_evenly() -> None:
    rng = random.Random(0)

    assert {0, 1} == {drawn([3.0, 3.0], 1.0, rng) for _ in range(50)}


def test_a_temperature_is_used_for_the_choice() -> None:
    """The dearer of two workers is chosen now and then."""
    under_way = UnderWay(2, Events(2))
    rule = LinearCost(a_setup(), under_way, Weights(temperature=1.0))
    choice = a_choice(an_ask(1), an_account(pending=[500]), an_account())

    assert {0, 1} == {rule.choose(choice) for _ in range(50)}
