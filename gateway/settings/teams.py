"""The groups for teams, their keys and limits."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_types import EntityName, Group, Networks, PriorityName, StrategyName
from gateway.settings.guardrails import GuardrailNames
from gateway.settings.rules import Count, Names, Positive, Secret, Sha256, VariableName, unless_contradictory
from gateway.settings.tracing import DestinationSettings


class LimitSettings(Group):
    requests_per_minute: Count | None = Field(default=None, description="requests; null: no limit, as below")
    input_tokens_per_minute: Count | None = Field(default=None, description="prompt tokens, cached ones weigh less")
    output_tokens_per_minute: Count | None = Field(default=None, description="generated tokens")
    tokens_per_minute: Count | None = Field(default=None, description="prompt and generated tokens")
    max_concurrent_requests: Count | None = Field(default=None, description="requests at once")
    tokens_per_day: Count | None = Field(default=None, description="prompt and generated tokens per calendar day")
    usd_per_day: Positive | None = Field(default=None, description="US dollars per calendar day")
    usd_per_month: Positive | None = Field(default=None, description="US dollars per calendar month")
    soft_tokens_per_day: Count | None = Field(default=None, description="like tokens_per_day, but only warns")
    soft_tokens_per_month: Count | None = Field(default=None, description="like soft_tokens_per_day, but per month")
    soft_usd_per_day: Positive | None = Field(default=None, description="like usd_per_day, but only warns")
    soft_usd_per_month: Positive | None = Field(default=None, description="like usd_per_month, but only warns")


class KeySettings(Group):
    id: EntityName = Field(description="public name, shown in logs and in the ledger")
    secret: Secret | None = Field(default=None, description="secret that callers send")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")
    secret_sha256: Sha256 | None = Field(default=None, description="SHA-256 of the secret, hexadecimal")
    project: EntityName | None = Field(default=None, description="tag for reporting its usage separately")
    models: Names | None = Field(default=None, description="allowed models, within those of the team")
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="strategies that requests may ask for; null: same as the team"
    )
    fallback: bool | None = Field(default=None, description="whether fallbacks may answer; null: same as the team")
    allowed_cidrs: Networks | None = Field(
        default=None, description="networks that the key may be used from, e.g. 10.0.0.0/8"
    )
    priority: PriorityName | None = Field(default=None, description="high, normal or low; null: same as the team")
    weight: Positive | None = Field(default=None, description="share of a saturated fleet; null: same as the team")
    limits: LimitSettings = Field(
        default=LimitSettings(), description="limits of the key, in addition to those of the team"
    )
    model_limits: dict[str, LimitSettings] = Field(default={}, description="limits of individual models, by model name")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        given = [each for each in (self.secret, self.secret_sha256) if each is not None]
        if len(given) == 1 or (not given and self.secret_env is not None):  # `load` says that the variable is not set
            return self
        text = "is needed: secret, secret_env or secret_sha256, and only one of them"
        return unless_contradictory(self, [Contradiction(("secret",), text)])


class TeamSettings(Group):
    name: EntityName = Field(description="team name, in the ledger and in metrics")
    weight: Positive = Field(default=1, description="share of a saturated fleet, relative to other teams")
    priority: PriorityName = Field(
        default="normal", description="priority: high, normal or low; higher is served first"
    )
    models: Names | None = Field(
        default=None, description="allowed models: names, aliases, or prefixes with *; null: all, []: none"
    )
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="strategies that requests may ask for; null: all"
    )
    fallback: bool = Field(default=True, description="whether fallbacks, including Bedrock, may answer its requests")
    ttft_s: Positive | None = Field(
        default=None, description="target time to first token: slower requests go to a fallback, see spill.when_late"
    )
    blocked: bool = Field(default=False, description="whether all keys of the team are refused")
    isolated_cache: bool = Field(
        default=False, description="whether cached prefixes are kept separate from other teams"
    )
    tracing: DestinationSettings | None = Field(
        default=None,
        description="receiver of its traces, in addition to the operator's: a Langfuse project; null: none",
    )
    projects: Names = Field(default=(), description="tags for reporting usage separately")
    guardrails: GuardrailNames = Field(
        default=(), description="names of guardrails that check its requests and answers"
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="limits of all keys of the team together")
    model_limits: dict[str, LimitSettings] = Field(default={}, description="limits of individual models, by model name")
    keys: Annotated[tuple[KeySettings, ...], Field(strict=False)] = Field(
        default=(), description="keys of the team; more can be created at run time"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        return unless_contradictory(self, repeated([(("keys", i, "id"), key.id) for i, key in enumerate(self.keys)]))
