"""Settings for the fallbacks of a model, which answer if no worker can, and for their cost limits."""

from typing import Annotated, Literal, Self, get_args

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
    input_usd: NotNegative = Field(default=0, description="price in US dollars per million computed prompt tokens")
    cached_input_usd: NotNegative | None = Field(
        default=None,
        description="price in US dollars per million cached prompt tokens. Null means the same as input_usd.",
    )
    output_usd: NotNegative = Field(default=0, description="price in US dollars per million generated tokens")


class PriceSettings(TokenPriceSettings):
    gpu_hour_usd: NotNegative | None = Field(
        default=None,
        description="price in US dollars per hour of a worker. Tokens then cost their share of the worker's time. A "
        "price per hour cannot be combined with prices per token.",
    )
    batch_discount: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0,
        description="share of the price that lines of batches do not pay, e.g. 0.5 for half the price. It does not "
        "apply to lines that a fallback answers.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.gpu_hour_usd is not None and self.model_fields_set & {"input_usd", "cached_input_usd", "output_usd"}:
            text = "cannot be combined with prices per token"
            return unless_contradictory(self, [Contradiction(("gpu_hour_usd",), text)])
        return self


class AllowanceSettings(Group):
    """Limits and price of a fallback."""

    context_tokens: Count | None = Field(
        default=None,
        description="maximum number of prompt and output tokens together that the fallback accepts. Longer "
        "requests go to the next fallback. Null means unknown.",
    )
    max_output_tokens: Count | None = Field(
        default=None,
        description="maximum number of output tokens that the fallback accepts. Larger limits in requests are "
        "lowered to this number. Null means unknown.",
    )
    requests_per_minute: Count | None = Field(
        default=None,
        description="maximum number of requests per minute that are sent to the fallback. Null means no limit.",
    )
    tokens_per_minute: Count | None = Field(
        default=None,
        description="maximum number of tokens per minute that are sent to the fallback, counted like AWS quotas. "
        "Null means no limit.",
    )
    ramp_s: Positive | None = Field(
        default=60,
        description="seconds in which the rates of the fallback double after a pause, from a tenth of their "
        "limits. The ramp avoids throttling by AWS. Null means full rates at once.",
    )
    price: TokenPriceSettings | None = Field(
        default=None, description="price of the fallback's tokens. Null means the price of the model's tokens."
    )


class ModelBedrockSettings(AllowanceSettings):
    model_id: Token = Field(
        description="Amazon Bedrock model id, inference profile or ARN of the model that answers if no worker can"
    )
    region: Token | None = Field(
        default=None, description="AWS region of the model on Bedrock. Null means bedrock.region."
    )
    endpoint_url: Url | None = Field(
        default=None, description="URL of the Bedrock runtime endpoint. Null means bedrock.endpoint_url."
    )
    wire: Literal["converse", "openai"] = Field(
        default="converse",
        description="Bedrock API to use: converse (which all chat models support) or openai (which some models "
        "support)",
    )
    family: FamilyName = Field(
        default="auto",
        description=f"model family whose rules requests to Bedrock follow: {', '.join(FAMILIES)}. With auto, the "
        "model_id decides.",
    )
    default_max_tokens: Count = Field(
        default=4096, description="maximum number of output tokens for a request that sets no limit"
    )
    first_event_timeout_s: Positive = Field(
        default=60, description="maximum seconds until the first event of Bedrock's answer"
    )
    reasoning_field: Token = Field(
        default="reasoning_content",
        description="field of answers in which clients expect the model's reasoning. Some versions of vLLM use "
        '"reasoning".',
    )


class OpenAIEndpointSettings(AllowanceSettings):
    url: Url = Field(
        description="base URL of the OpenAI-compatible API, including /v1 if the API's path contains it, e.g. "
        "https://llm.example.com/v1"
    )
    model: ModelName | None = Field(
        default=None, description="model name that the gateway sends to the endpoint. Null means the name of the model."
    )
    api_key: Secret | None = Field(
        default=None, description="API key that the gateway sends to the endpoint as a bearer token"
    )
    id: Token | None = Field(
        default=None, description="name of the fallback in headers, logs and metrics. Null means openai:HOST:PORT."
    )


class FallbackSettings(Group):
    bedrock: ModelBedrockSettings | None = Field(default=None, description="model on Amazon Bedrock")
    openai: OpenAIEndpointSettings | None = Field(default=None, description="OpenAI-compatible endpoint")

    @property
    def kind(self) -> str:
        """Kind of the fallback, which is the name of the only group that is set."""
        return self._set[0]

    @property
    def group(self) -> AllowanceSettings:
        """Settings of the fallback, which are in the only group that is set."""
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
        default=None,
        description="maximum cost in US dollars of the model's fallbacks within one hour. Null means no limit.",
    )
    share: Share | None = Field(
        default=None,
        description="maximum share of the model's requests within one minute that can go to fallbacks. Null means no "
        "limit.",
    )
    when_late: bool = Field(
        default=True,
        description="also use fallbacks if the wait for a worker would exceed the client's timeout or the team's "
        "ttft_s",
    )


class BedrockSettings(Group):
    region: Token | None = Field(
        default=None,
        description="default AWS region of Bedrock models. Null means AWS_REGION, or else AWS_DEFAULT_REGION.",
    )
    endpoint_url: Url | None = Field(
        default=None,
        description="URL of the Bedrock runtime endpoint. Null means AWS_ENDPOINT_URL_BEDROCK_RUNTIME, then "
        "AWS_ENDPOINT_URL, then the endpoint of AWS.",
    )
    profile: Token | None = Field(
        default=None,
        description="name of the AWS profile with the credentials for Bedrock. Null means the usual AWS "
        "credential chain.",
    )
    auth: Literal["sigv4", "bearer"] = Field(
        default="sigv4", description="authentication for Bedrock: sigv4 (AWS credentials) or bearer (Bedrock API key)"
    )
    bearer_token: Secret | None = Field(
        default=None, description="Bedrock API key, for auth: bearer. Null means AWS_BEARER_TOKEN_BEDROCK."
    )
    bearer_token_file: FileName | None = Field(
        default=None,
        description="file with the Bedrock API key, read again when it changes. The file overrides bearer_token.",
    )
    canary_at_start: bool = Field(
        default=True, description="send a test request for 16 tokens to each Bedrock model when the gateway starts"
    )
    canary_every_s: Positive | None = Field(
        default=604800,
        description="seconds between two test requests to each Bedrock model. AWS withdraws legacy models that "
        "an account has not used for 30 days. Null disables these requests.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.auth == "bearer" and self.bearer_token is None and self.bearer_token_file is None:
            found.append(Contradiction(("bearer_token",), "or bearer_token_file is required if auth is bearer"))
        return unless_contradictory(self, found)
