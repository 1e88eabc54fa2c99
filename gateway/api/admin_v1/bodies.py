"""Request bodies of the admin API. Field names and rules match the settings, which can also declare teams and keys.

Numbers have upper bounds far beyond practical values, because stores keep 64-bit integers, and money in billionths of a
dollar.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field
from pydantic_core import PydanticCustomError

from gateway.protocol.field_types import (
    Alias,
    AllowedModel,
    EntityName,
    Group,
    ModelName,
    Networks,
    PriorityName,
    StrategyName,
    Token,
    WorkerUrl,
)
from gateway.protocol.request_hints import MAX_NAME_LENGTH
from gateway.tenancy.quota.budgets import BudgetMeasure
from gateway.tenancy.teams.access_records import MAX_VALUE, RevokedScope
from gateway.tenancy.teams.limit_raise import MAX_REASON
from gateway.tenancy.teams.limits import Limits, Measure

MOST_UNITS = 10**15
"""Highest accepted limit in tokens or requests. A double represents it exactly."""
MOST_USD = 10**9
"""Highest accepted limit in US dollars. In billionths of a dollar it is 10**18, which is below 2**63."""
LIGHTEST, HEAVIEST = 0.001, 1000
"""Minimum and maximum weight of a team or key for fair sharing."""
MOST_NAMES = 1000
MOST_SECONDS = 10**6
"""Maximum duration in a request body, in seconds."""
LONGEST_GRACE_S = 30 * 86400
LONGEST_RAISE_S = 90 * 86400
LONGEST_MODEL, LONGEST_URL, LONGEST_ID = 300, 1000, 200
"""Maximum number of characters in a model name, a worker URL and an ID."""

LONGEST_REASON = 200
"""Maximum number of characters in the reason of a revocation."""
MOST_KEPT_S = 366 * 86400
"""Maximum time for which a revocation is kept, in seconds."""

Amount = Annotated[int, Field(ge=1, le=MOST_UNITS)]
Usd = Annotated[float, Field(gt=0, le=MOST_USD)]
RouteWeight = Annotated[float, Field(ge=0, le=MOST_UNITS, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=LIGHTEST, le=HEAVIEST)]
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
Names = Annotated[tuple[Alias, ...], Field(max_length=MOST_NAMES)]
AllowedModels = Annotated[tuple[AllowedModel, ...], Field(max_length=MOST_NAMES)]
Strategies = Annotated[tuple[StrategyName, ...], Field(max_length=MOST_NAMES)]


def _check_expiry(value: datetime) -> datetime:
    if not 1970 < value.year < 9999:  # with another offset its year may be the one before or behind
        raise PydanticCustomError("rule", "{allowed}", {"allowed": "the year must be between 1971 and 9998"})
    return value


class RequestBody(Group):
    """Request body that rejects unknown fields and converts no types. For example, ``"5"`` is not a number."""


class HardLimitsBody(RequestBody):
    """Limits that refuse requests. A null field means that there is no limit."""

    requests_per_minute: Amount | None = Field(default=None, description="requests per minute")
    input_tokens_per_minute: Amount | None = Field(
        default=None, description="maximum prompt tokens per minute; cached tokens count less"
    )
    output_tokens_per_minute: Amount | None = Field(default=None, description="maximum generated tokens per minute")
    tokens_per_minute: Amount | None = Field(default=None, description="maximum total tokens per minute")
    concurrent: Amount | None = Field(default=None, description="concurrent requests")
    tokens_per_day: Amount | None = Field(default=None, description="maximum total tokens per calendar day")
    usd_per_day: Usd | None = Field(default=None, description="maximum cost in US dollars per calendar day")
    usd_per_month: Usd | None = Field(default=None, description="maximum cost in US dollars per calendar month")

    def limits(self) -> Limits:
        return Limits(**self.model_dump())


class LimitsBody(HardLimitsBody):
    """Limits and soft budgets of a team or key. A null field means that there is no limit."""

    soft_tokens_per_day: Amount | None = Field(default=None, description="daily tokens above which the gateway warns")
    soft_tokens_per_month: Amount | None = Field(
        default=None, description="monthly tokens above which the gateway warns"
    )
    soft_usd_per_day: Usd | None = Field(default=None, description="daily US dollars above which the gateway warns")
    soft_usd_per_month: Usd | None = Field(default=None, description="monthly US dollars above which the gateway warns")


ModelLimits = Annotated[dict[ModelName, LimitsBody], Field(max_length=MOST_NAMES)]
ProjectLimits = Annotated[dict[EntityName, HardLimitsBody], Field(max_length=MOST_NAMES)]


def limits_by_name(bodies: Mapping[str, HardLimitsBody]) -> dict[str, Limits]:
    """Return the limits by name of a model or project, without those that have no limits."""
    by_name = {name: body.limits() for name, body in bodies.items()}
    return {name: limits for name, limits in by_name.items() if limits != Limits()}


class TeamState(RequestBody):
    """All fields of a team except the name."""

    weight: Weight = Field(default=1.0, description="relative share of capacity among teams while all workers are busy")
    priority: PriorityName = Field(
        default="normal", description="priority: high, normal or low; higher priorities are served first"
    )
    models: AllowedModels | None = Field(
        default=None,
        description="allowed models: names, aliases, prefixes that end in *, or model groups as group:NAME; null "
        "allows all, [] allows none",
    )
    strategies: Strategies | None = Field(
        default=None, description="strategies that requests can select; null allows all strategies"
    )
    fallback: bool = Field(
        default=True, description="whether fallbacks, including Bedrock, can answer requests of the team"
    )
    ttft_s: Seconds | None = Field(
        default=None,
        description="target time to first token in seconds; slower requests can go to a fallback (spill.when_late)",
    )
    blocked: bool = Field(default=False, description="whether all keys of the team are rejected")
    isolated_cache: bool = Field(
        default=False, description="whether the team's cached prefixes are kept separate from those of other teams"
    )
    projects: Names = Field(default=(), description="project tags for separate usage reports")
    guardrails: Names = Field(default=(), description="names of guardrails that check the team's requests and answers")
    limits: LimitsBody = Field(default=LimitsBody(), description="limits on all keys of the team together")
    limit_template: EntityName | None = Field(
        default=None, description="limit template in the settings, whose limits apply where limits has none"
    )
    model_limits: ModelLimits = Field(default={}, description="limits of individual models, by model name")
    user_limits: HardLimitsBody = Field(
        default=HardLimitsBody(),
        description="limits on each end user; requests that name no end user count together, as one user",
    )
    session_limits: HardLimitsBody = Field(
        default=HardLimitsBody(), description="limits on each session; requests that name no session have no such limit"
    )
    project_limits: ProjectLimits = Field(
        default={}, description="limits on all keys of one project together, by project name"
    )


class TeamBody(TeamState):
    name: EntityName = Field(description="team name, as shown in the ledger and in metrics")


class TeamPut(TeamState):
    name: EntityName | None = Field(default=None, description="team name, which must match the path or be omitted")


class KeyState(RequestBody):
    """All fields of a key except its ID and team. A null field means that the team's value applies."""

    project: EntityName | None = Field(default=None, description="project tag for separate usage reports")
    models: AllowedModels | None = Field(default=None, description="allowed models, among those of the team")
    strategies: Strategies | None = Field(default=None, description="strategies that requests can select")
    fallback: bool | None = Field(default=None, description="whether fallbacks can answer requests with the key")
    networks: Annotated[Networks, Field(max_length=MOST_NAMES)] | None = Field(
        default=None, description="networks from which the key is accepted, e.g. 10.0.0.0/8; null allows all networks"
    )
    priority: PriorityName | None = Field(
        default=None, description="priority: high, normal or low; higher priorities are served first"
    )
    weight: Weight | None = Field(
        default=None, description="relative share of capacity among keys while all workers are busy"
    )
    blocked: bool = Field(default=False, description="whether the key is rejected")
    expires_at: Annotated[AwareDatetime, AfterValidator(_check_expiry)] | None = Field(
        default=None, description="expiry time, RFC 3339; null if the key never expires"
    )
    limits: LimitsBody = Field(default=LimitsBody(), description="limits on the key, in addition to those on the team")
    limit_template: EntityName | None = Field(
        default=None, description="limit template in the settings, whose limits apply where limits has none"
    )
    model_limits: ModelLimits = Field(default={}, description="limits of individual models, by model name")


