"""The seam behind which somebody is told what a fleet has given to its workers: replicas that should know it too."""

from typing import Protocol

from routing.booking import Booking, Outcome


class Witness(Protocol):
    """Told of a fleet's own bookings, never of those that it was told of itself. Each call is quick and never fails."""

    def booked(self, booking: Booking) -> None:
        """It counts as load from this moment on."""
        ...

    def first_byte(self, booking: Booking) -> None:
        """Its prefill is over. Told once, of streams only."""
        ...

    def released(self, booking: Booking, outcome: Outcome) -> None:
        """It is over. It may be told twice, of one that was taken for lost and ended all the same."""
        ...
