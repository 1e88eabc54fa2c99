"""Interface for observers of a fleet's bookings, such as other gateway replicas that count them as load."""

from typing import Protocol

from routing.booking import Booking, Outcome


class BookingObserver(Protocol):
    """Receiver of the bookings that this gateway makes. Its methods must return quickly and never raise exceptions."""

    def booked(self, booking: Booking) -> None:
        """Notify the observer that *booking* counts as load from now on."""
        ...

    def first_byte(self, booking: Booking) -> None:
        """Notify the observer that the prefill of *booking* has ended, once per booking, and only for streams."""
        ...

    def released(self, booking: Booking, outcome: Outcome) -> None:
        """Notify the observer that *booking* has ended, possibly twice if the lease expired before the release."""
        ...
