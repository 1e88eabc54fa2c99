"""Limits of one gateway while the store is unavailable. The gateway grants its share of each limit, or nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.meters import MAX_LIMITS, Meters

WhenAway = Literal["share", "closed"]

AGAIN_S = 1.0
"""Seconds until the store might be available again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy for each kind of limit while the store is unavailable: shared or closed. Defaults match the settings."""

    requests: WhenAway = "share"
    tokens: WhenAway = "share"
    """Policy for token limits per minute."""
    concurrent: WhenAway = "share"
    budget: WhenAway = "closed"
    """Policy for limits per day and per month, in tokens or US dollars."""

    def action_for(self, limit: Limit) -> WhenAway:
        if limit.kind == "concurrent":
            return self.concurrent
        if limit.kind == "period":
            return self.budget
        return self.requests if limit.id.endswith("/requests_per_minute") else self.tokens


@dataclass(frozen=True, slots=True)
class Live:
    """An active reservation."""

    team: str
    charges: Sequence[Charge]
    lost: Draft


class Share:
    """Counter of limits while the store is unavailable. Every amount and burst is divided by the number of gateways.

    All gateways together grant at most the limit, plus once the burst that the store may have granted just before.
    Active requests of this gateway count against concurrency limits.
    """

    def __init__(self, policy: Policy, *, replicas: int, max_limits: int = MAX_LIMITS) -> None:
        self._policy = policy
        self._replicas = replicas
        self._meters = Meters(max_limits=max_limits)

    def begin(self, live: Mapping[str, Live], now: float) -> None:
        """Start to count without the store. *live* are the active reservations."""
        self._meters.forget(now)
        for reservation, each in live.items():
            if self._meters.held(reservation) is None:
                self._meters.reserve(each.team, reservation, _room_or_no_room(each.charges), now)

    def reserve(self, team: str, reservation: str, charges: Sequence[Charge], now: float) -> Granted | Refused:
        """Reserve all *charges*, or nothing if a limit cannot grant one of them.

        Raises:
            StoreUnavailable: if a limit is closed while the store is unavailable, or if this gateway's share of a limit
                is too small for the request.
        """
        for charge in charges:
            if self._policy.action_for(charge.limit) == "closed":
                raise _away(f"The limit {charge.limit.id} grants nothing while the quota store is unavailable")
        decision = self._meters.reserve(team, reservation, [self._shared(charge) for charge in charges], now)
        if isinstance(decision, Refused) and decision.wait_s == float("inf"):
            binding = charges[decision.binding]
            if binding.units <= binding.limit.amount:
                raise _away(
                    f"The quota store is unavailable, and this gateway's share of {binding.limit.id} is too small"
                )
        return decision

    def settle(self, reservation: str, charges: Sequence[Charge]) -> None:
        """Replace the reserved units with *charges*. This has no effect on a reservation that the store granted."""
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
    """Return those *charges* that are for concurrency limits, in a form that is always granted."""
    return [
        Charge(Limit(charge.limit.id, "concurrent", float("inf")), charge.units)
        for charge in charges
        if charge.limit.kind == "concurrent"
    ]


def _away(reason: str) -> StoreUnavailable:
    return StoreUnavailable(f"{reason}. Retry later.", retry_after_s=AGAIN_S)
