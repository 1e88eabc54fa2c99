import random

from benchmarks.policies.min_ttft import MinTtft
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def test_the_soonest_first_token_wins() -> None:
    """0.15 s of backlog and 0.01 s of work, against 0.21 s of work; 0.25 s of backlog are too much."""
    rule, ask = MinTtft(random.Random(0), prefill_tokens_per_s=1000.0), an_ask(1, 2)

    assert 0 == rule.choose(a_choice(ask, an_account(pending=[150]), an_account(), hits=[2, 0]))
    assert 1 == rule.choose(a_choice(ask, an_account(pending=[250]), an_account(), hits=[2, 0]))
    assert 0 == rule.choose(a_choice(ask, an_account(pending=[250]), an_account(), hits=[2, 0], now=0.1))


def test_decodes_do_not_count() -> None:
    """Fifty of them against a token more to compute."""
    rule = MinTtft(random.Random(0), prefill_tokens_per_s=1000.0)

    assert 0 == rule.choose(a_choice(an_ask(1), an_account(decodes=[10] * 50), an_account(), hits=[1, 0]))
