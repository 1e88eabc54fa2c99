"""Interface to the channel over which gateways exchange frames (`gateway.workers.replicas.wire`)."""

from typing import Protocol


class Subscription(Protocol):
    """Frames of all gateways on the channel, including this one, in the order in which they arrive."""

    async def next(self, timeout_s: float) -> bytes | None:
        """Return the next frame. After about *timeout_s* seconds without a frame, None may be returned.

        Raises:
            StoreUnavailable: if the channel is lost.
        """
        ...

    async def aclose(self) -> None: ...


class Bus(Protocol):
    """Channel to the other gateways. `run` must run while it is used."""

    async def subscribe(self) -> Subscription:
        """Connect to the channel.

        Raises:
            StoreUnavailable: if it cannot be reached.
        """
        ...

    async def publish(self, frame: bytes) -> None:
        """Send *frame* to all gateways on the channel. A gateway that reads too slowly may miss it.

        Raises:
            StoreUnavailable: if the channel cannot be reached.
        """
        ...

    async def run(self) -> None:
        """Detect that the channel is available again, until canceled."""
        ...

    async def aclose(self) -> None: ...


class ReplicaKey(Protocol):
    """Key with which all gateways on the channel hash prompts, so that the hashes can be compared."""

    @property
    def value(self) -> bytes: ...

    async def agree(self) -> bool:
        """Adopt the key of the others. Return whether `value` has changed.

        Raises:
            StoreUnavailable: if the key cannot be read.
        """
        ...
