"""Time limits for requests to a worker, by phase."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds. The pool checks them at its sweep interval (0.2 s by default), so timeouts can occur
    later by that time.

    Raises:
        ValueError: if a time limit is not above zero.
    """

    connect_s: float = 5.0
    """Seconds for name lookup, TCP connection and TLS handshake together."""
    first_byte_s: float | None = 600.0
    """Seconds from sending to status and headers, or to the first body byte of a stream. They include the wait for a
    free connection and in the worker's queue. If None, only *total_s* applies.
    """
    idle_s: float = 300.0
    """Longest pause in seconds between two pieces of a body while the reader waits. A slow reader's delay does not
    count.
    """
    total_s: float = 3600.0
    """Seconds from sending a request to the last byte of its response."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be greater than zero, not {value}")
