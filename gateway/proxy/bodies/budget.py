"""Limit on the total memory of all request bodies."""

from typing import Final

from gateway.protocol.errors import MemoryShort


class BodyBudget:
    """Total size in bytes of all large request bodies that are being received, decoded or sent."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0

    def take(self, size: int) -> None:
        """Count *size* additional bytes of request bodies.

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
    """Number of bytes that one request uses of a `BodyBudget`."""

    __slots__ = ("_budget", "taken_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.taken_bytes = 0

    def cover(self, size: int) -> None:
        """Increase the request's share of the budget to *size* bytes. Raise MemoryShort if this exceeds the budget."""
        missing = size - self.taken_bytes
        if missing > 0:
            self._budget.take(missing)
            self.taken_bytes = size

    def close(self) -> None:
        """Return all bytes of the request to the budget. A second call does nothing."""
        self._budget.give_back(self.taken_bytes)
        self.taken_bytes = 0
