"""Fair-share scheduling: whose request is served next, among owners that share something by weight."""

from typing import Final, Generic, TypeVar

Name = TypeVar("Name", str, int)

MAX_NAMES: Final = 4096
"""Accounts that are kept before those are dropped that have no balance."""


class ShareAccounts(Generic[Name]):
    """Start-time fair queueing: work is charged to its owner's account, and the lowest account is served first.

    An account is in seconds of work over weight. An unused account stands level with the others, never below: an owner
    that was idle has saved nothing, and goes before all that were served meanwhile. So its first request waits for the
    running one and for nothing else, however many others wait. Goyal, Vin and Cheng, "Start-time Fair Queuing" (1996):
    two owners that both always wait get shares that differ from their weights by at most one request each.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._accounts: dict[Name, float] = {}

    def account(self, name: Name) -> float:
        """Return where the next request of *name* begins."""
        return max(self._now, self._accounts.get(name, 0.0))

    @property
    def is_used(self) -> bool:
        """Whether anything was ever charged."""
        return bool(self._accounts)

    def stands_first(self, name: Name) -> bool:
        """Return whether the account of *name* is the lowest possible: no later owner will be below it."""
        return self._accounts.get(name, 0.0) <= self._now

    def charge(self, name: Name, cost: float) -> None:
        """Charge a served request. *cost* is its work over the weight of *name*."""
        account = self._accounts.get(name, 0.0)
        self._now = max(self._now, account)
        self._accounts[name] = self._now + cost
        if len(self._accounts) > MAX_NAMES:
            self._accounts = {each: at for each, at in self._accounts.items() if at > self._now}
