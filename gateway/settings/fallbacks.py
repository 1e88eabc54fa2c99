"""The groups of settings for what answers when a model's own workers cannot, and what that may cost."""

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.rules import (
    Contradiction,
    Count,
    FileName,
    ModelName,
    NotNegative,
    Positive,
    Secret,
    Share,
    Token,
    Url,
    unless_contradictory,
)

FamilyName = Literal[
    "auto",
    "llama",
    "qwen",
    "mistral",
    "claude",
    "nova",
    "gpt-oss",
    "deepseek",
    "glm",
    "kimi",
    "minimax",
    "gemma",
    "other",
]
FAMILIES: tuple[str, ...] = get_args(FamilyName)


class PriceSettings(Group):
    input_usd: NotNegative = Field(default=0, description="US dollars per million prompt tokens that were computed")
    cached_input_usd: NotNegative | None = Field(
        default=None, description="the same of prompt tokens that were cached; null: as input_usd"
    )
    output_usd: NotNegative = Field(default=0, description="US dollars per million tokens that were generated")
    gpu_hour_usd: NotNegative | None = Field(
        default=None,
        description="US dollars for an hour of a worker: tokens cost their share of its time; not with the others",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.gpu_hour_usd is not None and self.model_fields_set & {"input_usd", "cached_input_usd", "output_usd"}:
            text = "stands beside prices of tokens; a model has the one or the others"
            return unless_contradictory(self, [Contradiction(("gpu_hour_usd",), text)])
        return self


class AllowanceSettings(Group):
    """What may be asked of one fallback; groups of settings that have it say so by deriving from it."""

    context_tokens: Count | None = Field(
        default=None, description="longest prompt and output together; longer ones go to the next; null: not known"
    )
    max_output_tokens: Count | None = Field(
        default=None, description="most output tokens it takes; requests for more are cut to it; null: not known"
    )
    requests_per_minute: Count | None = Field(default=None, description="requests that it is sent; null: no limit")
    tokens_per_minute: Count | None = Field(
        default=None, description="prompt and output tokens that it is sent, as AWS counts its quotas; null: no limit"
    )
    ramp_s: Positive | None = Field(
        default=60,
        description="after a pause both rates begin at a tenth and double in this time; null: whole at once",
    )
    price: PriceSettings | None = Field(default=None, description="what its tokens cost; null: as those of the model")


class ModelBedrockSettings(AllowanceSettings):
    model_id: Token = Field(description="model id, inference profile or ARN that answers when no worker can")
    region: Token | None = Field(default=None, description="AWS region; null: bedrock.region")
    endpoint_url: Url | None = Field(default=None, description="endpoint of the runtime; null: bedrock.endpoint_url")
    wire: Literal["converse", "openai"] = Field(
        default="converse",
        description="API that is spoken: Converse, which all models have, or OpenAI's, which some have",
    )
    family: FamilyName = Field(
        default="auto", description=f"whose rules its requests follow: {', '.join(FAMILIES)}; auto: by model_id"
    )
    default_max_tokens: Count = Field(default=4096, description="output limit, tokens, when a request sets none")
    first_event_timeout_s: Positive = Field(default=60, description="wait for the first event of Bedrock's answer")
    reasoning_field: Token = Field(
        default="reasoning_content", description="where a model's thoughts go in an answer; some vLLM say reasoning"
    )


class OpenAIEndpointSettings(AllowanceSettings):
    url: Url = Field(description="base of the API, with its /v1 where it has one, e.g. https://llm.example.com/v1")
    model: ModelName | None = Field(default=None, description="name sent to it; null: the name of the model here")
    api_key: Secret | None = Field(default=None, description="key sent to it as a bearer token")
    id: Token | None = Field(default=None, description="name in headers, logs and metrics; null: openai:HOST:PORT")


class FallbackSettings(Group):
    bedrock: ModelBedrockSettings | None = Field(default=None, description="a model on Amazon Bedrock")
    openai: OpenAIEndpointSettings | None = Field(default=None, description="any endpoint that speaks OpenAI's API")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.bedrock is None) == (self.openai is None):
            return unless_contradictory(self, [Contradiction((), "needs either bedrock or openai, and not both")])
        return self


class SpillSettings(Group):
    usd_per_hour: NotNegative | None = Field(
        default=None, description="US dollars that its fallbacks may cost within an hour; null: no limit"
    )
    share: Share | None = Field(
        default=None, description="of its requests of the last minute that may go to fallbacks; null: all"
    )
    when_late: bool = Field(
        default=True,
        description="also requests whose wait for a worker would be longer than the caller waits, or the team's ttft_s",
    )


class BedrockSettings(Group):
    region: Token | None = Field(
        default=None, description="AWS region for all models; null: AWS_REGION, then AWS_DEFAULT_REGION"
    )
    endpoint_url: Url | None = Field(
        default=None, description="null: AWS_ENDPOINT_URL_BEDROCK_RUNTIME, then AWS_ENDPOINT_URL, then AWS's own"
    )
    profile: Token | None = Field(default=None, description="named AWS profile; null: the usual credential chain")
    auth: Literal["sigv4", "bearer"] = Field(
        default="sigv4", description="how the gateway proves who it is: signed by AWS credentials, or a Bedrock API key"
    )
    bearer_token: Secret | None = Field(
        default=None, description="Bedrock API key for auth: bearer; null: AWS_BEARER_TOKEN_BEDROCK"
    )
    bearer_token_file: FileName | None = Field(
        default=None, description="file with that key, read again when it changes; before bearer_token"
    )
    canary_at_start: bool = Field(
        default=True, description="ask each mapped model for 16 tokens when the gateway starts"
    )
    canary_every_s: Positive | None = Field(
        default=604800,
        description="and then so often: AWS closes legacy models to who was idle for 30 days; null: never",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.auth == "bearer" and self.bearer_token is None and self.bearer_token_file is None:
            found.append(Contradiction(("bearer_token",), "is needed, or bearer_token_file"))
        return unless_contradictory(self, found)
