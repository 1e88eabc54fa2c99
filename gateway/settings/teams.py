"""The groups for teams, their keys and limits."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.guardrails import GuardrailNames
from gateway.settings.rules import (
    Contradiction,
    Count,
    EntityName,
    Names,
    Networks,
    Positive,
    PriorityName,
    Secret,
    Sha256,
    StrategyName,
    VariableName,
    repeated,
    unless_contradictory,
)
from gateway.settings.tracing import DestinationSettings


class LimitSettings(Group):
    requests_per_minute: Count | None = Field(default=None, description="requests; null: no limit, as below")
    input_tokens_per_minute: Count | None = Field(default=None, description="prompt tokens, cached ones weigh less")
    output_tokens_per_minute: Count | None = Field(default=None, description="generated tokens")
    tokens_per_minute: Count | None = Field(default=None, description="both together")
    concurrent: Count | None = Field(default=None, description="requests at once")
    tokens_per_day: Count | None = Field(default=None, description="both together, by the calendar")
    usd_per_day: Positive | None = Field(default=None, description="US dollars, by the calendar")
    usd_per_month: Positive | None = Field(default=None, description="US dollars, by the calendar")
    soft_tokens_per_day: Count | None = Field(default=None, description="as tokens_per_day, but only warns")
    soft_tokens_per_month: Count | None = Field(default=None, description="the same by the month")
    soft_usd_per_day: Positive | None = Field(default=None, description="as usd_per_day, but only warns")
    soft_usd_per_month: Positive | None = Field(default=None, description="as usd_per_month, but only warns")


class KeySettings(Group):
    id: EntityName = Field(description="public name, which stands in logs and in the ledger")
    secret: Secret | None = Field(default=None, description="what callers send")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")
    secret_sha256: Sha256 | None = Field(default=None, description="SHA-256 of the secret, hexadecimal")
    project: EntityName | None = Field(default=None, description="tag by which its usage is told apart")
    models: Names | None = Field(default=None, description="narrows what the team may use")
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="that it may ask for; null: as the team"
    )
    fallback: bool | None = Field(default=None, description="whether fallbacks may answer; null: as the team")
    networks: Networks | None = Field(default=None, description="addresses that it may be used from, e.g. 10.0.0.0/8")
    priority: PriorityName | None = Field(default=None, description="high, normal or low; null: as the team")
    weight: Positive | None = Field(default=None, description="share of a saturated fleet; null: as the team")
    limits: LimitSettings = Field(default=LimitSettings(), description="beside those of the team")
    model_limits: dict[str, LimitSettings] = Field(default={}, description="limits of single models, by their names")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        given = [each for each in (self.secret, self.secret_sha256) if each is not None]
        if len(given) == 1 or (not given and self.secret_env is not None):  # `load` says that the variable is not set
            return self
        text = "is needed: secret, secret_env or secret_sha256, and only one of them"
        return unless_contradictory(self, [Contradiction(("secret",), text)])


class TeamSettings(Group):
    name: EntityName = Field(description="its name, in the ledger and in metrics")
    weight: Positive = Field(default=1, description="share of a saturated fleet, beside those of other teams")
    priority: PriorityName = Field(default="normal", description="high, normal or low: a higher one is served first")
    models: Names | None = Field(
        default=None, description="models that it may use: names, aliases, or prefixes with *; null: all, []: none"
    )
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="that its requests may ask for; null: all"
    )
    fallback: bool = Field(default=True, description="whether fallbacks, Bedrock among them, may answer its requests")
    ttft_s: Positive | None = Field(
        default=None, description="wanted time to the first token: later requests go to a fallback, see spill.when_late"
    )
    blocked: bool = Field(default=False, description="all of its keys are refused")
    isolated_cache: bool = Field(default=False, description="shares cached prefixes with no other team")
    tracing: DestinationSettings | None = Field(
        default=None, description="who is told of its traces, beside the operator: a Langfuse project; null: nobody"
    )
    projects: Names = Field(default=(), description="tags by which its usage may be told apart")
    guardrails: GuardrailNames = Field(
        default=(), description="names of guardrails that look at its requests and their answers"
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="of all its keys together")
    model_limits: dict[str, LimitSettings] = Field(default={}, description="limits of single models, by their names")
    keys: Annotated[tuple[KeySettings, ...], Field(strict=False)] = Field(
        default=(), description="its keys; more can be made while running"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        return unless_contradictory(self, repeated([(("keys", i, "id"), key.id) for i, key in enumerate(self.keys)]))
