"""A team, whose members share quotas, a budget, and a place in the queue."""

from typing import Literal

import msgspec

from gateway.tenancy.teams.limits import Limits

Priority = Literal["high", "normal", "low"]
"""Priority of requests. Higher priorities are served first, and lower ones keep a minimum share so that they do not
starve.
"""


class Team(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    weight: float = 1.0
    """Share of a saturated fleet that the team gets, relative to other teams."""
    priority: Priority = "normal"
    models: tuple[str, ...] | None = None
    """Model names, aliases, or prefixes ending in ``*`` that the team may use. None allows every model, and an empty
    list none.
    """
    strategies: tuple[str, ...] | None = None
    """Strategies that requests of the team may choose, or None if all are allowed."""
    fallback: bool = True
    """Whether fallbacks, including Bedrock, may answer requests of the team."""
    blocked: bool = False
    isolated_cache: bool = False
    """Whether prompts of the team share no cached prefixes with other teams. The ``cache_salt`` is then derived from
    the team name.
    """
    projects: tuple[str, ...] = ()
    """Project names by which the team's usage can be grouped."""
    limits: Limits = Limits()
    model_limits: dict[str, Limits] = {}
    """Limits per model, by configured model name. They apply in addition to `limits`."""
    ttft_s: float | None = None
    """Target time to first token in seconds, or None for no target. A request that would wait longer may go to a
    fallback.
    """
    guardrails: tuple[str, ...] = ()
    """Names of guardrails that apply to the team's requests and answers, in addition to those of the model."""
