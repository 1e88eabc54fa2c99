"""Memory that request bodies may take together."""

from typing import Final

from gateway.errors import MemoryShort


class BodyBudget:
    """Bytes of large bodies that are being received, decoded or sent at one time, of all callers together."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0

    def take(self, size: int) -> None:
        """Count *size* more bytes.

        Raises:
            MemoryShort: they do not fit, and nothing was counted.
        """
        if self.used_bytes + size > self.max_bytes:
            raise MemoryShort(
                "The request bodies in flight take all the memory that they may (server.max_bodies_bytes). Retry later",
                retry_after_s=1,
            )
        self.used_bytes += size

    def give_back(self, size: int) -> None:
        self.used_bytes -= size


class BodyShare:
    """What one request has taken of a `BodyBudget`."""

    __slots__ = ("_budget", "taken_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.taken_bytes = 0

    def cover(self, size: int) -> None:
        """Take what is missing to *size* bytes in all. Raises as `BodyBudget.take`."""
        missing = size - self.taken_bytes
        if missing > 0:
            self._budget.take(missing)
            self.taken_bytes = size

    def close(self) -> None:
        """Give all of it back. May be called twice."""
        self._budget.give_back(self.taken_bytes)
        self.taken_bytes = 0
