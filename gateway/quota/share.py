"""What a gateway grants by itself while the store is away: its share of every limit, or nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.errors import StoreAway
from gateway.ledger.entry import Draft
from gateway.quota.limit import Charge, Granted, Limit, Refused
from gateway.quota.meters import Meters

WhenAway = Literal["share", "closed"]

AGAIN_S = 1.0
"""When the store may be there again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of each kind of limit. The defaults are those of the settings."""

    requests: WhenAway = "share"
    tokens: WhenAway = "share"
    """Per minute."""
    concurrent: WhenAway = "share"
    budget: WhenAway = "closed"
    """Limits per day and month, be it of tokens or of money."""

    def of(self, limit: Limit) -> WhenAway:
        if limit.kind == "concurrent":
            return self.concurrent
        if limit.kind == "period":
            return self.budget
        return self.requests if limit.id.endswith("/requests_per_minute") else self.tokens


@dataclass(frozen=True, slots=True)
class Live:
    """A reservation that was granted and is not settled."""

    team: str
    charges: Sequence[Charge]
    lost: Draft


class Share:
    """Counts as the store does, with every amount and burst divided by the number of gateways.

    So all of them together grant no more than the limit without the store; beside it, once, the burst that the store
    may have granted just before. Requests that this gateway has running count for what is concurrent.
    """

    def __init__(self, policy: Policy, *, replicas: int) -> None:
        self._policy = policy
        self._replicas = replicas
        self._meters = Meters()

    def begin(self, live: Mapping[str, Live], now: float) -> None:
        """The store is away; *live* are running."""
        self._meters.forget(now)
        for reservation, each in live.items():
            if self._meters.held(reservation) is None:
                self._meters.reserve(each.team, reservation, _room_or_no_room(each.charges), now)

    def reserve(self, team: str, reservation: str, charges: Sequence[Charge], now: float) -> Granted | Refused:
        """All of *charges*, or nothing.

        Raises:
            StoreAway: one of the limits is closed without the store, or its share is too little for this request.
        """
        for charge in charges:
            if self._policy.of(charge.limit) == "closed":
                raise _away(charge.limit, "is closed")
        decision = self._meters.reserve(team, reservation, [self._shared(charge) for charge in charges], now)
        if isinstance(decision, Refused) and decision.wait_s == float("inf"):
            binding = charges[decision.binding]
            if binding.units <= binding.limit.amount:
                raise _away(binding.limit, "has too small a share")
        return decision

    def settle(self, reservation: str, charges: Sequence[Charge]) -> None:
        """It ended; *charges* is what it used. Of no effect where it does not count here."""
        held = self._meters.held(reservation)
        if held is None:
            return
        used = {charge.limit.id: charge.units for charge in charges}
        ended = [_with(each, used.get(each.limit.id, 0.0)) for each in held.charges]
        self._meters.settle(reservation, ended)

    def _shared(self, charge: Charge) -> Charge:
        limit = charge.limit
        share = Limit(limit.id, limit.kind, limit.amount / self._replicas, limit.burst / self._replicas)
        return Charge(share, charge.units, charge.period, charge.period_left_s, charge.likely)


def _with(charge: Charge, units: float) -> Charge:
    return Charge(charge.limit, units, charge.period, charge.period_left_s)


def _room_or_no_room(charges: Iterable[Charge]) -> list[Charge]:
    """The concurrent ones of *charges*, in a form that is always granted."""
    return [
        Charge(Limit(charge.limit.id, "concurrent", float("inf")), charge.units)
        for charge in charges
        if charge.limit.kind == "concurrent"
    ]


def _away(limit: Limit, how: str) -> StoreAway:
    text = f"The store of quotas does not answer, and {limit.id} {how} without it"
    return StoreAway(text, retry_after_s=AGAIN_S)
