"""How hard a request is tried before its caller hears that it failed."""

from dataclasses import dataclass

PATIENCE_SHARE = 0.5
"""Of the time that its caller waits, what a request may wait for a worker: whoever answers then needs time as well."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """The settings of `retry`, as a request needs them."""

    most_attempts: int | None = None
    """Workers tried; None: every one once."""
    wait_s: float = 0.0
    """For a worker, when none is there."""
    first_byte_factor: float = 3.0
    first_byte_margin_s: float = 5.0
    stall_gaps: float = 20.0
    stall_s: float = 1.0

    def wait_at_most_s(self, deadline_s: float | None) -> float:
        """How long a request may wait for workers in all, whose caller waits *deadline_s*; None: nobody knows."""
        return self.wait_s if deadline_s is None else min(self.wait_s, PATIENCE_SHARE * deadline_s)

    def first_byte_s(self, predicted_s: float) -> float:
        """How long to wait for a first byte that was predicted to come in *predicted_s*, if somebody else is there."""
        return self.first_byte_factor * predicted_s + self.first_byte_margin_s

    def pause_s(self, gap_s: float | None) -> float | None:
        """How long a stream may pause whose tokens come every *gap_s*; None where that is not known."""
        return None if gap_s is None else max(self.stall_s, self.stall_gaps * gap_s)
