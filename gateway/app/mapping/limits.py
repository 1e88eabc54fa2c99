"""Conversion of the settings of limits."""

from collections.abc import Mapping

from gateway.settings import LimitSettings
from gateway.tenancy.teams.limits import Limits


def limits_of(limits: LimitSettings) -> Limits:
    named = dict(limits)
    return Limits(concurrent=named.pop("max_concurrent_requests"), **named)


def model_limits_of(limits: Mapping[str, LimitSettings]) -> dict[str, Limits]:
    return {model: limits_of(each) for model, each in limits.items()}
