"""Measured prefill times, also for prefills that an engine computes together in one step."""

from routing.booking import Booking

SAME_STEP_S = 0.005
"""Maximum seconds between two first bytes from the same engine step. All prefills in a step share its time."""


class StepTimer:
    """Timer that sets `Booking.service_s`: the time since the prefill began, divided among all prefills of a step."""

    def __init__(self) -> None:
        self._same_step: list[Booking] = []

    def begin_step(self) -> None:
        """Start a new engine step, so that later first bytes are measured separately from earlier ones."""
        self._same_step = []

    def measure(self, booking: Booking, began_at: float, now: float) -> None:
        """Measure the ended prefill of *booking*. The worker began its first pending prefill at time *began_at*."""
        since = max(booking.booked_at, began_at)
        if now - began_at > SAME_STEP_S:
            self._same_step = []
        self._same_step.append(booking)
        together_s = now - since + sum(other.service_s or 0.0 for other in self._same_step[:-1])
        work_s = max(1e-9, sum(other.work_s for other in self._same_step))
        for other in self._same_step:
            other.service_s = together_s * other.work_s / work_s
