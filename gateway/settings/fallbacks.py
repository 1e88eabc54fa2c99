"""The groups of settings for what answers when a model's own workers cannot, and what that may cost."""

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group, ModelName, Token, Url
from gateway.settings.rules import Count, FileName, NotNegative, Positive, Secret, Share, unless_contradictory

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


class TokenPriceSettings(Group):
    input_usd: NotNegative = Field(default=0, description="US dollars per million prompt tokens that were computed")
    cached_input_usd: NotNegative | None = Field(
        default=None, description="US dollars per million cached prompt tokens; null: same as input_usd"
    )
    output_usd: NotNegative = Field(default=0, description="US dollars per million tokens that were generated")


class PriceSettings(TokenPriceSettings):
    gpu_hour_usd: NotNegative | None = Field(
        default=None,
        description="US dollars per worker hour: tokens cost their share of its time; excludes the other prices",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.gpu_hour_usd is not None and self.model_fields_set & {"input_usd", "cached_input_usd", "output_usd"}:
            text = "stands beside prices of tokens; a model has the one or the others"
            return unless_contradictory(self, [Contradiction(("gpu_hour_usd",), text)])
        return self


class AllowanceSettings(Group):
    """Limits of one fallback."""

    context_tokens: Count | None = Field(
        default=None, description="longest prompt and output together; longer ones go to the next; null: not known"
    )
    max_output_tokens: Count | None = Field(
        default=None, description="most output tokens it takes; requests for more are limited to it; null: not known"
    )
    requests_per_minute: Count | None = Field(
        default=None, description="requests per minute sent to the fallback; null: no limit"
    )
    tokens_per_minute: Count | None = Field(
        default=None, description="tokens per minute sent to the fallback, as AWS counts its quotas; null: no limit"
    )
    ramp_s: Positive | None = Field(
        default=60,
        description="after a pause both rates begin at a tenth and double in this time; null: whole at once",
    )
    price: TokenPriceSettings | None = Field(default=None, description="price of its tokens; null: same as the model")


class ModelBedrockSettings(AllowanceSettings):
    model_id: Token = Field(description="model id, inference profile or ARN that answers when no worker can")
    region: Token | None = Field(default=None, description="AWS region; null: bedrock.region")
    endpoint_url: Url | None = Field(default=None, description="endpoint of the runtime; null: bedrock.endpoint_url")
    wire: Literal["converse", "openai"] = Field(
        default="converse",
        description="API to use: Converse, which all models have, or OpenAI's, which some have",
    )
    family: FamilyName = Field(
        default="auto", description=f"whose rules its requests follow: {', '.join(FAMILIES)}; auto: by model_id"
    )
    default_max_tokens: Count = Field(default=4096, description="output limit, tokens, when a request sets none")
    first_event_timeout_s: Positive = Field(default=60, description="wait for the first event of Bedrock's answer")
    reasoning_field: Token = Field(
        default="reasoning_content",
        description="field of an answer that holds a model's reasoning; some versions of vLLM use reasoning",
    )


class OpenAIEndpointSettings(AllowanceSettings):
    url: Url = Field(description="base of the API, with its /v1 where it has one, e.g. https://llm.example.com/v1")
    model: ModelName | None = Field(default=None, description="model name sent to the endpoint; null: the model's name")
    api_key: Secret | None = Field(default=None, description="API key sent as a bearer token")
    id: Token | None = Field(default=None, description="name in headers, logs and metrics; null: openai:HOST:PORT")


class FallbackSettings(Group):
    bedrock: ModelBedrockSettings | None = Field(default=None, description="a model on Amazon Bedrock")
    openai: OpenAIEndpointSettings | None = Field(default=None, description="any endpoint that speaks OpenAI's API")

    @property
    def kind(self) -> str:
        """Name of the one group that is set."""
        return self._set[0]

    @property
    def group(self) -> AllowanceSettings:
        """The one group that is set."""
        group: AllowanceSettings = getattr(self, self.kind)
        return group

    @property
    def _set(self) -> list[str]:
        return [name for name in type(self).model_fields if getattr(self, name) is not None]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if len(self._set) != 1:
            text = f"needs exactly one of {', '.join(type(self).model_fields)}"
            return unless_contradictory(self, [Contradiction((), text)])
        return self


class SpillSettings(Group):
    usd_per_hour: NotNegative | None = Field(
        default=None, description="US dollars that its fallbacks may cost within an hour; null: no limit"
    )
    share: Share | None = Field(
        default=None, description="share of requests of the last minute that may go to fallbacks; null: all"
    )
    when_late: bool = Field(
        default=True,
        description="also use fallbacks if the wait for a worker would exceed the caller's limit or the team's ttft_s",
    )


class BedrockSettings(Group):
    region: Token | None = Field(
        default=None, description="AWS region for all models; null: AWS_REGION, then AWS_DEFAULT_REGION"
    )
    endpoint_url: Url | None = Field(
        default=None,
        description="endpoint of the runtime; null: AWS_ENDPOINT_URL_BEDROCK_RUNTIME, then AWS_ENDPOINT_URL, then "
        "AWS's own",
    )
    profile: Token | None = Field(default=None, description="named AWS profile; null: the usual credential chain")
    auth: Literal["sigv4", "bearer"] = Field(
        default="sigv4", description="authentication: sigv4 (AWS credentials) or bearer (Bedrock API key)"
    )
    bearer_token: Secret | None = Field(
        default=None, description="Bedrock API key for auth: bearer; null: AWS_BEARER_TOKEN_BEDROCK"
    )
    bearer_token_file: FileName | None = Field(
        default=None, description="file with the Bedrock API key, reread when it changes; overrides bearer_token"
    )
    canary_at_start: bool = Field(
        default=True, description="ask each mapped model for 16 tokens when the gateway starts"
    )
    canary_every_s: Positive | None = Field(
        default=604800,
        description="interval of further test requests: AWS closes legacy models after 30 idle days; null: never",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.auth == "bearer" and self.bearer_token is None and self.bearer_token_file is None:
            found.append(Contradiction(("bearer_token",), "is needed, or bearer_token_file"))
        return unless_contradictory(self, found)
