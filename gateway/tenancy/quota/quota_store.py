"""The seam between limits and the store that counts them."""

from collections.abc import Sequence
from typing import Protocol

from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.checkpointed_meters import CheckpointedMeters
from gateway.tenancy.quota.limit import Charge, Granted, Refused


class QuotaStore(Protocol):
    """Counts limits by its own clock. A reservation that is not settled before its lease ends is settled as likely.

    A *reservation* is an id that the caller chose and that never repeats. All of its limits belong to one *team*.
    """

    @property
    def in_memory(self) -> CheckpointedMeters | None:
        """Limits that this process decides without waiting. None: each decision is a round trip."""
        ...

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        """Reserve all *charges*, or none. At most one round trip.

        *lost* makes the entry that is booked if the lease ends before the reservation is settled. It is called at once,
        at that time, or, for most reservations, never.

        Raises:
            StoreUnavailable: the store cannot be reached; nothing is charged.
        """
        ...

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        """Reconcile actual usage: replace what was reserved by *charges*, of the same limits, and book *entry*.

        Both happen exactly once, together and soon, in the background; a failed attempt is repeated. The entry is made
        at once or when it is written, and not at all if the reservation was settled before. Concurrent charges end,
        whatever their units.
        """
        ...

    def book(self, team: str, entry: Draft) -> None:
        """Book the entry of a request without limits, which was never reserved. Otherwise like `settle`."""
        ...

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        """Return the units used or reserved of the limits of *charges*, all of periods; may exceed the limits.

        Raises:
            StoreUnavailable: the store cannot be reached.
        """
        ...

    async def refund(self, team: str, charges: Sequence[Charge]) -> None:
        """Reduce what is used of the limits of *charges*, all of periods, by their units, at most to 0.

        Raises:
            StoreUnavailable: the refund may not have been made.
        """
        ...

    async def run(self) -> None:
        """Renew leases and write in the background until cancelled; then write the rest."""
        ...

    @property
    def is_degraded(self) -> bool:
        """Whether the store is unavailable and limits are enforced without it."""
        ...

    @property
    def waiting_entries(self) -> int:
        """Entries that the ledger does not have yet."""
        ...

    @property
    def dropped_entries(self) -> int:
        """Entries that the ledger will never have: they could not be written, and there was no room to keep them."""
        ...
