"""Errors of a store that answers but must not be used."""

from typing import Literal

from gateway.protocol.errors import StoreUnavailable

UnfitState = Literal["uninitialized", "lost", "replaced", "pepper_missing", "pepper_differs", "newer"]
"""State of a store that must not be used."""


WITHOUT_DATA: frozenset[UnfitState] = frozenset({"uninitialized", "lost"})
"""States without counts: the limits that the store enforces would start at zero."""


class StoreUnfit(StoreUnavailable):
    """The store answers but must not be used until an operator acts; waiting does not help."""

    def __init__(self, message: str, *, state: UnfitState) -> None:
        super().__init__(message, retry_after_s=5.0)
        self.state: UnfitState = state


def lost() -> StoreUnfit:
    """Return the error of a store that was in use and has lost its identity."""
    text = "The store lost its data. Restore a backup, or run 'warmgate store init' and restart all gateways"
    return StoreUnfit(text, state="lost")


def replaced() -> StoreUnfit:
    """Return the error of a store whose identity has changed since it was first used."""
    text = (
        "The store is not the one that this gateway started with. Restart it, or restore a backup of the former store"
    )
    return StoreUnfit(text, state="replaced")
