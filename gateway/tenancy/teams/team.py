"""A team: its members share quotas, a budget, and a place in the queue."""

from typing import Literal

import msgspec

from gateway.tenancy.teams.limits import Limits

Priority = Literal["high", "normal", "low"]
"""A class of requests: a higher one goes first, a lower one has a floor and does not starve."""


class Team(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    weight: float = 1.0
    """Share of a saturated fleet, relative to others."""
    priority: Priority = "normal"
    models: tuple[str, ...] | None = None
    """Names, aliases, or prefixes with one ``*`` at their end; None: every model. Empty: none."""
    strategies: tuple[str, ...] | None = None
    """Strategies that its requests may ask for; None: all."""
    fallback: bool = True
    """Whether fallbacks, including Bedrock, may answer its requests."""
    blocked: bool = False
    isolated_cache: bool = False
    """Its prompts share no cached prefixes with other teams: ``cache_salt`` is derived from its name."""
    projects: tuple[str, ...] = ()
    """Tags for grouping its usage."""
    limits: Limits = Limits()
    model_limits: dict[str, Limits] = {}
    """Limits by configured name of the model, in addition to `limits`."""
    ttft_s: float | None = None
    """Wanted time to the first token; a request that would wait longer may go to a fallback. None: any is good."""
    guardrails: tuple[str, ...] = ()
    """Names of guardrails for its requests and answers, in addition to those of the model."""
