"""Errors for a store that replies but cannot be used safely."""

from typing import Literal

from gateway.protocol.errors import StoreUnavailable

UnfitState = Literal["uninitialized", "lost", "replaced", "pepper_missing", "pepper_differs", "newer"]
"""Reason why the store cannot be used although it replies."""


WITHOUT_DATA: frozenset[UnfitState] = frozenset({"uninitialized", "lost"})
"""States in which the store has no usage data, so that its limits would start from zero."""


class StoreUnfit(StoreUnavailable):
    """The store replies but cannot be used until an operator fixes it. A retry does not help."""

    def __init__(self, message: str, *, state: UnfitState) -> None:
        super().__init__(message, retry_after_s=5.0)
        self.state: UnfitState = state


def lost() -> StoreUnfit:
    """Return the error for a store that was in use before but has lost its identity record."""
    text = "The store has lost its data. Restore a backup, or run 'warmgate store init' and restart all gateways"
    return StoreUnfit(text, state="lost")


def replaced() -> StoreUnfit:
    """Return the error for a store whose identity changed while the gateway was running."""
    text = (
        "The store was replaced after this gateway started. "
        "Restart the gateway, or restore a backup of the previous store"
    )
    return StoreUnfit(text, state="replaced")
