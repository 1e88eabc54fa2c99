import random
from collections import Counter

from benchmarks.policies.bounded_ring import BoundedRing
from benchmarks.policies.least_requests import LeastRequests
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def a_rule(workers: int = 4) -> BoundedRing:
    return BoundedRing(workers, k=2, load_factor=1.25, otherwise=LeastRequests(random.Random(0)))


def test_a_prefix_stays_with_its_worker_while_that_has_room() -> None:
    """A hundred prompts with the same second block, one after the other."""
    choices = [a_choice(an_ask(1, 2, third), *(an_account() for _ in range(4))) for third in range(100, 200)]

    assert 1 == len({a_rule().choose(choice) for choice in choices})


def test_prefixes_spread_over_the_workers() -> None:
    rule = a_rule()
    chosen = Counter(rule.choose(a_choice(an_ask(1, n), *(an_account() for _ in range(4)))) for n in range(100, 500))

    assert all(60 <= chosen[worker] <= 140 for worker in range(4))


def test_a_full_worker_sends_its_prefix_on_round_the_ring() -> None:
    """Sixteen requests of one prefix on four workers: in the end none may have more than 1.25 * 16 / 4 = 5."""
    accounts = [an_account() for _ in range(4)]
    rule, order = a_rule(), []
    for third in range(16):
        ask = an_ask(1, 2, 100 + third)
        worker = rule.choose(a_choice(ask, *accounts))
        accounts[worker].send(ask, 10, 0.0)
        order.append(worker)

    assert [1, 5, 5, 5] == sorted(account.requests for account in accounts)
    assert 5 == accounts[order[0]].requests


def test_a_prompt_of_no_full_block_goes_to_the_fewest_requests() -> None:
    """There is nothing to hash."""
    accounts = [an_account(pending=[10]), an_account(), an_account(pending=[10]), an_account(pending=[10])]

    assert 1 == a_rule().choose(a_choice(an_ask(), *accounts))