class KeyBody(KeyState):
    team: EntityName = Field(description="team that the key belongs to")
    id: EntityName | None = Field(
        default=None, description="ID of the key in logs and the ledger; null generates an ID"
    )


class RotationBody(RequestBody):
    grace_s: Annotated[float, Field(ge=0, le=LONGEST_GRACE_S)] = Field(
        default=0, description="seconds for which the previous secret stays valid"
    )
    end_graces: bool = Field(
        default=False, description="whether to revoke previous secrets that are in their grace period"
    )


class WorkerBody(RequestBody):
    worker: str = Field(description="id of the worker")
    model: str | None = Field(default=None, description="model of the worker; null for every model that it serves")


def _check_worker_id(value: str) -> str:
    if "#" in value:  # behind it stands a place at an address that several share
        raise PydanticCustomError("rule", "{allowed}", {"allowed": "the value must not contain '#'"})
    return value


class NewWorkerBody(RequestBody):
    model: Annotated[ModelName, Field(max_length=LONGEST_MODEL)] = Field(
        description="configured name of the model that the worker serves"
    )
    url: Annotated[WorkerUrl, Field(max_length=LONGEST_URL)] = Field(
        description="address of the worker, http or https, without credentials"
    )
    id: Annotated[Token, Field(max_length=LONGEST_ID), AfterValidator(_check_worker_id)] | None = Field(
        default=None, description="worker ID in headers, logs and metrics; null derives the ID from the URL"
    )


