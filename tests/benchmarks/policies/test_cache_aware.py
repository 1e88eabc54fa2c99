import random

from benchmarks.policies.cache_aware import CacheAware
from benchmarks.policies.least_requests import LeastRequests
from tests.benchmarks.policies.examples import BLOCK_TOKENS, a_choice, an_account, an_ask


def a_rule() -> CacheAware:
    rng = random.Random(0)
    return CacheAware(rng, block_tokens=BLOCK_TOKENS, otherwise=LeastRequests(rng))


def test_the_longest_match_wins_whatever_it_has_to_do() -> None:
    """Two of three blocks, behind 64 long prompts, against one block at an idle worker."""
    busy = an_account(pending=[9000] * 64)

    assert 0 == a_rule().choose(a_choice(an_ask(1, 2, 3), busy, an_account(), hits=[2, 1]))


def test_a_match_of_a_small_part_does_not_count() -> None:
    """Exactly 0.3 of a prompt of 1,000 tokens is too little, 0.4 is enough."""
    ask, busy = an_ask(*range(10), tokens=1000), an_account(pending=[10])

    assert 1 == a_rule().choose(a_choice(ask, busy, an_account(), hits=[3, 0]))
    assert 0 == a_rule().choose(a_choice(ask, busy, an_account(), hits=[4, 0]))


def test_of_equal_matches_the_fewer_requests_win() -> None:
    """The third has none, but its match is shorter."""
    one, two, none = an_account(pending=[10]), an_account(pending=[10, 10]), an_account()

    assert 1 == a_rule().choose(a_choice(an_ask(1, 2), two, one, none, hits=[2, 2, 1]))


def test_uneven_load_overrules_every_match() -> None:
    """65 requests apart and more than 1.5 times as many."""
    assert 1 == a_rule().choose(a_choice(an_ask(1, 2), an_account(decodes=[10] * 65), an_account(), hits=[2, 0]))


def test_load_is_even_while_it_is_not_half_as_much_again() -> None:
    """200 against 134 is 66 apart, but not 1.5 times."""
    most, fewest = an_account(decodes=[10] * 200), an_account(decodes=[10] * 134)

    assert 0 == a_rule().choose(a_choice(an_ask(1, 2), most, fewest, hits=[2, 0]))
