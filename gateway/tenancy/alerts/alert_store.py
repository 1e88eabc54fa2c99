"""Interface for stored alerts: which alerts exist, and which of them each receiver has got."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol

from gateway.tenancy.alerts.alert import NewAlert

MAX_ALERTS: Final = 10_000
"""Maximum number of stored alerts, which take about 5 MB. Older alerts are removed, and a receiver that did not get
them loses them.
"""
MAX_MARKS: Final = 1000
"""Maximum number of alerts of one team and period about owners whom callers name. Without it, callers could fill the
store with names.
"""

Added = Literal["added", "known", "crowded"]
"""Outcome of `AlertStore.add`: the alert was added, or exists already, or the team has `MAX_MARKS` alerts."""


class StoredAlert(NamedTuple):
    number: int
    body: bytes
    """JSON of an `Alert`."""


class Waiting(NamedTuple):
    """Oldest alerts that a receiver has not got."""

    alerts: Sequence[StoredAlert]
    removed: int
    """Number of alerts that were removed before the receiver got them."""


class AlertStore(Protocol):
    """Alerts in one order, and for each receiver the number of the last alert that it has got.

    Every call raises StoreUnavailable if the store cannot be reached.
    """

    async def begin(self, receivers: Sequence[str]) -> None:
        """Add those of *receivers* that the store does not know. They get only alerts that are added later."""
        ...

    async def add(self, alert: NewAlert) -> Added:
        """Add *alert*, unless an alert with the same team, period and mark was added before."""
        ...

    async def waiting(self, receiver: str, count: int) -> Waiting:
        """Return the first *count* alerts that *receiver* has not got. A receiver that is not known gets none."""
        ...

    async def delivered(self, receiver: str, number: int) -> None:
        """Record that *receiver* has got all alerts up to *number*."""
        ...

    async def claim(self, sender: str, lease_s: float) -> bool:
        """Return whether *sender* is the gateway that delivers alerts, for the next *lease_s* seconds."""
        ...
