from gateway.server.addresses import Addresses


def test_an_address_has_its_own_limit() -> None:
    """What has gone does not count, and nothing stays of an address without connections."""
    addresses = Addresses(2)
    entered = [addresses.enter(("10.0.0.1", port)) for port in range(3)] + [addresses.enter(("10.0.0.2", 0))]
    for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        addresses.leave(host)

    assert ([True, True, False, True], 0) == (entered, len(addresses))


def test_one_network_of_ipv6_is_one_address() -> None:
    """A host has 2^64 addresses. Both notations of an IPv4 address are one address, and a zone does not matter."""
    addresses = Addresses(1)
    hosts = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.1", "fe80::1%eth0", "nowhere:")

    assert [True, False, True, True, False, True, True] == [addresses.enter((host, 1)) for host in hosts]


def test_proxies_have_no_limit() -> None:
    """Unix sockets have none either, and a server may be without a limit."""
    addresses = Addresses(1, ["10.0.0.0/8"])

    assert all(addresses.enter(("10.0.0.1", port)) for port in range(5))
    assert all(addresses.enter(None) for _ in range(5))
    assert all(Addresses().enter(("10.0.0.1", port)) for port in range(5))
    addresses.leave(None)
    Addresses().leave("10.0.0.1")
