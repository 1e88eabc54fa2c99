import random

import pytest

from benchmarks.policies.externality import Externality
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def a_rule(*, busy: int = 0, idle: int = 4) -> Externality:
    """At 600 s, after ten minutes in which *busy* workers had prefill to do and *idle* ones had not."""
    rule = Externality(random.Random(0), prefill_tokens_per_s=1000.0, prefill_fixed_s=0.0)
    accounts = [an_account(pending=[10]) for _ in range(busy)] + [an_account() for _ in range(idle)]
    rule.choose(a_choice(an_ask(9), *accounts, now=600.0))
    return rule


@pytest.mark.parametrize(
    ("busy", "idle", "worth_s"),
    [(0, 4, 0.2), (2, 2, 0.4), (3, 1, 0.8), (4, 0, 1.0)],
)
def test_a_second_of_work_is_dearer_the_busier_the_fleet(busy: int, idle: int, worth_s: float) -> None:
    """0.2 s less of work are worth 0.2 s of backlog, or 2, 4 and, at the limit, 5 times as much."""
    chosen = [
        a_rule(busy=busy, idle=idle).choose(
            a_choice(an_ask(1, 2), an_account(pending=[tokens], at=600.0), an_account(), hits=[2, 0], now=600.0)
        )
        for tokens in (int(worth_s * 1000) - 5, int(worth_s * 1000) + 5)
    ]

    assert [0, 1] == chosen


def test_the_busy_share_is_forgotten() -> None:
    """Five minutes later, with idle workers in between, the price is 1 again."""
    rule = a_rule(busy=4, idle=0)
    rule.choose(a_choice(an_ask(9), an_account(), an_account(), now=900.0))
    busy = an_account(pending=[250], at=900.0)

    assert 1 == rule.choose(a_choice(an_ask(1, 2), busy, an_account(), hits=[2, 0], now=900.0))


def test_every_decode_costs_two_milliseconds() -> None:
    """105 of them against 0.2 s of work; 95 do not outweigh it."""
    chosen = [
        a_rule().choose(a_choice(an_ask(1, 2), an_account(decodes=[10] * count), an_account(), hits=[2, 0], now=600.0))
        for count in (95, 105)
    ]

    assert [0, 1] == chosen
