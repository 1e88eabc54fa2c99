"""Fleets that have workers in common: what one of them gives to such a worker is load for the others as well.

A worker serves several models where it has LoRA adapters, or where a frontend stands before several engines. Every
model has a fleet of its own, with what it learnt of times and lengths; only who is busy is the same for all.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cache_index import WorkerId
from routing.booking import Booking


class Neighbour(Protocol):
    """A fleet, as far as its neighbours know it."""

    def book_beside(self, booking: Booking, now: float) -> Booking | None:
        """*booking* of a neighbour counts as load here as well; answers what stands for it, if the worker is here."""
        ...

    def first_byte_elsewhere(self, booking: Booking, now: float) -> None: ...

    def release_elsewhere(self, booking: Booking, *, keep: bool, now: float, completion_tokens: int = 0) -> None: ...


class Neighbours:
    """Told of all bookings of the fleets that it knows, those of other gateways too; tells the others of a worker."""

    def __init__(self) -> None:
        self._fleets: Mapping[WorkerId, Sequence[Neighbour]] = {}
        self._eased: Callable[[Neighbour], None] | None = None
        self._copies: dict[Booking, list[tuple[Neighbour, Booking]]] = {}
        self._beside: dict[Neighbour, Counter[WorkerId]] = {}

    def set_fleets(
        self,
        fleets: Mapping[WorkerId, Sequence[Neighbour]],
        eased: Callable[[Neighbour], None] | None = None,
    ) -> None:
        """The fleets of every worker that is in more than one of them. What is booked already stays as it is.

        *eased* is told of each fleet one of whose workers has less to do because of another: somebody may wait there.
        """
        self._fleets = fleets
        self._eased = eased

    def beside(self, fleet: Neighbour, worker: WorkerId) -> int:
        """Requests that count as load of *worker* in *fleet*, and that are none of its own."""
        counts = self._beside.get(fleet)
        return 0 if counts is None else counts[worker]

    def booked(self, fleet: Neighbour, booking: Booking, now: float) -> None:
        """*fleet* has given *booking* to its worker. O(fleets that have it)."""
        fleets = self._fleets.get(booking.worker)
        if fleets is None:
            return
        copies: list[tuple[Neighbour, Booking]] = []
        for other in fleets:
            copy = None if other is fleet else other.book_beside(booking, now)
            if copy is not None:
                copies.append((other, copy))
                self._count(other, booking.worker, 1)
        if copies:
            self._copies[booking] = copies

    def began(self, booking: Booking, now: float) -> None:
        """The prefill of *booking* is over. Calling it again changes nothing."""
        for fleet, copy in self._copies.get(booking, ()):
            fleet.first_byte_elsewhere(copy, now)
            if self._eased is not None:
                self._eased(fleet)

    def ended(self, booking: Booking, now: float) -> None:
        """*booking* is released, or was lost. Calling it again changes nothing."""
        for fleet, copy in self._copies.pop(booking, ()):
            fleet.release_elsewhere(copy, keep=True, now=now)
            self._count(fleet, booking.worker, -1)
            if self._eased is not None:
                self._eased(fleet)

    def _count(self, fleet: Neighbour, worker: WorkerId, by: int) -> None:
        counts = self._beside.setdefault(fleet, Counter())
        counts[worker] += by
        if not counts[worker]:
            del counts[worker]
            if not counts:
                del self._beside[fleet]
