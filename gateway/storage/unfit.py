"""Faults of a store that answers and must not be used."""

from typing import Literal

from gateway.errors import StoreAway

UnfitState = Literal["uninitialized", "lost", "replaced", "pepper_missing", "pepper_differs", "newer"]
"""Why a store that answers cannot be used."""


WITHOUT_DATA: frozenset[UnfitState] = frozenset({"uninitialized", "lost"})
"""States in which what the store counted is gone, or was never there: limits that it counts would begin at zero."""


class StoreUnfit(StoreAway):
    """The store answers, and must not be used: waiting does not help, somebody has to act."""

    def __init__(self, message: str, *, state: UnfitState) -> None:
        super().__init__(message, retry_after_s=5.0)
        self.state: UnfitState = state


def lost() -> StoreUnfit:
    """Return the fault of a store that was in use and has no identity any more."""
    text = "The store lost its data: restore a backup, or run 'warmgate store init' and restart all gateways"
    return StoreUnfit(text, state="lost")


def replaced() -> StoreUnfit:
    """Return the fault of a store that has another identity than when it was first used."""
    text = "The store is another one than at the start of this gateway: restart it, or restore the backup of the former"
    return StoreUnfit(text, state="replaced")
