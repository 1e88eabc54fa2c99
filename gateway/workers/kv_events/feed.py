"""Interface for applying the events of one engine to an index."""

from collections.abc import Sequence
from typing import Literal, Protocol

from cache_index.event import Event

Trust = Literal["live", "catching_up", "stale", "untrusted"]
"""Trust in the index that represents an engine's cache.

* ``live``: the index has everything that the engine published so far
* ``catching_up``: the index is correct up to some batch, and later batches are on their way
* ``stale``: events are missing, so blocks may be missing, or may be listed after their removal
* ``untrusted``: the engine is not connected, or its events cannot be decoded
"""


class Feed(Protocol):
    """Receiver of the events of one engine. Its methods are synchronous, and only one task calls them."""

    def apply(self, events: Sequence[Event]) -> None:
        """Apply *events* to the index in order. One batch can be split over several calls."""
        ...

    def restarted(self) -> None:
        """Clear the index, because the next events start from an empty cache. This is also called before the first
        event.
        """
        ...

    def trusted(self, state: Trust) -> None:
        """Set the trust in the index. This is called on every change, after the events that caused the change."""
        ...
