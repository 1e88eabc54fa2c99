"""Facts about the limit for failed logins."""

from ipaddress import ip_address

from gateway.console.login_limit import MAX_ADDRESSES, LoginLimit
from tests.gateway.examples import Clock

ONE, OTHER = ip_address("192.0.2.1"), ip_address("192.0.2.2")


def test_ten_failures_are_free_and_then_each_costs_30_seconds() -> None:
    clock = Clock()
    limit = LoginLimit(clock=clock)
    for _ in range(9):
        limit.count_failure(ONE)
    assert 0 == limit.retry_after_s(ONE)
    limit.count_failure(ONE)

    assert (30, 0) == (limit.retry_after_s(ONE), limit.retry_after_s(OTHER))
    clock.now += 30
    assert 0 == limit.retry_after_s(ONE)
    limit.count_failure(ONE)
    assert 30 == limit.retry_after_s(ONE)


def test_addresses_of_one_ipv6_network_count_together() -> None:
    limit = LoginLimit(clock=Clock())
    for number in range(10):
        limit.count_failure(ip_address(f"2001:db8::{number:x}"))

    assert 30 == limit.retry_after_s(ip_address("2001:db8::ffff"))
    assert 0 == limit.retry_after_s(ip_address("2001:db8:0:1::1"))


def test_callers_without_an_address_count_together() -> None:
    limit = LoginLimit(clock=Clock())
    for _ in range(10):
        limit.count_failure(None)

    assert 30 == limit.retry_after_s(None)


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    limit = LoginLimit(clock=Clock())
    for _ in range(10):
        limit.count_failure(ONE)
    for number in range(MAX_ADDRESSES):
        limit.count_failure(ip_address(0x0A000000 + number))

    assert 0 == limit.retry_after_s(ONE)
