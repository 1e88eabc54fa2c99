"""Limit for failed logins by the address of the client."""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from gateway.protocol.networks import Address

MAX_FAILURES: Final = 10
"""Number of failed logins that an address can make at once."""
REFILL_S: Final = 30.0
"""Seconds after which an address can fail once more."""
MAX_ADDRESSES: Final = 4096
"""Maximum number of addresses to remember. The address that failed first is forgotten first."""


class LoginLimit:
    """Counter of failed logins. An IPv6 address counts as its /64 network, which usually belongs to one client."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def retry_after_s(self, address: Address | None) -> float:
        """Return the seconds that *address* must wait before the next attempt, or 0 if it may try now."""
        debt = self._debt(name_of(address))
        return max(0.0, (debt - MAX_FAILURES + 1) * REFILL_S)

    def count_failure(self, address: Address | None) -> None:
        """Count a failed login from *address*."""
        name = name_of(address)
        self._debts[name] = (self._debt(name) + 1, self._clock())
        while len(self._debts) > MAX_ADDRESSES:
            self._debts.popitem(last=False)

    def _debt(self, name: str) -> float:
        """Return the number of failures that count now."""
        failures, at = self._debts.get(name, (0.0, 0.0))
        return max(0.0, failures - (self._clock() - at) / REFILL_S)


def name_of(address: Address | None) -> str:
    """Return the text by which *address* is counted."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)
