import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.server.descriptors import PER_CLIENT, clients_within, raise_limit, table_size


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


@pytest.mark.parametrize(
    ("clients", "limit", "room"),
    [(200, None, 912), (200, 20_000, 912), (384, 1_024, 1_024), (10**6, None, 65_536), (10**6, 10**6, 65_536)],
)
def test_there_is_room_for_all_clients_and_what_else_there_is(clients: int, limit: int | None, room: int) -> None:
    """Within the limit, and for half a MiB at most: who has more clients than that has them nevertheless."""
    assert room == table_size(clients, limit)


def room() -> int:
    """Descriptors that the kernel's table of this process holds."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("FDSize:")[2].split(maxsplit=1)[0])


def in_a_process(call: str) -> list[int]:
    """Room and open descriptors before and after *call*, in a process that has few."""
    report = "print(room(), len([*Path('/proc/self/fd').iterdir()]))"
    imports = [
        "import resource",
        "from pathlib import Path",
        "from gateway.server.descriptors import preallocate",
        "from tests.gateway.server.test_descriptors import room",
    ]
    code = "\n".join([*imports, report, call, report])
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    return [int(number) for number in ran.stdout.split()]


@pytest.mark.e2e
def test_the_table_has_room_for_all_clients_from_the_start() -> None:
    """Nothing stays open."""
    before, opened, after, opened_after = in_a_process("preallocate(912)")

    assert before < 912 <= after
    assert opened == opened_after


@pytest.mark.e2e
def test_no_room_is_made_that_the_limit_forbids() -> None:
    """This is not an error: the table then grows as usual."""
    before, _, after, _ = in_a_process("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); preallocate(912)")

    assert before == after
