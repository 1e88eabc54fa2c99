"""Retry policy that limits how often a request is sent and how long it waits before the caller gets an error."""

from dataclasses import dataclass

DEADLINE_SHARE = 0.5
"""Fraction of the caller's deadline for which a request can wait for a worker. The remaining time is for the answer."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Settings in the section `retry`, as plain values."""

    max_attempts: int | None = None
    """Maximum number of attempts at workers, or None to try each worker at most once."""
    wait_s: float = 0.0
    """Maximum seconds that a request waits while no worker is available."""
    first_byte_factor: float = 3.0
    first_byte_margin_s: float = 5.0
    stall_gaps: float = 20.0
    stall_s: float = 1.0

    def max_wait_s(self, deadline_s: float | None) -> float:
        """Return the total seconds that a request can wait for workers. *deadline_s* is the caller's deadline, or None
        if unknown.
        """
        return self.wait_s if deadline_s is None else min(self.wait_s, DEADLINE_SHARE * deadline_s)

    def first_byte_s(self, predicted_s: float) -> float:
        """Return the seconds to wait for a first byte before another worker is tried. The first byte is predicted in
        *predicted_s* seconds.
        """
        return self.first_byte_factor * predicted_s + self.first_byte_margin_s

    def max_pause_s(self, gap_s: float | None) -> float | None:
        """Return the longest permitted pause in seconds in a stream with *gap_s* seconds between tokens, or None if
        *gap_s* is None.
        """
        return None if gap_s is None else max(self.stall_s, self.stall_gaps * gap_s)
