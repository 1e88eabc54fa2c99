import random

from benchmarks.policies.least_requests import LeastRequests
from tests.benchmarks.policies.examples import a_choice, an_account, an_ask


def test_the_fewest_requests_win_however_long_they_are() -> None:
    """One huge prompt against two that decode; those that wait and those that decode count the same."""
    huge, two, mixed = an_account(pending=[9000]), an_account(decodes=[10, 10]), an_account(pending=[10], decodes=[10])

    assert 1 == LeastRequests(random.Random(0)).choose(a_choice(an_ask(1), two, huge, mixed, hits=[1, 0, 1]))
