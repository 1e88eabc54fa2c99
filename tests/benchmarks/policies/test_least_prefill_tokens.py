import random

from benchmarks.policies.least_prefill_tokens import LeastPrefillTokens
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def test_the_fewest_tokens_win_however_many_requests_they_are() -> None:
    """Two short prompts and three decodes against a long one."""
    many, one = an_account(pending=[100, 100], decodes=[500, 500, 500]), an_account(pending=[900])

    assert 1 == LeastPrefillTokens(random.Random(0)).choose(a_choice(an_ask(1), one, many, hits=[1, 0]))


def test_tokens_that_should_have_been_computed_do_not_count() -> None:
    two, one = an_account(pending=[100, 150]), an_account(pending=[900])

    assert 0 == LeastPrefillTokens(random.Random(0)).choose(a_choice(an_ask(1), one, two, now=0.8))
