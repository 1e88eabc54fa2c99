"""Team whose members share quotas, a budget, and a place in the queue."""

from typing import Literal

import msgspec

from gateway.tenancy.teams.limit_raise import LimitRaise
from gateway.tenancy.teams.limits import Limits

Priority = Literal["high", "normal", "low"]
CallerPriority = Literal["high", "normal", "low", "batch"]
"""Priority of a caller. The priority `batch`, below all others, is that of lines of batches."""
"""Priority of requests. Higher priorities are served first, but lower priorities keep a minimum share of the
throughput.
"""


class Team(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    weight: float = 1.0
    """Share of fully used workers that the team gets, relative to other teams."""
    priority: Priority = "normal"
    models: tuple[str, ...] | None = None
    """Names, aliases, or prefixes ending in ``*`` of models that the team is allowed to use, or model groups
    (``group:NAME``). None allows every model, and an empty list allows no model.
    """
    strategies: tuple[str, ...] | None = None
    """Strategies that the team's requests are allowed to select, or None if all are allowed."""
    fallback: bool = True
    """Whether fallbacks, including Bedrock, are allowed to answer requests of the team."""
    blocked: bool = False
    isolated_cache: bool = False
    """Whether prompts of the team share no cached prefixes with other teams. If so, the ``cache_salt`` is derived from
    the team name.
    """
    projects: tuple[str, ...] = ()
    """Project names by which the team's usage can be grouped."""
    limits: Limits = Limits()
    model_limits: dict[str, Limits] = {}
    """Limits for each model, by configured model name. They apply in addition to `limits`."""
    ttft_s: float | None = None
    """Target time to first token in seconds, or None for no target. A request that would wait longer can go to a
    fallback.
    """
    guardrails: tuple[str, ...] = ()
    """Names of guardrails for the team's requests and answers, which apply in addition to those of the model."""
    user_limits: Limits = Limits()
    """Limits of each single end user. Requests that name no end user count as those of one further end user."""
    session_limits: Limits = Limits()
    """Limits of each single session. Requests that name no session have no such limit."""
    project_limits: dict[str, Limits] = {}
    """Limits for each project, by project name. The project of a request is that of its key."""
    limit_template: str | None = None
    """Name of the limit template whose limits apply where `limits` has none, or None."""
    raises: tuple[LimitRaise, ...] = ()
    """Temporary raises of limits of the team, and of end users, sessions and projects of the team."""
