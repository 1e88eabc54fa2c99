"""Count client connections by address, so that one address cannot use up all connections."""

from collections.abc import Sequence

from gateway.protocol.networks import Networks, address_in


class Addresses:
    """Number of open client connections by address. An IPv6 /64 network counts as one address, because one host usually
    has a whole /64.

    Each address outside the *unlimited* networks may have at most *limit* connections. The number is not limited if
    *limit* is None.
    """

    __slots__ = ("_counts", "_limit", "_unlimited")

    def __init__(self, limit: int | None = None, unlimited: Sequence[str] = ()) -> None:
        self._limit = limit
        self._unlimited = Networks(unlimited) if unlimited else None
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of client addresses with open connections."""
        return len(self._counts)

    def enter(self, client: tuple[str, int] | None) -> bool:
        """Count one more connection of *client* and return True. If the address already has too many, return False
        without counting.
        """
        if client is None or self._limit is None:
            return True
        network = _network(client[0])
        count = self._counts.get(network, 0)
        if count >= self._limit and not self._is_unlimited(client[0]):
            return False
        self._counts[network] = count + 1
        return True

    def leave(self, host: str | None) -> None:
        """Remove one connection of the address *host* from the count. If *host* is None, do nothing."""
        if host is None or self._limit is None:
            return
        network = _network(host)
        count = self._counts.get(network, 0)
        if count > 1:
            self._counts[network] = count - 1
        else:
            self._counts.pop(network, None)

    def _is_unlimited(self, host: str) -> bool:
        address = address_in(host) if self._unlimited is not None else None
        return address is not None and self._unlimited is not None and address in self._unlimited


def _network(host: str) -> str:
    if ":" not in host:
        return host
    address = address_in(host)
    if address is None or address.version == 4:  # an IPv4 address in IPv6 notation
        return host if address is None else str(address)
    return address.exploded[:19]
