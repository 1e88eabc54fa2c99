"""Target of a fallback: a Bedrock model of one region, or a model at one address.

Several models of the gateway may name the same target. They share its quota, its failures and its canary, which are
kept here through every change of the settings.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.backends.bedrock.refusals import Refusals
from gateway.backends.fallbacks.allowance import Allowance, RateLimits
from gateway.backends.fallbacks.breaker import FallbackBreaker


class TargetKey(msgspec.Struct, frozen=True):
    """Identity of a target: fallbacks with the same key share it."""

    kind: str
    place: str
    """Region of Bedrock, or URL."""
    model: str
    endpoint: str | None = None
    """Address in place of Bedrock's own in that region."""


class CanaryResult(msgspec.Struct, frozen=True):
    """Result of the last canary."""

    ok: bool
    at: float


@dataclass(slots=True, eq=False)
class Target:
    """State of one target."""

    key: TargetKey
    allowance: Allowance = field(default_factory=lambda: Allowance(RateLimits()))
    breaker: FallbackBreaker = field(default_factory=FallbackBreaker)
    seen_at: float | None = None
    """Time at which the canary first saw it."""
    checked: CanaryResult | None = None
    access: Hashable = None
    """Credentials of the gateway at the target."""
    refusals: Refusals = field(default_factory=Refusals)
    """Fields and output limits that Bedrock refused."""
    is_legacy: bool = False
    """Whether AWS is about to withdraw the model."""


class TargetSettings(msgspec.Struct, frozen=True):
    """Limits and credentials that one fallback of one model has for its target."""

    rates: RateLimits = RateLimits()
    access: Hashable = None


class Targets:
    """Targets that the present or former settings name."""

    def __init__(self) -> None:
        self._targets: dict[TargetKey, Target] = {}

    def find(self, key: TargetKey) -> Target:
        """Return the target of *key*, the same one as long as it is named. A new one has no limits before `attend`."""
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = Target(key)
        return target

    def attend(self, named: Mapping[TargetKey, Iterable[TargetSettings]]) -> None:
        """Apply the lowest limits that are named for each target, and forget the targets that are not named.

        New credentials close the breaker: the old ones may have been the cause of its failures.
        """
        self._targets = {key: target for key, target in self._targets.items() if key in named}
        for key, namings in named.items():
            said = list(namings)
            target, access = self.find(key), tuple([naming.access for naming in said])
            target.allowance.set_rates(RateLimits.lowest([naming.rates for naming in said]))
            if target.access not in {None, access}:
                target.breaker.forget()
            target.access = access
