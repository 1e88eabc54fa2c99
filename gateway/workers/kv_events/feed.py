"""The seam through which the events of one engine are applied."""

from collections.abc import Sequence
from typing import Literal, Protocol

from cache_index.event import Event

Trust = Literal["live", "catching_up", "stale", "untrusted"]
"""Trust in a feed's picture of the engine's cache.

* ``live``: exactly what the engine published so far
* ``catching_up``: correct up to some batch, and more of them are on their way
* ``stale``: events are missing, so it may hold too little and, without removals, too much
* ``untrusted``: the engine cannot be heard, or not understood
"""


class Feed(Protocol):
    """Reader of one stream, called from one task at a time; its methods are synchronous and never wait."""

    def apply(self, events: Sequence[Event]) -> None:
        """Apply the engine's changes in this order. Between two calls the state may be half of a batch."""
        ...

    def restarted(self) -> None:
        """Forget everything: the next events start from an empty cache. Also called before the very first event."""
        ...

    def trusted(self, state: Trust) -> None:
        """Set the trust from now on; called when it changes, and after the events that changed it."""
        ...
