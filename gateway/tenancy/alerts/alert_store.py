"""Interface for stored alerts: which alerts exist, and which of them each receiver has got.

A store of alerts also holds other messages for receivers, such as events of batches, each kind under a name of its own.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol

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


class NewEntry(Protocol):
    """Message to add to the store, such as a `NewAlert`."""

    @property
    def body(self) -> bytes:
        """JSON of the message."""
        ...

    @property
    def team(self) -> str: ...

    @property
    def period(self) -> str:
        """Text that divides the marks of the team, such as a day."""
        ...

    @property
    def mark(self) -> str:
        """Text that is unique for the message within its team and period."""
        ...

    @property
    def until(self) -> float:
        """Time until which the mark is kept, in seconds since 1970."""
        ...

    @property
    def is_by_caller(self) -> bool:
        """Whether callers can cause any number of such messages, so that `MAX_MARKS` applies."""
        ...


class StoredAlert(NamedTuple):
    number: int
    body: bytes
    """JSON of the `Alert`, or of another message."""


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

    async def add(self, alert: NewEntry) -> Added:
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