class DrainBody(WorkerBody):
    hand_over_after_s: Annotated[float, Field(ge=0, le=MOST_SECONDS)] | None = Field(
        default=None,
        description="seconds until streams move to other workers, or null for never; default: drain.hand_over_after_s",
    )


OPERATOR_FIELDS = frozenset(
    {
        *("limits", "limit_template", "model_limits", "user_limits", "session_limits", "project_limits"),
        *("blocked", "weight", "priority"),
    }
)
"""Fields of teams and keys that an operator is allowed to change. All other fields require an owner."""


def written(body: RequestBody) -> dict[str, Any]:
    """Return the fields of *body* that differ from their defaults, as JSON values."""
    return body.model_dump(mode="json", exclude_defaults=True)


class RouteWeightsBody(RequestBody):
    route: ModelName = Field(description="name of the route in the settings, not an alias")
    weights: Annotated[dict[ModelName, RouteWeight], Field(min_length=1, max_length=MOST_NAMES)] = Field(
        description="weight of each model of the route, relative to the others; 0 for none; at least one above 0"
    )


class RevocationBody(RequestBody):
    issuer: EntityName = Field(description="name of the issuer in the settings (identity.issuers)")
    scope: RevokedScope = Field(
        description="token: one token; session: all tokens of a session; subject: all tokens that were issued to a "
        "person so far"
    )
    value: str = Field(
        min_length=1,
        max_length=MAX_VALUE,
        description="value of a claim: jti or uti for a token, sid for a session; sub, or the claim user_claim of the "
        "issuer, for a subject",
    )
    reason: str = Field(
        default="", max_length=LONGEST_REASON, description="reason, which the list and the audit log show"
    )
    keep_s: float = Field(
        default=LONGEST_GRACE_S,
        gt=0,
        le=MOST_KEPT_S,
        description="seconds after which the revocation ends; it must outlast the tokens",
    )


class RaiseBody(RequestBody):
    """Temporary raise of one limit. At most one of *user*, *session* and *project* can be given."""

    measure: Measure = Field(description="limit to raise, which must exist")
    amount: float = Field(gt=0, le=MOST_UNITS, description="amount of the limit while the raise lasts")
    for_s: Annotated[float, Field(gt=0, le=LONGEST_RAISE_S)] = Field(
        description="seconds until the raise ends, at most 90 days"
    )
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)] = Field(description="reason for the audit log")
    model: ModelName | None = Field(
        default=None, description="model whose limit is raised; null means the limit for all models"
    )


class TeamRaiseBody(RaiseBody):
    user: Annotated[str, Field(max_length=MAX_NAME_LENGTH)] | None = Field(
        default=None, description="end user whose limit is raised; empty for requests that name no end user"
    )
    session: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)] | None = Field(
        default=None, description="session whose limit is raised"
    )
    project: EntityName | None = Field(default=None, description="project whose limit is raised")


class CreditBody(RequestBody):
    measure: BudgetMeasure = Field(description="limit whose recorded usage is reduced")
    amount: float = Field(gt=0, le=MOST_UNITS, description="amount in US dollars or tokens, at most the recorded usage")
    key: EntityName | None = Field(default=None, description="key whose usage is reduced; null means the whole team")
    model: ModelName | None = Field(
        default=None, description="model whose limit is credited; null means the limit for all models"
    )
