"""The measured time of prefills, some of which an engine computes together."""

from routing.booking import Booking

SAME_STEP_S = 0.005
"""First bytes that are closer than this left the engine in one step and share its time."""


class StepTimer:
    """Sets `Booking.service_s`: the time since a prefill began, divided among all prefills of the same step."""

    def __init__(self) -> None:
        self._same_step: list[Booking] = []

    def begin_step(self) -> None:
        """Separate later first bytes from earlier ones."""
        self._same_step = []

    def measure(self, booking: Booking, began_at: float, now: float) -> None:
        """Measure *booking*, whose prefill is over. *began_at* is when the worker began the first pending prefill."""
        since = max(booking.booked_at, began_at)
        if now - began_at > SAME_STEP_S:
            self._same_step = []
        self._same_step.append(booking)
        together_s = now - since + sum(other.service_s or 0.0 for other in self._same_step[:-1])
        work_s = max(1e-9, sum(other.work_s for other in self._same_step))
        for other in self._same_step:
            other.service_s = together_s * other.work_s / work_s
