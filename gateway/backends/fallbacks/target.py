"""Targets of fallbacks: a Bedrock model in one region, or a model at one address.

Several models of the gateway may use the same target. They share its quota, breaker and canary state, which survive
changes to the settings.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.backends.bedrock.refusals import Refusals
from gateway.backends.fallbacks.allowance import Allowance, RateLimits
from gateway.backends.fallbacks.breaker import FallbackBreaker


class TargetKey(msgspec.Struct, frozen=True):
    """Identity of a fallback target. Fallbacks with equal keys share one target."""

    kind: str
    place: str
    """AWS region of a Bedrock target, or URL of another endpoint."""
    model: str
    endpoint: str | None = None
    """Address that replaces Bedrock's standard address in the region, or None."""


class CanaryResult(msgspec.Struct, frozen=True):
    """Result of the last canary request to a target."""

    ok: bool
    at: float


@dataclass(slots=True, eq=False)
class Target:
    """Rate limits, breaker and canary state of one fallback target."""

    key: TargetKey
    allowance: Allowance = field(default_factory=lambda: Allowance(RateLimits()))
    breaker: FallbackBreaker = field(default_factory=FallbackBreaker)
    seen_at: float | None = None
    """Monotonic time in seconds at which the canary first saw the target, or None."""
    checked: CanaryResult | None = None
    access: Hashable = None
    """Identity of the credentials that the gateway uses for the target."""
    refusals: Refusals = field(default_factory=Refusals)
    """Request fields and output limits that Bedrock rejected for the target."""
    is_legacy: bool = False
    """Whether AWS has announced the model's retirement."""


class TargetSettings(msgspec.Struct, frozen=True):
    """Rate limits and credentials that one model's settings give for a fallback target."""

    rates: RateLimits = RateLimits()
    access: Hashable = None


class Targets:
    """All fallback targets in the settings, by their keys."""

    def __init__(self) -> None:
        self._targets: dict[TargetKey, Target] = {}

    def find(self, key: TargetKey) -> Target:
        """Return the target for *key*, and create it if necessary. A new target has no rate limits until `attend` is
        called.
        """
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = Target(key)
        return target

    def attend(self, named: Mapping[TargetKey, Iterable[TargetSettings]]) -> None:
        """Apply the lowest of the rate limits given for each target, and remove targets that the settings no longer
        have.

        New credentials close the target's breaker, because the old ones may have caused its failures.
        """
        self._targets = {key: target for key, target in self._targets.items() if key in named}
        for key, namings in named.items():
            said = list(namings)
            target, access = self.find(key), tuple([naming.access for naming in said])
            target.allowance.set_rates(RateLimits.lowest([naming.rates for naming in said]))
            if target.access not in {None, access}:
                target.breaker.forget()
            target.access = access
