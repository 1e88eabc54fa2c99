"""The groups of settings for traces: where they go, and which."""

import base64
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group, Token, Url
from gateway.settings.rules import Count, HeaderName, Positive, Secret, Share, VariableName, unless_contradictory

AUTHORIZATION = "authorization"


class DestinationSettings(Group):
    """The group for one receiver of traces."""

    endpoint: Url | None = Field(
        default=None,
        description="address of an OTLP/HTTP receiver without its /v1/traces, e.g. http://otel-collector:4318",
    )
    auth: Literal["bearer", "basic"] = Field(
        default="bearer", description="kind of the secret: a token, or USER:PASSWORD (of Langfuse: pk-lf-...:sk-lf-...)"
    )
    secret: Secret | None = Field(default=None, description="secret sent to the receiver; null: none")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")
    headers: dict[HeaderName, Secret] = Field(default={}, description="further headers for the receiver, by name")
    content: bool = Field(default=False, description="whether to send prompts and answers as well")
    langfuse: bool | None = Field(
        default=None,
        description="whether to send Langfuse's attributes as well; null: if endpoint has /api/public/otel",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        has_secret = self.secret is not None or self.secret_env is not None
        if self.endpoint is None and (has_secret or self.headers or self._is_needed):
            found.append(Contradiction(("endpoint",), "is needed: no receiver is set"))
        if has_secret and AUTHORIZATION in self.headers:
            found.append(Contradiction(("headers", AUTHORIZATION), "stands beside", ("secret",)))
        if self.auth == "basic" and self.secret is not None and ":" not in self.secret.get_secret_value():
            found.append(Contradiction(("secret",), "must be USER:PASSWORD where auth is basic"))
        return unless_contradictory(self, found)

    @property
    def _is_needed(self) -> bool:
        """Whether the group needs an address."""
        return True

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """Headers in addition to those of the protocol."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        if self.secret is None:
            return headers
        secret = self.secret.get_secret_value()
        proof = f"Bearer {secret}" if self.auth == "bearer" else f"Basic {base64.b64encode(secret.encode()).decode()}"
        return {**headers, AUTHORIZATION: proof}


class TracingSettings(DestinationSettings):
    """The operator's own receiver, and the rules for all receivers."""

    ratio: Share = Field(
        default=1, description="share of requests that are traced, unless the caller's traceparent decides"
    )
    service_name: Token = Field(default="warmgate", description="service.name of all spans")
    resource: dict[Token, str] = Field(
        default={}, description="more attributes of all spans, e.g. deployment.environment.name: production"
    )
    content_bytes: Count = Field(
        default=16384,
        description="largest size of a prompt, and of an answer, in a trace with content; the rest is cut",
    )
    max_waiting: Count = Field(
        default=4096, description="traces that wait for one receiver; more are dropped, and counted"
    )
    timeout_s: Positive = Field(default=10, description="how long a receiver may take for a batch")

    @property
    def _is_needed(self) -> bool:
        return self.content
