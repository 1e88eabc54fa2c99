import random

from benchmarks.policies.at_random import AtRandom
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def test_all_are_chosen_alike_whatever_their_load() -> None:
    rule = AtRandom(random.Random(0))
    choice = a_choice(an_ask(1), an_account(pending=[9000]), an_account(), an_account())
    chosen = [rule.choose(choice) for _ in range(600)]

    assert all(150 <= chosen.count(worker) <= 250 for worker in range(3))
