"""Retry policy: how often a request is sent, and how long it waits, before its caller gets an error."""

from dataclasses import dataclass

DEADLINE_SHARE = 0.5
"""Share of the caller's deadline that a request may wait for a worker: the answer takes time as well."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The settings of `retry`."""

    max_attempts: int | None = None
    """Attempts at workers; None: one at each."""
    wait_s: float = 0.0
    """Longest wait for a worker while none is available."""
    first_byte_factor: float = 3.0
    first_byte_margin_s: float = 5.0
    stall_gaps: float = 20.0
    stall_s: float = 1.0

    def max_wait_s(self, deadline_s: float | None) -> float:
        """Return how long a request may wait for workers in all; *deadline_s* is its caller's, None if unknown."""
        return self.wait_s if deadline_s is None else min(self.wait_s, DEADLINE_SHARE * deadline_s)

    def first_byte_s(self, predicted_s: float) -> float:
        """Return how long to wait for a first byte predicted in *predicted_s*, while another worker could be asked."""
        return self.first_byte_factor * predicted_s + self.first_byte_margin_s

    def max_pause_s(self, gap_s: float | None) -> float | None:
        """Return how long a stream may pause whose tokens come every *gap_s*; None if that is unknown."""
        return None if gap_s is None else max(self.stall_s, self.stall_gaps * gap_s)
