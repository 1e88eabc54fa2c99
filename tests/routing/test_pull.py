"""The pull of blocks by one worker from another one."""

from routing.pull import Pull
from tests.routing.examples import A, B


def test_pulls_are_equal_by_value() -> None:
    assert Pull(A, 64.0, 0.5) == Pull(A, 64.0, 0.5)
    assert Pull(A, 64.0, 0.5) != Pull(B, 64.0, 0.5)
