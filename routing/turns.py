"""Whose turn it is to be served, among those who share something by weight."""

from typing import Final, Generic, TypeVar

Name = TypeVar("Name", str, int)

MOST: Final = 4096
"""Names that are remembered before those are forgotten that are owed nothing and owe nothing."""


class Turns(Generic[Name]):
    """Start-time fair queueing: work is charged to its owner's account, and the lowest account is served first.

    An account is in seconds of work over weight. One that was not used stands where the others are, never below: who
    was idle has saved nothing, and goes before all that were served meanwhile. So its first request waits for what is
    running and for nothing else, however many others wait. Goyal, Vin and Cheng, "Start-time Fair Queuing" (1996):
    two owners that both always wait get shares of a server that differ from their weights by at most one request each.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._accounts: dict[Name, float] = {}

    def account(self, name: Name) -> float:
        """Where the next request of *name* begins."""
        return max(self._now, self._accounts.get(name, 0.0))

    @property
    def is_used(self) -> bool:
        """Whether anything was ever charged."""
        return bool(self._accounts)

    def stands_first(self, name: Name) -> bool:
        """Whether the account of *name* is the lowest that there can be: nobody who comes later will be below it."""
        return self._accounts.get(name, 0.0) <= self._now

    def charge(self, name: Name, cost: float) -> None:
        """A request of *name* is served; *cost* is its work over the weight of *name*."""
        account = self._accounts.get(name, 0.0)
        self._now = max(self._now, account)
        self._accounts[name] = self._now + cost
        if len(self._accounts) > MOST:
            self._accounts = {each: at for each, at in self._accounts.items() if at > self._now}
