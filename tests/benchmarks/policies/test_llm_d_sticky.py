import random

from benchmarks.policies.llm_d_sticky import StickyUntilSaturated
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def a_rule() -> StickyUntilSaturated:
    """1,000 tokens per second: 18 s are 18,000 tokens."""
    return StickyUntilSaturated(random.Random(0), prefill_tokens_per_s=1000.0)


def test_four_of_five_blocks_make_a_worker_warm_and_three_do_not() -> None:
    """The warm one has 5,000 tokens waiting, the other none; without it, those 5,000 decide."""
    ask, busy, idle = an_ask(*range(5)), an_account(pending=[5000]), an_account()

    assert 0 == a_rule().choose(a_choice(ask, busy, idle, hits=[4, 0]))
    assert 1 == a_rule().choose(a_choice(ask, busy, idle, hits=[3, 0]))


def test_a_warm_worker_is_left_when_it_costs_more_than_eighteen_seconds() -> None:
    ask, idle = an_ask(1), an_account()

    assert 0 == a_rule().choose(a_choice(ask, an_account(pending=[18_000]), idle, hits=[1, 0]))
    assert 1 == a_rule().choose(a_choice(ask, an_account(pending=[18_001]), idle, hits=[1, 0]))


def test_of_warm_workers_the_one_with_the_fewest_tokens_is_chosen() -> None:
    """10 + 300 and 110 + 100 tokens; the idle one is not warm."""
    ask = an_ask(*range(5))
    accounts = [an_account(pending=[300]), an_account(pending=[100]), an_account()]

    assert 1 == a_rule().choose(a_choice(ask, *accounts, hits=[5, 4, 0]))


def test_where_all_are_warm_or_none_all_take_part() -> None:
    """The fewest tokens with those of the prompt: 110 and 60 + 100; 10 and 60 + 10."""
    ask = an_ask(1)
    idle, busy = an_account(), an_account(pending=[60])

    assert 0 == a_rule().choose(a_choice(ask, idle, busy, hits=[0, 0]))
    assert 0 == a_rule().choose(a_choice(ask, idle, busy, hits=[1, 1]))


def test_a_prompt_without_a_full_block_is_warm_nowhere() -> None:
    assert 1 == a_rule().choose(a_choice(an_ask(tokens=50), an_account(pending=[100]), an_account(), hits=[0, 0]))


def test_running_answers_do_not_count() -> None:
    """Tokens leave with the first token of the answer."""
    assert 0 == a_rule().choose(a_choice(an_ask(1), an_account(decodes=[9000]), an_account(pending=[10]), hits=[0, 0]))
