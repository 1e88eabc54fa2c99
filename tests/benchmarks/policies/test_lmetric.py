import random

from benchmarks.policies.lmetric import LMetric
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def test_the_product_decides() -> None:
    """210 tokens at an idle worker; 110 at one with one request are 220, 10 at one with two are 30."""
    rule, ask = LMetric(random.Random(0)), an_ask(1, 2)
    one, two, idle = an_account(decodes=[500]), an_account(decodes=[500, 500]), an_account()

    assert 1 == rule.choose(a_choice(ask, one, idle, hits=[1, 0]))
    assert 0 == rule.choose(a_choice(ask, two, idle, hits=[2, 0]))


def test_a_waiting_prompt_counts_whole_until_its_first_token() -> None:
    """(100 + 110) * 2 = 420, also when it should be done; three decodes are 110 * 4 = 440, two 330."""
    rule, waits = LMetric(random.Random(0)), an_account(pending=[100])

    assert 0 == rule.choose(a_choice(an_ask(1), waits, an_account(decodes=[10] * 3), now=0.1))
    assert 1 == rule.choose(a_choice(an_ask(1), waits, an_account(decodes=[10] * 2), now=0.1))
