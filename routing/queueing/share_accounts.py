"""Fair-share scheduling: select who is served next among owners that share a resource by weight."""

from typing import Final, Generic, TypeVar

Name = TypeVar("Name", str, int)

MAX_NAMES: Final = 4096
"""Number of accounts above which accounts with no balance are dropped."""


class ShareAccounts(Generic[Name]):
    """Start-time fair queueing: work is charged to its owner's account, and the owner with the lowest account is served
    first.

    An account is in seconds of work divided by the owner's weight. An unused account is raised to the current minimum,
    so an idle owner saves up nothing but goes before all owners served meanwhile. Its first request waits only for the
    running request, however many others wait. Goyal, Vin and Cheng, "Start-time Fair Queuing" (1996), prove that two
    owners that always wait get shares that differ from their weights by at most one request each.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._accounts: dict[Name, float] = {}

    def account(self, name: Name) -> float:
        """Return the balance of the owner *name* that counts for the order in which owners are served."""
        return max(self._now, self._accounts.get(name, 0.0))

    @property
    def is_used(self) -> bool:
        """Whether any work has been charged to an account."""
        return bool(self._accounts)

    def stands_first(self, name: Name) -> bool:
        """Return whether the owner *name* is served first: no owner that arrives later can have a lower balance."""
        return self._accounts.get(name, 0.0) <= self._now

    def charge(self, name: Name, cost: float) -> None:
        """Charge the owner *name* for a served request. *cost* is the request's work divided by the owner's weight."""
        account = self._accounts.get(name, 0.0)
        self._now = max(self._now, account)
        self._accounts[name] = self._now + cost
        if len(self._accounts) > MAX_NAMES:
            self._accounts = {each: at for each, at in self._accounts.items() if at > self._now}
