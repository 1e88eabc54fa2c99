"""The bodies that `python -m tests.fuzz.shapes` makes, some hundred of them small and without a gateway."""

import pytest

from gateway.protocol.errors import ClientError
from gateway.proxy.bodies.child import answer_to
from tests.fuzz.shapes import example


def test_a_seed_makes_the_same_body_again() -> None:
    assert example(7) == example(7)
    assert example(7) != example(8)


@pytest.mark.parametrize("seed", range(300))
def test_a_body_is_read_or_refused_and_nothing_else(seed: int) -> None:
    tried = example(seed, limit=20_000)
    answer = answer_to(tried.path.encode(), tried.media.encode(), tried.body, max_values=5_000)
    if answer.kind:
        with pytest.raises(ClientError):
            answer.to_body()
    else:
        assert answer.to_body() is not None
