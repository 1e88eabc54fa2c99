"""Settings for teams, their API keys and their limits."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_types import EntityName, Group, Networks, PriorityName, StrategyName
from gateway.settings.guardrails import GuardrailNames
from gateway.settings.rules import (
    AllowedModels,
    Count,
    Names,
    Positive,
    Secret,
    Sha256,
    VariableName,
    unless_contradictory,
)
from gateway.settings.tracing import DestinationSettings


class HardLimitSettings(Group):
    requests_per_minute: Count | None = Field(
        default=None, description="maximum number of requests per minute. Null means no limit."
    )
    input_tokens_per_minute: Count | None = Field(
        default=None,
        description="maximum number of prompt tokens per minute. Cached tokens count less (quota.cached_weight). "
        "Null means no limit.",
    )
    output_tokens_per_minute: Count | None = Field(
        default=None, description="maximum number of generated tokens per minute. Null means no limit."
    )
    tokens_per_minute: Count | None = Field(
        default=None,
        description="maximum number of prompt and generated tokens per minute. Cached prompt tokens count less "
        "(quota.cached_weight). Null means no limit.",
    )
    max_concurrent_requests: Count | None = Field(
        default=None, description="maximum number of concurrent requests. Null means no limit."
    )
    tokens_per_day: Count | None = Field(
        default=None, description="maximum number of prompt and generated tokens per calendar day. Null means no limit."
    )
    usd_per_day: Positive | None = Field(
        default=None, description="maximum cost in US dollars per calendar day. Null means no limit."
    )
    usd_per_month: Positive | None = Field(
        default=None, description="maximum cost in US dollars per calendar month. Null means no limit."
    )


class LimitSettings(HardLimitSettings):
    soft_tokens_per_day: Count | None = Field(
        default=None,
        description="number of prompt and generated tokens per calendar day above which the gateway warns. No "
        "request is refused. Null means no warning.",
    )
    soft_tokens_per_month: Count | None = Field(
        default=None,
        description="number of prompt and generated tokens per calendar month above which the gateway warns. No "
        "request is refused. Null means no warning.",
    )
    soft_usd_per_day: Positive | None = Field(
        default=None,
        description="cost in US dollars per calendar day above which the gateway warns. No request is refused. "
        "Null means no warning.",
    )
    soft_usd_per_month: Positive | None = Field(
        default=None,
        description="cost in US dollars per calendar month above which the gateway warns. No request is refused. "
        "Null means no warning.",
    )


class LimitTemplateSettings(Group):
    name: EntityName = Field(description="name of the template in limit_template of teams and keys")
    limits: LimitSettings = Field(
        description="limits of each team and each key that names the template. Limits of the team or key itself take "
        "precedence."
    )


class ModelGroupSettings(Group):
    name: EntityName = Field(description="name of the group, which lists of models contain as group:NAME")
    models: Names = Field(description="models of the group: names, aliases, or prefixes that end in *")


class KeySettings(Group):
    id: EntityName = Field(description="public name of the key, shown in logs and in the ledger")
    secret: Secret | None = Field(
        default=None,
        description="secret that callers send as the API key. Set exactly one of secret, secret_env and secret_sha256.",
    )
    secret_env: VariableName | None = Field(
        default=None, description="environment variable that holds the secret of the key"
    )
    secret_sha256: Sha256 | None = Field(
        default=None, description="SHA-256 digest of the key's secret, as 64 hexadecimal digits"
    )
    project: EntityName | None = Field(
        default=None, description="tag under which the usage of the key is reported separately"
    )
    models: AllowedModels | None = Field(
        default=None,
        description="models that the key is allowed to use, among the models of its team, in the format of "
        "teams[].models. Null means all models of the team.",
    )
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None,
        description="routing strategies that requests with the key can choose. Null means the team's setting.",
    )
    fallback: bool | None = Field(
        default=None, description="whether fallbacks can answer requests with the key. Null means the team's setting."
    )
    allowed_cidrs: Networks | None = Field(
        default=None, description="networks from which the key is accepted, e.g. 10.0.0.0/8. Null means all networks."
    )
    priority: PriorityName | None = Field(
        default=None,
        description="priority of requests with the key: high, normal or low. Null means the team's priority.",
    )
    weight: Positive | None = Field(
        default=None,
        description="share of a saturated fleet for requests with the key, relative to other weights. Null means "
        "the team's weight.",
    )
    limits: LimitSettings = Field(
        default=LimitSettings(), description="limits of the key, in addition to those of its team"
    )
    limit_template: EntityName | None = Field(
        default=None,
        description="name of one of limit_templates, whose limits apply where limits has none. Null means no template.",
    )
    model_limits: dict[str, LimitSettings] = Field(
        default={}, description="limits for individual models, by model name"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        given = [each for each in (self.secret, self.secret_sha256) if each is not None]
        if len(given) == 1 or (not given and self.secret_env is not None):  # `load` says that the variable is not set
            return self
        text = "is invalid. Set exactly one of secret, secret_env and secret_sha256"
        return unless_contradictory(self, [Contradiction(("secret",), text)])


class TeamSettings(Group):
    name: EntityName = Field(description="name of the team in the ledger and in metrics")
    weight: Positive = Field(
        default=1, description="share of a saturated fleet that the team gets, relative to the weights of other teams"
    )
    priority: PriorityName = Field(
        default="normal",
        description="priority of the team's requests: high, normal or low. Requests of a higher priority are "
        "served first.",
    )
    models: AllowedModels | None = Field(
        default=None,
        description="models that the team is allowed to use: names, aliases, prefixes that end in *, or groups of "
        "model_groups as group:NAME. Null means all models, and [] means none.",
    )
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="routing strategies that requests of the team can choose. Null means all strategies."
    )
    fallback: bool = Field(
        default=True, description="whether fallbacks, including Amazon Bedrock, can answer requests of the team"
    )
    ttft_s: Positive | None = Field(
        default=None,
        description="target time to first token of the team, in seconds. Requests that would exceed the target go to "
        "a fallback if spill.when_late is true.",
    )
    blocked: bool = Field(default=False, description="whether the gateway refuses all keys of the team")
    isolated_cache: bool = Field(
        default=False,
        description="whether the team's cached prefixes are kept separate from those of other teams. Requests of the "
        "team then share no cache with other teams.",
    )
    tracing: DestinationSettings | None = Field(
        default=None,
        description="receiver of the team's traces, e.g. a Langfuse project, in addition to the operator's "
        "receiver. Null means no such receiver.",
    )
    projects: Names = Field(default=(), description="tags under which usage of the team can be reported separately")
    guardrails: GuardrailNames = Field(
        default=(), description="names of the guardrails that check the requests and answers of the team"
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="limits for all keys of the team together")
    limit_template: EntityName | None = Field(
        default=None,
        description="name of one of limit_templates, whose limits apply where limits has none. Null means no template.",
    )
    model_limits: dict[str, LimitSettings] = Field(
        default={}, description="limits for individual models, by model name"
    )
    user_limits: HardLimitSettings = Field(
        default=HardLimitSettings(),
        description="limits of each end user of the team. Requests that name no end user count together, as one user.",
    )
    session_limits: HardLimitSettings = Field(
        default=HardLimitSettings(),
        description="limits of each session of the team, such as a conversation of an agent. They do not apply to "
        "requests that name no session.",
    )
    project_limits: dict[str, HardLimitSettings] = Field(
        default={}, description="limits for all keys of one project of the team together, by project name"
    )
    keys: Annotated[tuple[KeySettings, ...], Field(strict=False)] = Field(
        default=(), description="API keys of the team. More keys can be created while the gateway runs."
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        return unless_contradictory(self, repeated([(("keys", i, "id"), key.id) for i, key in enumerate(self.keys)]))
