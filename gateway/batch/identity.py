"""Callers for lines of batches. A line runs for the key that created the batch, without its secret."""

from typing import Literal

from gateway.protocol.errors import InvalidKey
from gateway.tenancy.teams.access import Access
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.directory import Directory

Urgency = Literal["patient", "without_worker", "raised"]
"""Urgency of a line: "patient" if it waits for workers, "without_worker" if no worker is ready, so that fallbacks can
answer it, and "raised" if its batch is near its end.
"""


def _callers(own: Caller) -> dict[Urgency, Caller]:
    """Return the callers for the batches of *own*, by urgency."""
    return {
        "patient": own.for_batch(may_fall_back=False),
        "without_worker": own.for_batch(),
        "raised": own.for_batch("low"),
    }


class KeyIdentity:
    """Callers of the keys in *directory*, which *access* then admits."""

    def __init__(self, directory: Directory, access: Access) -> None:
        self._directory = directory
        self._access = access
        self._callers: dict[str, tuple[Caller, dict[Urgency, Caller]]] = {}
        """Caller of the key, and callers for its batches, by key id."""

    def caller(self, key: str, team: str, urgency: Urgency) -> Caller:
        """Return the caller for lines of batches of *key*. It stays the same object until the key changes.

        Raises:
            InvalidKey: if the key does not exist any more, or is no longer valid.
        """
        own = self._directory.caller(key)
        if own is None or own.team_name != team:
            self._callers.pop(key, None)
            raise InvalidKey(f"The API key {key!r} of the batch does not exist any more")
        self._access.check_key(own)
        known = self._callers.get(key)
        if known is None or known[0] is not own:
            known = self._callers[key] = (own, _callers(own))
        return known[1][urgency]

    def lend(self, secret: str, caller: Caller) -> None:
        """Let the gateway send requests as *caller* with *secret*."""
        self._access.lend(secret, caller)

    def take_back(self, secret: str) -> None:
        """Refuse *secret* from now on."""
        self._access.take_back(secret)
