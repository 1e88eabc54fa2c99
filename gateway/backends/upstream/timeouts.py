"""Time limits of a worker, phase by phase."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds, each phase for itself; they may fire late by the sweep of the pool (0.2 s unless set otherwise).

    Raises:
        ValueError: one of them is not above zero.
    """

    connect_s: float = 5.0
    """Name lookup, TCP and TLS handshake together."""
    first_byte_s: float | None = 600.0
    """Time from the call of `send` to status and headers (a stream: to the first byte of its body). Waiting for a free
    connection or in the worker's queue counts. None: only *total_s* bounds it."""
    idle_s: float = 300.0
    """Time between two pieces of a body while the reader waits; a slow reader does not use it up."""
    total_s: float = 3600.0
    """Time from the call of `send` to the last byte."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be above zero, not {value}")
