"""Load on workers that several fleets share. A booking by one fleet counts as load for the other fleets.

A worker serves several models if it has LoRA adapters, or if it is a frontend of several engines. Each model has a
separate fleet that learns its own times and lengths. Only the load of the worker is the same for all fleets.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cache_index import WorkerId
from routing.booking import Booking


class SharingFleet(Protocol):
    """Booking methods of a fleet that shares workers with other fleets."""

    def book_beside(self, booking: Booking, now: float) -> Booking | None:
        """Count another fleet's *booking* as load. Return the copy, or None if this fleet does not have the worker."""
        ...

    def first_byte_elsewhere(self, booking: Booking, now: float) -> None: ...

    def release_elsewhere(self, booking: Booking, *, keep: bool, now: float, completion_tokens: int = 0) -> None: ...


class SharedWorkerLoad:
    """Service that passes each booking, of this gateway or a replica, on to the other fleets with its worker."""

    def __init__(self) -> None:
        self._fleets: Mapping[WorkerId, Sequence[SharingFleet]] = {}
        self._eased: Callable[[SharingFleet], None] | None = None
        self._copies: dict[Booking, list[tuple[SharingFleet, Booking]]] = {}
        self._beside: dict[SharingFleet, Counter[WorkerId]] = {}

    def set_fleets(
        self,
        fleets: Mapping[WorkerId, Sequence[SharingFleet]],
        eased: Callable[[SharingFleet], None] | None = None,
    ) -> None:
        """Set the fleets of each shared worker. Existing bookings are not changed.

        *eased* is called for each fleet whose worker's load falls because of another fleet, so that the fleet can send
        waiting requests.
        """
        self._fleets = fleets
        self._eased = eased

    def beside(self, fleet: SharingFleet, worker: WorkerId) -> int:
        """Return the number of requests of other fleets on *worker* that *fleet* counts as load."""
        counts = self._beside.get(fleet)
        return 0 if counts is None else counts[worker]

    def booked(self, fleet: SharingFleet, booking: Booking, now: float) -> None:
        """Record that *fleet* made *booking*. The cost is linear in the number of fleets that share the worker."""
        fleets = self._fleets.get(booking.worker)
        if fleets is None:
            return
        copies: list[tuple[SharingFleet, Booking]] = []
        for other in fleets:
            copy = None if other is fleet else other.book_beside(booking, now)
            if copy is not None:
                copies.append((other, copy))
                self._count(other, booking.worker, 1)
        if copies:
            self._copies[booking] = copies

    def began(self, booking: Booking, now: float) -> None:
        """Record that the prefill of *booking* has ended. A second call has no effect."""
        for fleet, copy in self._copies.get(booking, ()):
            fleet.first_byte_elsewhere(copy, now)
            if self._eased is not None:
                self._eased(fleet)

    def ended(self, booking: Booking, now: float) -> None:
        """Record that *booking* has ended. A second call has no effect."""
        for fleet, copy in self._copies.pop(booking, ()):
            fleet.release_elsewhere(copy, keep=True, now=now)
            self._count(fleet, booking.worker, -1)
            if self._eased is not None:
                self._eased(fleet)

    def _count(self, fleet: SharingFleet, worker: WorkerId, by: int) -> None:
        counts = self._beside.setdefault(fleet, Counter())
        counts[worker] += by
        if not counts[worker]:
            del counts[worker]
            if not counts:
                del self._beside[fleet]
