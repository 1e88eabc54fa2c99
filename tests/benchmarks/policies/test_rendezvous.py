import random
from collections import Counter

import pytest

from benchmarks.policies.desk import Choice
from benchmarks.policies.least_requests import LeastRequests
from benchmarks.policies.rendezvous import Rendezvous
from replay.policy import Ask
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def a_rule(k: int) -> Rendezvous:
    return Rendezvous(k, otherwise=LeastRequests(random.Random(0)))


def among(ask: Ask, workers: int) -> Choice:
    return a_choice(ask, *(an_account() for _ in range(workers)))


def test_a_session_stays_with_its_worker() -> None:
    """Whatever its prompts, and however loaded the worker is."""
    rule = a_rule(0)
    home = rule.choose(among(an_ask(1, session="alice"), 2))
    loads = [an_account(pending=[9000] if worker == home else []) for worker in range(2)]

    assert home == rule.choose(a_choice(an_ask(2, 3, session="alice"), *loads))


def test_the_kth_block_decides() -> None:
    """It names all before it: a hundred prompts with the same second block are together, others are spread."""
    rule = a_rule(2)
    together = {rule.choose(among(an_ask(1, 2, third), 4)) for third in range(100, 200)}
    spread = Counter(rule.choose(among(an_ask(1, second), 4)) for second in range(100, 500))

    assert 1 == len(together)
    assert all(60 <= spread[worker] <= 140 for worker in range(4))


def test_a_shorter_prompt_goes_by_its_last_block() -> None:
    assert [a_rule(1).choose(among(an_ask(block), 4)) for block in range(20)] == [
        a_rule(2).choose(among(an_ask(block), 4)) for block in range(20)
    ]


def test_a_worker_more_takes_only_what_becomes_its_own() -> None:
    """Nothing moves between the others."""
    rule = a_rule(1)
    for block in range(100):
        before, after = rule.choose(among(an_ask(block), 4)), rule.choose(among(an_ask(block), 5))

        assert after in {before, 4}


@pytest.mark.parametrize(("k", "ask"), [(0, an_ask(1)), (1, an_ask(session="alice"))])
def test_what_has_no_key_is_placed_otherwise(k: int, ask: Ask) -> None:
    """No session, or not one full block: to the fewest requests."""
    assert 1 == a_rule(k).choose(a_choice(ask, an_account(pending=[10]), an_account()))
