import random

from benchmarks.policies.llm_d import WeightedScores
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def a_rule(capacity_blocks: int = 100) -> WeightedScores:
    return WeightedScores(random.Random(0), capacity_blocks=capacity_blocks)


def test_a_whole_prompt_held_outweighs_the_longest_queue() -> None:
    """3 against 2; two thirds of it do not, by a hair: 2 against 2, and the cache of the turn is in use."""
    queue, idle = an_account(pending=[100, 100]), an_account()

    assert 0 == a_rule().choose(a_choice(an_ask(1, 2, 3), queue, idle, hits=[3, 0]))
    assert 1 == a_rule().choose(a_choice(an_ask(1, 2, 3), queue, idle, hits=[2, 0]))


def test_a_queue_counts_by_its_place_between_the_longest_and_the_shortest() -> None:
    """Requests of 2, 1 and 0: the second has half of the points, which half the prompt makes up for."""
    accounts = [an_account(pending=[10] * count) for count in (2, 1, 0)]

    assert 1 == a_rule().choose(a_choice(an_ask(1, 2), *accounts, hits=[1, 1, 0]))


def test_a_full_cache_counts_against_a_worker_without_a_queue() -> None:
    """90 of 100 blocks are in use by decodes: 0.2 points instead of 2, and half the prompt is worth 1.5."""
    full, free = an_account(decodes=[9000]), an_account()

    assert 1 == a_rule().choose(a_choice(an_ask(1, 2), full, free, hits=[1, 0]))
    assert 0 == a_rule(10_000).choose(a_choice(an_ask(1, 2), full, free, hits=[1, 0]))


def test_more_than_the_whole_cache_is_no_worse_than_the_whole() -> None:
    """Two with nothing free: the hit decides."""
    over, more = an_account(decodes=[500]), an_account(decodes=[900])

    assert 1 == a_rule(4).choose(a_choice(an_ask(1, 2), over, more, hits=[0, 1]))
