"""Settings for traces: which requests are traced, and which receivers get the traces."""

import base64
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group, Token, Url
from gateway.settings.rules import Count, HeaderName, Positive, Secret, Share, VariableName, unless_contradictory

AUTHORIZATION = "authorization"


class DestinationSettings(Group):
    """Settings for one receiver of traces."""

    endpoint: Url | None = Field(
        default=None,
        description="URL of an OTLP/HTTP receiver, without /v1/traces, e.g. http://otel-collector:4318",
    )
    auth: Literal["bearer", "basic"] = Field(
        default="bearer",
        description="kind of secret for the receiver: bearer (a token) or basic (USER:PASSWORD, for Langfuse "
        "pk-lf-...:sk-lf-...)",
    )
    secret: Secret | None = Field(
        default=None, description="secret that the gateway sends to the receiver of traces. Null means no secret."
    )
    secret_env: VariableName | None = Field(
        default=None, description="environment variable that holds the secret for the receiver of traces"
    )
    headers: dict[HeaderName, Secret] = Field(
        default={}, description="additional HTTP headers for the receiver of traces, by name"
    )
    content: bool = Field(default=False, description="whether traces include prompts and answers")
    langfuse: bool | None = Field(
        default=None,
        description="whether spans have Langfuse's attributes too. Null means yes if the endpoint contains "
        "/api/public/otel.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        has_secret = self.secret is not None or self.secret_env is not None
        if self.endpoint is None and (has_secret or self.headers or self._is_needed):
            found.append(Contradiction(("endpoint",), "is required. Set the address of the receiver"))
        if has_secret and AUTHORIZATION in self.headers:
            found.append(Contradiction(("headers", AUTHORIZATION), "cannot be combined with", ("secret",)))
        if self.auth == "basic" and self.secret is not None and ":" not in self.secret.get_secret_value():
            found.append(Contradiction(("secret",), "must be USER:PASSWORD if auth is basic"))
        return unless_contradictory(self, found)

    @property
    def _is_needed(self) -> bool:
        """Whether the address of a receiver must be set."""
        return True

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """HTTP headers for the receiver, including the header with the secret."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        if self.secret is None:
            return headers
        secret = self.secret.get_secret_value()
        proof = f"Bearer {secret}" if self.auth == "bearer" else f"Basic {base64.b64encode(secret.encode()).decode()}"
        return {**headers, AUTHORIZATION: proof}


class TracingSettings(DestinationSettings):
    """Settings for the operator's own receiver of traces, and rules for all receivers."""

    otel_environment: bool = Field(
        default=False,
        description="whether OpenTelemetry's OTEL_* variables fill trace settings that are not given: endpoint, "
        "headers, timeout, service name, resource attributes and sampler",
    )
    ratio: Share = Field(
        default=1,
        description="share of requests that are traced, from 0 to 1. If the caller sends the header traceparent, the "
        "header decides instead.",
    )
    service_name: Token = Field(default="warmgate", description="value of the attribute service.name in all spans")
    resource: dict[Token, str] = Field(
        default={},
        description="additional resource attributes of all spans, e.g. deployment.environment.name: production",
    )
    content_bytes: Count = Field(
        default=16384,
        description="maximum size in bytes of a prompt or an answer in a trace. Longer texts are cut.",
    )
    max_waiting: Count = Field(
        default=4096,
        description="maximum number of traces that wait to be sent to one receiver. Further traces are dropped "
        "and counted.",
    )
    timeout_s: Positive = Field(default=10, description="maximum seconds for a receiver to accept a batch of traces")

    @property
    def _is_needed(self) -> bool:
        return self.content
