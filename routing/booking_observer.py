"""Interface for observers of a fleet's bookings, such as other gateway replicas that must know about them."""

from typing import Protocol

from routing.booking import Booking, Outcome


class BookingObserver(Protocol):
    """Receives the bookings that this gateway makes. Its methods must return quickly and never raise."""

    def booked(self, booking: Booking) -> None:
        """Record that *booking* counts as load from now on."""
        ...

    def first_byte(self, booking: Booking) -> None:
        """Record the end of the prefill of *booking*. This method is called once per booking, and only for streams."""
        ...

    def released(self, booking: Booking, outcome: Outcome) -> None:
        """Record the end of *booking*. It may be reported twice, if the booking's lease expired before its release."""
        ...
