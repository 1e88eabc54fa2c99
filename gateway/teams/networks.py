"""Where requests come from, and from where they may come."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

REMEMBERED = 1024
"""Addresses that are not read again: it takes 2 us each time."""
LONGEST = 100
"""Characters; an address with zone and port has fewer, so what is remembered stays small."""


class Networks:
    """Addresses and networks such as ``10.0.0.0/8``, of either version.

    Raises:
        ValueError: one of *networks* is none.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ip_network(network) for network in networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def address_in(text: str) -> Address | None:
    """The address that *text* is, or begins with before a port; None: it is none.

    An IPv4 address that comes in IPv6's clothes, as sockets for both versions have it, is the IPv4 address.
    """
    return None if len(text) > LONGEST else _remembered(text)


@lru_cache(REMEMBERED)
def _remembered(text: str) -> Address | None:
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        # A zone tells a link of this machine, not an address: fe80::1%eth0.
        return address.ipv4_mapped or IPv6Address(int(address))
    return address


def source_of(peer: str | None, forwarded_for: str | None, proxies: Networks) -> Address | None:
    """The address that a request comes from; None: unknown.

    *peer* is the other end of the connection, *forwarded_for* all values of ``x-forwarded-for``, joined by commas. That
    is believed only of *proxies*, each of which adds whom it heard at the right: the source is the right-most that is
    no such proxy, since what stands left of it anybody can have written.
    """
    source = None if peer is None else address_in(peer)
    if source is None or source not in proxies or forwarded_for is None:
        return source
    for text in reversed(forwarded_for.split(",")):
        source = address_in(text)
        if source is None or source not in proxies:
            break
    return source
