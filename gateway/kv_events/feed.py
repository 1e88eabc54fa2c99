"""The seam behind which somebody learns what one engine says of its cache."""

from collections.abc import Sequence
from typing import Literal, Protocol

from cache_index.event import Event

Trust = Literal["live", "catching_up", "stale", "untrusted"]
"""How far the feed's picture of the engine's cache can be relied on.

live: exactly what the engine said so far. catching_up: right up to some batch, and more of them are on their way.
stale: something was never heard, so it may hold too little, and where removals were lost, too much.
untrusted: the engine cannot be heard, or not understood.
"""


class Feed(Protocol):
    """Told by one stream, from one task at a time; called synchronously, so it does not wait for anything."""

    def apply(self, events: Sequence[Event]) -> None:
        """Take in what the engine did, in this order. Between two calls the picture may be half of a batch."""
        ...

    def restarted(self) -> None:
        """Forget all: what follows is told from an empty cache on. Also told before the very first event."""
        ...

    def trusted(self, state: Trust) -> None:
        """From this call on *state* holds; told when it changes, and after the events that brought it about."""
        ...
