"""The connections there are, by the address that they come from, so that one address cannot take all."""

from collections.abc import Sequence

from gateway.teams.networks import Networks, address_in


class Addresses:
    """Counts connections; of IPv6 those of one /64, which is what one host is given.

    *most* is the limit of one address, None for no limit. Addresses in the networks *unlimited* have none.
    """

    __slots__ = ("_counts", "_most", "_unlimited")

    def __init__(self, most: int | None = None, unlimited: Sequence[str] = ()) -> None:
        self._most = most
        self._unlimited = Networks(unlimited) if unlimited else None
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        """Addresses that have connections."""
        return len(self._counts)

    def enter(self, client: tuple[str, int] | None) -> bool:
        """Count one connection more of *client*; False where it has too many, and then nothing is counted."""
        if client is None or self._most is None:
            return True
        network = _network(client[0])
        count = self._counts.get(network, 0)
        if count >= self._most and not self._is_unlimited(client[0]):
            return False
        self._counts[network] = count + 1
        return True

    def leave(self, host: str | None) -> None:
        """Forget a connection that was counted; None: there was none."""
        if host is None or self._most is None:
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
    if address is None or address.version == 4:  # an IPv4 address as IPv6 writes it
        return host if address is None else str(address)
    return address.exploded[:19]
