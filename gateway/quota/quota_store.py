"""The seam behind which quotas are counted."""

from collections.abc import Sequence
from typing import Protocol

from gateway.ledger.entry import Draft
from gateway.quota.limit import Charge, Granted, Refused
from gateway.quota.seats import Counted, Seats


class QuotaStore(Protocol):
    """Counts by its own clock. What was reserved and never settled is settled when its lease ends, at what was likely.

    A *reservation* is an id that the caller made, unique for ever; all of its limits belong to one *team*.
    """

    def reserve_at_once(
        self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft
    ) -> Granted | Refused | None:
        """As `reserve`, where nothing has to be waited for; None: something has to be, and nothing is charged."""
        ...

    def seats(self, reservation: str, counted: Sequence[Counted]) -> Seats | None:
        """Where the limits of a reservation that was granted at once, *counted*, can be counted by numbers from now on.

        None: nowhere.
        """
        ...

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        """Take all of *charges*, or nothing. At most one round trip.

        What *lost* makes goes to the ledger should the lease end before the reservation is settled. It is asked at once
        or then, or, as of most reservations, never.

        Raises:
            StoreAway: it cannot be reached; nothing is charged.
        """
        ...

    def settle(self, team: str, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        """Replace what was reserved by *charges*, the same limits with what was really used, and book *entry*.

        Both happen exactly once, together, and soon: nobody waits for it, and it is tried again until it is done.
        The entry may be made at once, or when it is written; not at all if the reservation was settled before.
        Concurrent ones end, whatever their units. A refund is what was reserved less what was used.
        """
        ...

    def book(self, team: str, entry: Draft) -> None:
        """Book what was never reserved, as nothing limits it. As `settle` otherwise."""
        ...

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        """Units of each of *charges*' limits, all of them of periods, that are used or reserved, beyond it too.

        Raises:
            StoreAway: it cannot be told.
        """
        ...

    async def give(self, team: str, charges: Sequence[Charge]) -> None:
        """Have so much less be used of the limits of *charges*, all of them of periods; nothing at least.

        Raises:
            StoreAway: it may not have been done.
        """
        ...

    async def run(self) -> None:
        """Keep leases alive and carry out what nobody waits for, until cancelled; what is left is then carried out."""
        ...

    @property
    def is_degraded(self) -> bool:
        """Whether limits are held by less than the store, which is away."""
        ...

    @property
    def waiting_entries(self) -> int:
        """That the ledger does not have yet."""
        ...

    @property
    def dropped_entries(self) -> int:
        """That it will never have: they could not be written, and had no place to wait."""
        ...
