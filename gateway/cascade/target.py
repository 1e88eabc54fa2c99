"""What a fallback leads to: a Bedrock model of one region, or a model at one address.

Several models of the gateway may name the same target. Its quota, its failures and its canary are the same for all of
them, so they are kept here, through every change of the settings.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from gateway.backends.bedrock.learnt import Learnt
from gateway.cascade.allowance import Allowance, Rates
from gateway.cascade.breaker import FallbackBreaker

Kind = Literal["openai", "bedrock"]


class TargetKey(msgspec.Struct, frozen=True):
    """What makes two fallbacks the same target."""

    kind: Kind
    place: str
    """Of Bedrock the region; else the URL."""
    model: str
    endpoint: str | None = None
    """Of Bedrock: what takes the place of the region's own address."""


class Checked(msgspec.Struct, frozen=True):
    """What the last canary came to."""

    ok: bool
    at: float


@dataclass(slots=True, eq=False)
class Target:
    """What is known of it."""

    key: TargetKey
    allowance: Allowance = field(default_factory=lambda: Allowance(Rates()))
    breaker: FallbackBreaker = field(default_factory=FallbackBreaker)
    seen_at: float | None = None
    """When the canary first looked at it."""
    checked: Checked | None = None
    access: Hashable = None
    """How the gateway proves who it is there."""
    learnt: Learnt = field(default_factory=Learnt)
    """What it has refused, of Bedrock."""
    is_legacy: bool = False
    """AWS is about to take the model away."""


class Naming(msgspec.Struct, frozen=True):
    """What one fallback of one model says of its target."""

    rates: Rates = Rates()
    access: Hashable = None


class Targets:
    """Every target that is, or was, named by the settings."""

    def __init__(self) -> None:
        self._targets: dict[TargetKey, Target] = {}

    def of(self, key: TargetKey) -> Target:
        """The target of *key*, the same one as long as it is named; one that is new has no limits before `attend`."""
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = Target(key)
        return target

    def attend(self, named: Mapping[TargetKey, Iterable[Naming]]) -> None:
        """Have these limits, of each target the lowest that anybody says, and forget the targets that nobody names.

        Where the access has changed the breaker begins anew: the old one may have been all that was wrong.
        """
        self._targets = {key: target for key, target in self._targets.items() if key in named}
        for key, namings in named.items():
            said = list(namings)
            target, access = self.of(key), tuple([naming.access for naming in said])
            target.allowance.take(Rates.lowest([naming.rates for naming in said]))
            if target.access not in {None, access}:
                target.breaker.forget()
            target.access = access
