"""The seam for observers of a fleet's bookings: replicas of the gateway that should know of them too."""

from typing import Protocol

from routing.booking import Booking, Outcome


class BookingObserver(Protocol):
    """Is notified of the bookings that this gateway makes. Calls must be quick and never fail."""

    def booked(self, booking: Booking) -> None:
        """Note that *booking* counts as load from this moment."""
        ...

    def first_byte(self, booking: Booking) -> None:
        """Note the end of the prefill of *booking*. Called once, for streams only."""
        ...

    def released(self, booking: Booking, outcome: Outcome) -> None:
        """Note the end of *booking*. Called twice if it counted as lost and was released all the same."""
        ...
