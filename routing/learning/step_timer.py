"""Measured prefill times, including prefills that an engine computes together in one step."""

from routing.booking import Booking

SAME_STEP_S = 0.005
"""Maximum seconds between two first bytes that left the engine in the same step. Prefills in one step share its time.
"""


class StepTimer:
    """Sets `Booking.service_s` to the time since the prefill began, divided among all prefills of the same step."""

    def __init__(self) -> None:
        self._same_step: list[Booking] = []

    def begin_step(self) -> None:
        """Start a new step, so that later first bytes are measured separately from earlier ones."""
        self._same_step = []

    def measure(self, booking: Booking, began_at: float, now: float) -> None:
        """Measure the ended prefill of *booking*. *began_at* is when the worker began its first pending prefill."""
        since = max(booking.booked_at, began_at)
        if now - began_at > SAME_STEP_S:
            self._same_step = []
        self._same_step.append(booking)
        together_s = now - since + sum(other.service_s or 0.0 for other in self._same_step[:-1])
        work_s = max(1e-9, sum(other.work_s for other in self._same_step))
        for other in self._same_step:
            other.service_s = together_s * other.work_s / work_s
