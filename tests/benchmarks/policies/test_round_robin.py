from benchmarks.policies.round_robin import RoundRobin
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def test_each_has_its_turn_whatever_its_load() -> None:
    rule = RoundRobin()
    choice = a_choice(an_ask(1), an_account(pending=[9000]), an_account(), an_account())

    assert [0, 1, 2, 0] == [rule.choose(choice) for _ in range(4)]
