"""Limit on the memory that all request bodies use together."""

from typing import Final

from gateway.protocol.errors import MemoryShort


class BodyBudget:
    """Number of bytes of all large request bodies that are being received, decoded or sent."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0

    def take(self, size: int) -> None:
        """Count *size* more bytes of request bodies.

        Raises:
            MemoryShort: if the bytes exceed the limit. Nothing is counted in this case.
        """
        if self.used_bytes + size > self.max_bytes:
            raise MemoryShort(
                "The request bodies in flight use all of server.max_bodies_bytes. Retry in 1 s.",
                retry_after_s=1,
            )
        self.used_bytes += size

    def give_back(self, size: int) -> None:
        self.used_bytes -= size


class BodyShare:
    """Bytes of a `BodyBudget` that one request uses."""

    __slots__ = ("_budget", "taken_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.taken_bytes = 0

    def cover(self, size: int) -> None:
        """Increase the request's share of the budget to *size* bytes. Raise MemoryShort if the budget has no room."""
        missing = size - self.taken_bytes
        if missing > 0:
            self._budget.take(missing)
            self.taken_bytes = size

    def close(self) -> None:
        """Return all bytes to the budget. A second call does nothing."""
        self._budget.give_back(self.taken_bytes)
        self.taken_bytes = 0
