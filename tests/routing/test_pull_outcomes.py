"""What arrived by pulls, and pauses after failures."""

import pytest

from routing.pull import Pull
from routing.pull_outcomes import PullOutcomes
from tests.routing.examples import A, B

PULL = Pull(A, 1000.0, 0.1)


def ended(outcomes: PullOutcomes, cached_tokens: int | None, now: float = 0.0, pull: Pull = PULL) -> None:
    """The worker itself held 500 tokens."""
    outcomes.ended(pull, 500.0, cached_tokens, now)


@pytest.mark.parametrize(
    ("cached_tokens", "outcome", "pulled"),
    [
        (1500, "complete", 1000.0),
        (1400, "complete", 900.0),
        (1399, "partial", 899.0),
        (600, "partial", 100.0),
        (599, "missed", 99.0),
        (0, "missed", 0.0),
        (9000, "complete", 1000.0),
        (None, "unknown", 0.0),
    ],
)
def test_reported_tokens_show_what_arrived(cached_tokens: int | None, outcome: str, pulled: float) -> None:
    """1,000 tokens should arrive, with a tolerance of a tenth."""
    outcomes = PullOutcomes()
    ended(outcomes, cached_tokens)

    assert {outcome: 1} == {name: count for name, count in outcomes.counts.items() if count}
    assert pulled == outcomes.tokens


class TestPauses:
    def test_three_failures_in_a_row_stop_pulls_for_a_minute(self) -> None:
        outcomes = PullOutcomes()
        seen = []
        for at in (0.0, 1.0, 2.0):
            seen.append(outcomes.may_send(A, at))
            ended(outcomes, 500, at)

        assert [True, True, True] == seen
        assert [False, True] == [outcomes.may_send(A, at) for at in (61.9, 62.0)]
        assert outcomes.may_send(B, 3.0)

    def test_the_next_failure_begins_another_pause(self) -> None:
        outcomes = PullOutcomes()
        for at in (0.0, 1.0, 2.0, 70.0):
            ended(outcomes, 500, at)

        assert [False, True] == [outcomes.may_send(A, at) for at in (129.0, 130.0)]

    def test_a_success_ends_the_count(self) -> None:
        outcomes = PullOutcomes()
        for cached_tokens in (500, 500, 1500, 500, 500):
            ended(outcomes, cached_tokens)

        assert outcomes.may_send(A, 0.0)

    def test_a_worker_that_left_starts_without_failures(self) -> None:
        outcomes = PullOutcomes()
        for _ in range(3):
            ended(outcomes, 500)
        outcomes.forget_worker(A)

        assert outcomes.may_send(A, 0.0)
