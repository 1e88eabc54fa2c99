import random

from benchmarks.policies.dynamo import BlockCost
from tests.benchmarks.policies.examples import BLOCK_TOKENS, a_choice, an_account, an_ask


def a_rule(overlap_weight: float) -> BlockCost:
    return BlockCost(random.Random(0), block_tokens=BLOCK_TOKENS, overlap_weight=overlap_weight)


def test_at_weight_1_a_decoding_block_weighs_as_much_as_one_to_compute() -> None:
    """Five blocks held, six in decode: 0.1 + 6 against 5.1. At weight 4 it is 0.4 + 6 against 20.4."""
    ask, warm, idle = an_ask(*range(5)), an_account(decodes=[600]), an_account()

    assert 1 == a_rule(1).choose(a_choice(ask, warm, idle, hits=[5, 0]))
    assert 0 == a_rule(4).choose(a_choice(ask, warm, idle, hits=[5, 0]))


def test_a_waiting_prompt_counts_as_work_and_as_blocks_whole_until_its_first_token() -> None:
    """Four blocks, 0.3 s of 0.4 s into its turn, are 4 + 4: more than seven in decode, less than nine."""
    waits = an_account(pending=[400])

    assert 1 == a_rule(1).choose(a_choice(an_ask(1), waits, an_account(decodes=[700]), now=0.3))
    assert 0 == a_rule(1).choose(a_choice(an_ask(1), waits, an_account(decodes=[900]), now=0.3))
