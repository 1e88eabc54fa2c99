import resource
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.server.descriptors import PER_CLIENT, clients_within, raise_limit


@pytest.fixture
def lowered() -> Iterator[int]:
    """The soft limit is lower than the hard one, which is given; afterwards it is as it was."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_as_far_as_it_goes(lowered: int) -> None:
    """To the hard limit, twice as well as once."""
    most = None if lowered == resource.RLIM_INFINITY else lowered

    assert [most, most] == [raise_limit(), raise_limit()]
    assert (lowered, lowered) == resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.mark.parametrize(
    ("limit", "wanted", "fits"),
    [(None, 10**6, 10**6), (1_048_576, 10_000, 10_000), (20_000, 10_000, 9_744), (1_024, 10_000, 384), (1, 5, 1)],
)
def test_each_client_takes_two_and_some_are_spared(limit: int | None, wanted: int, fits: int) -> None:
    """512 at most, and a quarter at most; one client is let in whatever the limit is."""
    assert fits == clients_within(limit, wanted)


@given(st.integers(2, 2**31), st.integers(1, 2**31))
def test_what_is_let_in_never_takes_all(limit: int, wanted: int) -> None:
    """Neither more than was wanted, nor more than there is."""
    fits = clients_within(limit, wanted)

    assert 1 <= fits <= wanted
    assert fits == 1 or fits * PER_CLIENT <= limit
