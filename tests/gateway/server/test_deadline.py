import asyncio
from typing import cast

from gateway.server.deadline import ClientDeadline
from gateway.server.shared_state import ConnectionLimits

LIMITS = ConnectionLimits(keep_alive_s=75, write_timeout_s=300, body_idle_s=60, min_body_bytes_per_s=100)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now


def deadline(clock: Clock, limits: ConnectionLimits = LIMITS) -> ClientDeadline:
    return ClientDeadline(limits, cast("asyncio.AbstractEventLoop", clock))


def test_a_request_and_a_read_have_their_own_limits() -> None:
    """The client waits for the gateway until one of them begins."""
    client = deadline(Clock())
    first = client.due
    client.expect_request()
    request = client.due
    client.expect_read()

    assert (None, 1075.0, 1300.0) == (first, request, client.due)


def test_a_body_has_20_seconds_before_its_rate_counts() -> None:
    """After that each second needs 100 bytes; no piece may be later than 60 s."""
    clock = Clock()
    client = deadline(clock)
    client.start_body()
    client.expect_body(0)
    first = client.due
    clock.now = 1015.0
    client.expect_body(1000)
    second = client.due
    client.expect_body(1_000_000)

    assert (1020.0, 1030.0, 1075.0) == (first, second, client.due)


def test_a_pause_is_not_counted_as_time_of_the_body() -> None:
    clock = Clock()
    client = deadline(clock)
    client.start_body()
    client.expect_body(0)
    client.pause()
    paused = client.due
    clock.now = 1500.0
    client.resume()
    client.expect_body(0)

    assert (None, 1520.0) == (paused, client.due)


def test_the_next_check_misses_no_limit() -> None:
    """It comes after the shortest limit, or when the client is due."""
    client = deadline(Clock(), ConnectionLimits(keep_alive_s=5))
    idle = client.next_check(1000.0)
    client.due = 1003.0

    assert (1005.0, 1003.0) == (idle, client.next_check(1000.0))
