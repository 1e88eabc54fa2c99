"""IP addresses and networks of callers."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

MAX_CACHED = 1024
"""Maximum number of parsed addresses in the cache. To parse an address takes 2 us."""
MAX_LENGTH = 100
"""Maximum length in characters of an address to parse. It bounds the cache, and every address with zone and port is
shorter.
"""


class Networks:
    """Set of IPv4 or IPv6 addresses and networks, such as ``10.0.0.0/8``.

    Raises:
        ValueError: if an entry of *networks* is not valid.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ip_network(network) for network in networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def address_in(text: str) -> Address | None:
    """Return the IP address in *text*, with or without a port, or None if *text* contains no valid address.

    An IPv4 address in IPv6 notation, as dual-stack sockets report it, is returned as IPv4.
    """
    return None if len(text) > MAX_LENGTH else _parsed(text)


@lru_cache(MAX_CACHED)
def _parsed(text: str) -> Address | None:
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
        # A zone names a network link of this machine and is not part of the address: fe80::1%eth0.
        return address.ipv4_mapped or IPv6Address(int(address))
    return address


def source_of(peer: str | None, forwarded_for: str | None, proxies: Networks) -> Address | None:
    """Return the IP address of the client, or None if it is unknown.

    *peer* is the other end of the connection. *forwarded_for* contains all values of ``x-forwarded-for``, joined by
    commas. Only *proxies* are trusted, and each proxy appends the address of its client. Therefore the right-most
    address that is not a trusted proxy is the source. Any client can forge the addresses to the left of it.
    """
    source = None if peer is None else address_in(peer)
    if source is None or source not in proxies or forwarded_for is None:
        return source
    for text in reversed(forwarded_for.split(",")):
        source = address_in(text)
        if source is None or source not in proxies:
            break
    return source
