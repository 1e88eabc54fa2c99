"""The bodies of requests: the words and rules of the settings, where teams and keys can be declared as well.

Numbers have upper bounds here, far beyond any use: stores keep them in 64 bits, money in billionths of a dollar.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field
from pydantic_core import PydanticCustomError

from gateway.quota.budgets import BudgetMeasure
from gateway.settings.group import Group
from gateway.settings.rules import Alias, EntityName, ModelName, Networks, PriorityName, StrategyName, Token, WorkerUrl
from gateway.teams.limits import Limits

MOST_UNITS = 10**15
"""Of tokens or requests; exact as a double."""
MOST_USD = 10**9
"""In billionths it is 10**18, below 2**63."""
LIGHTEST, HEAVIEST = 0.001, 1000
"""Weights: a share of a fleet beside other shares."""
MOST_NAMES = 1000
MOST_SECONDS = 10**6
"""To wait for something."""
LONGEST_GRACE_S = 30 * 86400
LONGEST_MODEL, LONGEST_URL, LONGEST_ID = 300, 1000, 200
"""Of an added worker, in characters."""

Amount = Annotated[int, Field(ge=1, le=MOST_UNITS)]
Usd = Annotated[float, Field(gt=0, le=MOST_USD)]
Weight = Annotated[float, Field(ge=LIGHTEST, le=HEAVIEST)]
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
Names = Annotated[tuple[Alias, ...], Field(max_length=MOST_NAMES)]
Strategies = Annotated[tuple[StrategyName, ...], Field(max_length=MOST_NAMES)]


def _check_expiry(value: datetime) -> datetime:
    if not 1970 < value.year < 9999:  # with another offset its year may be the one before or behind
        raise PydanticCustomError("rule", "{allowed}", {"allowed": "its year must be between 1971 and 9998"})
    return value


class Body(Group):
    """Nothing that is not declared, nothing converted: ``"5"`` is not a number."""


class LimitsBody(Body):
    """null: no limit."""

    requests_per_minute: Amount | None = Field(default=None, description="requests")
    input_tokens_per_minute: Amount | None = Field(default=None, description="prompt tokens, cached ones weigh less")
    output_tokens_per_minute: Amount | None = Field(default=None, description="generated tokens")
    tokens_per_minute: Amount | None = Field(default=None, description="both together")
    concurrent: Amount | None = Field(default=None, description="requests at once")
    tokens_per_day: Amount | None = Field(default=None, description="both together, by the calendar")
    usd_per_day: Usd | None = Field(default=None, description="US dollars, by the calendar")
    usd_per_month: Usd | None = Field(default=None, description="US dollars, by the calendar")
    soft_tokens_per_day: Amount | None = Field(default=None, description="as tokens_per_day, but only warns")
    soft_tokens_per_month: Amount | None = Field(default=None, description="the same by the month")
    soft_usd_per_day: Usd | None = Field(default=None, description="as usd_per_day, but only warns")
    soft_usd_per_month: Usd | None = Field(default=None, description="as usd_per_month, but only warns")

    def limits(self) -> Limits:
        return Limits(**self.model_dump())


ModelLimits = Annotated[dict[ModelName, LimitsBody], Field(max_length=MOST_NAMES)]


def limits_by_model(bodies: dict[str, LimitsBody]) -> dict[str, Limits]:
    """Without models that are not limited."""
    by_model = {model: body.limits() for model, body in bodies.items()}
    return {model: limits for model, limits in by_model.items() if limits != Limits()}


class TeamState(Body):
    """What may be said of a team, but for its name."""

    weight: Weight = Field(default=1.0, description="share of a saturated fleet, beside those of other teams")
    priority: PriorityName = Field(default="normal", description="a higher one is served first")
    models: Names | None = Field(
        default=None, description="that it may use: names, aliases, or prefixes with *; null: all, []: none"
    )
    strategies: Strategies | None = Field(default=None, description="that its requests may ask for; null: all")
    fallback: bool = Field(default=True, description="whether fallbacks, Bedrock among them, may answer its requests")
    ttft_s: Seconds | None = Field(
        default=None, description="wanted time to the first token: later requests go to a fallback, see spill.when_late"
    )
    blocked: bool = Field(default=False, description="all of its keys are refused")
    isolated_cache: bool = Field(default=False, description="shares cached prefixes with no other team")
    projects: Names = Field(default=(), description="tags by which its usage may be told apart")
    guardrails: Names = Field(default=(), description="names of guardrails that look at its requests and their answers")
    limits: LimitsBody = Field(default=LimitsBody(), description="of all its keys together")
    model_limits: ModelLimits = Field(default={}, description="limits of single models, by their names")


class TeamBody(TeamState):
    name: EntityName = Field(description="its name, in the ledger and in metrics")


class TeamPut(TeamState):
    name: EntityName | None = Field(default=None, description="if given, that of the path")


class KeyState(Body):
    """What may be said of a key, but for its id and its team. null: as the team has it."""

    project: EntityName | None = Field(default=None, description="tag by which its usage is told apart")
    models: Names | None = Field(default=None, description="narrows what the team may use")
    strategies: Strategies | None = Field(default=None, description="that its requests may ask for")
    fallback: bool | None = Field(default=None, description="whether fallbacks may answer its requests")
    networks: Annotated[Networks, Field(max_length=MOST_NAMES)] | None = Field(
        default=None, description="addresses that it may be used from, e.g. 10.0.0.0/8; null: all"
    )
    priority: PriorityName | None = Field(default=None, description="a higher one is served first")
    weight: Weight | None = Field(default=None, description="share of a saturated fleet")
    blocked: bool = Field(default=False, description="it is refused")
    expires_at: Annotated[AwareDatetime, AfterValidator(_check_expiry)] | None = Field(
        default=None, description="when it ends, RFC 3339; null: never"
    )
    limits: LimitsBody = Field(default=LimitsBody(), description="beside those of the team")
    model_limits: ModelLimits = Field(default={}, description="limits of single models, by their names")


class KeyBody(KeyState):
    team: EntityName = Field(description="that it belongs to")
    id: EntityName | None = Field(
        default=None, description="public name, which stands in logs and in the ledger; null: one is made"
    )


class RotationBody(Body):
    grace_s: Annotated[float, Field(ge=0, le=LONGEST_GRACE_S)] = Field(
        default=0, description="for how long the former secret counts as well"
    )
    end_graces: bool = Field(
        default=False, description="whether secrets of earlier rotations, whose grace still runs, end at once"
    )


class WorkerBody(Body):
    worker: str = Field(description="its id")
    model: str | None = Field(default=None, description="null: of every model that it serves")


def _check_worker_id(value: str) -> str:
    if "#" in value:  # behind it stands a place at an address that several share
        raise PydanticCustomError("rule", "{allowed}", {"allowed": "it must be without '#'"})
    return value


class NewWorkerBody(Body):
    model: Annotated[ModelName, Field(max_length=LONGEST_MODEL)] = Field(
        description="that it is to serve, as it is configured"
    )
    url: Annotated[WorkerUrl, Field(max_length=LONGEST_URL)] = Field(
        description="its address, http or https, without credentials"
    )
    id: Annotated[Token, Field(max_length=LONGEST_ID), AfterValidator(_check_worker_id)] | None = Field(
        default=None, description="name in headers, logs and metrics; null: made of its url"
    )


class DrainBody(WorkerBody):
    hand_over_after_s: Annotated[float, Field(ge=0, le=MOST_SECONDS)] | None = Field(
        default=None,
        description="until streams that can go on elsewhere do so; null: never, left out: drain.hand_over_after_s",
    )


OPERATOR_FIELDS = frozenset({"limits", "model_limits", "blocked", "weight", "priority"})
"""Of teams and keys; what else they have changes only with an owner."""


def written(body: Body) -> dict[str, Any]:
    """What *body* says, as JSON has it; defaults are left out."""
    return body.model_dump(mode="json", exclude_defaults=True)


class CreditBody(Body):
    measure: BudgetMeasure = Field(description="the limit whose use is lowered")
    amount: float = Field(gt=0, le=MOST_UNITS, description="US dollars, or tokens; no more than was used is given back")
    key: EntityName | None = Field(default=None, description="of this key of the team; null: of the team")
    model: ModelName | None = Field(default=None, description="of the limit of this model; null: of all together")
