"""Events of the engines' host tiers, for the policies that use them."""

from collections.abc import Sequence
from typing import Protocol


class HostListener(Protocol):
    """A policy that knows host tiers. The promises of `Policy` for `stored` and `removed` hold here as well."""

    def host_stored(self, worker: int, blocks: Sequence[int], now: float) -> None:
        """Receive *blocks* of which the host tier of *worker* now holds a copy."""
        ...

    def host_removed(self, worker: int, blocks: Sequence[int], now: float) -> None:
        """Receive *blocks* that the host tier of *worker* has evicted."""
        ...


class HostEvents:
    """Passes the events of all host tiers on to the policies that have subscribed. Most policies do not."""

    def __init__(self) -> None:
        self._listeners: list[HostListener] = []

    def subscribe(self, listener: HostListener) -> None:
        self._listeners.append(listener)

    def stored(self, worker: int, blocks: Sequence[int], now: float) -> None:
        for listener in self._listeners:
            listener.host_stored(worker, blocks, now)

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:
        for listener in self._listeners:
            listener.host_removed(worker, blocks, now)
