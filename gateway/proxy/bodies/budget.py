"""A limit on the memory of all request bodies together."""

from typing import Final

from gateway.protocol.errors import MemoryShort


class BodyBudget:
    """Counts the bytes of all large bodies that are being received, decoded or sent."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0

    def take(self, size: int) -> None:
        """Count *size* more bytes.

        Raises:
            MemoryShort: the bytes do not fit; nothing was counted.
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
    """The bytes that one request has taken from a `BodyBudget`."""

    __slots__ = ("_budget", "taken_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.taken_bytes = 0

    def cover(self, size: int) -> None:
        """Raise the share to *size* bytes. Raises the error of `BodyBudget.take`."""
        missing = size - self.taken_bytes
        if missing > 0:
            self._budget.take(missing)
            self.taken_bytes = size

    def close(self) -> None:
        """Release all bytes. A second call does nothing."""
        self._budget.give_back(self.taken_bytes)
        self.taken_bytes = 0
