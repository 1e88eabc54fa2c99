"""A team: who shares quotas, a budget, and a place in the queue."""

from typing import Literal

import msgspec

from gateway.teams.limits import Limits

Priority = Literal["high", "normal", "low"]
"""A class of requests: a higher one goes first, a lower one has a floor and does not starve."""


class Team(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    weight: float = 1.0
    """Its share of a saturated fleet, beside those of the others."""
    priority: Priority = "normal"
    models: tuple[str, ...] | None = None
    """Names, aliases, or prefixes with one ``*`` at their end; None: every model. Empty: none."""
    strategies: tuple[str, ...] | None = None
    """That its requests may ask for; None: every one."""
    fallback: bool = True
    """Whether its requests may be answered by fallbacks, Bedrock among them."""
    blocked: bool = False
    isolated_cache: bool = False
    """Its prompts share cached prefixes with nobody else's: ``cache_salt`` is derived from its name."""
    projects: tuple[str, ...] = ()
    """Tags by which its usage may be told apart."""
    limits: Limits = Limits()
    model_limits: dict[str, Limits] = {}
    """By configured name of the model, beside `limits`."""
    ttft_s: float | None = None
    """Wanted time to the first token; a request that would wait longer may go to a fallback. None: any is good."""
    guardrails: tuple[str, ...] = ()
    """Names of those that look at its requests and their answers, beside those of the model."""
