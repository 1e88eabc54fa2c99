import pytest

from routing.candidate import Candidate
from routing.reason import Reason, reason_of
from tests.routing.examples import a_candidate


@pytest.mark.parametrize(
    ("reason", "order"),
    [
        ("none", []),
        ("cold", [a_candidate("a"), a_candidate("b")]),
        ("hit", [a_candidate("a", hit_blocks=3), a_candidate("b")]),
        ("hit", [a_candidate("a", hit_blocks=3), a_candidate("b", hit_blocks=3)]),
        ("spread", [a_candidate("a"), a_candidate("b", hit_blocks=1)]),
        ("spread", [a_candidate("a", hit_blocks=2), a_candidate("b"), a_candidate("c", hit_blocks=3)]),
    ],
)
def test_the_reason_compares_the_first_with_the_longest_hit(reason: Reason, order: list[Candidate]) -> None:
    """A table of orders and reasons."""
    assert reason == reason_of(order)
