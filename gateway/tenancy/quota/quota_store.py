"""Interface between quota limits and the store that counts them."""

from collections.abc import Sequence
from typing import Protocol

from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.checkpointed_meters import CheckpointedMeters
from gateway.tenancy.quota.limit import Charge, Granted, Refused


class QuotaStore(Protocol):
    """Store that counts limits by its own clock. If the lease of a reservation ends before it is settled, it is settled
    with its likely use.

    A *reservation* is an id that the caller chooses and never reuses. All of its limits belong to one *team*.
    """

    @property
    def in_memory(self) -> CheckpointedMeters | None:
        """Limits that the process decides in memory without waiting, or None if each decision takes a round trip."""
        ...

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        """Reserve all *charges*, or nothing if a limit cannot grant one of them. Takes at most two round trips, of
        which the first is that of other requests.

        *lost* returns the ledger entry that is booked if the lease ends before the reservation is settled. It is called
        at once, when the lease ends, or, for most reservations, never.

        Raises:
            StoreUnavailable: if the store cannot be reached. Nothing is charged then.
        """
        ...

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        """Reconcile actual usage: replace the reserved units with *charges*, which have the same limits, and record
        *entry* in the ledger.

        Both happen exactly once, together, in the background and without long delay. Failed attempts are repeated. The
        entry is created at once or when it is written, and is not created if the reservation was settled before.
        Charges of concurrency limits end, whatever their units.
        """
        ...

    def book(self, team: str, entry: Draft) -> None:
        """Record the ledger entry of a request without limits, which was never reserved. Otherwise, it is like
        `settle`.
        """
        ...

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        """Return the used or reserved units of the period limits in *charges*. They can exceed the limits.

        Raises:
            StoreUnavailable: if the store cannot be reached.
        """
        ...

    async def refund(self, team: str, charges: Sequence[Charge]) -> None:
        """Reduce the used units of the period limits in *charges* by the units of each charge, but not below 0.

        Raises:
            StoreUnavailable: if the store cannot be reached. The refund may not have been made.
        """
        ...

    async def run(self) -> None:
        """Renew leases and write data in the background until canceled. Then, write all remaining data."""
        ...

    @property
    def is_degraded(self) -> bool:
        """Whether the quota store is unavailable, so that limits are enforced without it."""
        ...

    @property
    def waiting_entries(self) -> int:
        """Number of entries that are not in the ledger yet."""
        ...

    @property
    def dropped_entries(self) -> int:
        """Number of ledger entries that were lost, because they could not be written and the buffer was full."""
        ...
