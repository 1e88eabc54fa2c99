"""The groups of settings for traces: where they go, and which."""

import base64
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.rules import (
    Contradiction,
    Count,
    HeaderName,
    Positive,
    Secret,
    Share,
    Token,
    Url,
    VariableName,
    unless_contradictory,
)

AUTHORIZATION = "authorization"


class DestinationSettings(Group):
    """Somebody who is told of traces."""

    endpoint: Url | None = Field(
        default=None,
        description="address of an OTLP/HTTP receiver without its /v1/traces, e.g. http://otel-collector:4318",
    )
    auth: Literal["bearer", "basic"] = Field(
        default="bearer", description="what the secret is: a token, or USER:PASSWORD (of Langfuse: pk-lf-...:sk-lf-...)"
    )
    secret: Secret | None = Field(default=None, description="what the gateway proves itself with there; null: nothing")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")
    headers: dict[HeaderName, Secret] = Field(default={}, description="more headers for it, by their names")
    content: bool = Field(default=False, description="it is told prompts and answers as well")
    langfuse: bool | None = Field(
        default=None, description="it is told in Langfuse's words as well; null: where endpoint has /api/public/otel"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        has_secret = self.secret is not None or self.secret_env is not None
        if self.endpoint is None and (has_secret or self.headers or self._is_needed):
            found.append(Contradiction(("endpoint",), "is needed: nobody is named who should be told"))
        if has_secret and AUTHORIZATION in self.headers:
            found.append(Contradiction(("headers", AUTHORIZATION), "stands beside", ("secret",)))
        if self.auth == "basic" and self.secret is not None and ":" not in self.secret.get_secret_value():
            found.append(Contradiction(("secret",), "must be USER:PASSWORD where auth is basic"))
        return unless_contradictory(self, found)

    @property
    def _is_needed(self) -> bool:
        """Without an address the group means nothing."""
        return True

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """Beside those of the protocol."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        if self.secret is None:
            return headers
        secret = self.secret.get_secret_value()
        proof = f"Bearer {secret}" if self.auth == "bearer" else f"Basic {base64.b64encode(secret.encode()).decode()}"
        return {**headers, AUTHORIZATION: proof}


class TracingSettings(DestinationSettings):
    """The operator's own destination, and what holds for all."""

    ratio: Share = Field(
        default=1, description="share of the requests that are traced, where the caller's traceparent does not say"
    )
    service_name: Token = Field(default="warmgate", description="service.name of all spans")
    resource: dict[Token, str] = Field(
        default={}, description="more of what is true of all spans, e.g. deployment.environment.name: production"
    )
    content_bytes: Count = Field(
        default=16384, description="of a prompt, and of an answer, that are told where content is; the rest is cut"
    )
    most_waiting: Count = Field(
        default=4096, description="traces that wait for one receiver; more are dropped, and counted"
    )
    timeout_s: Positive = Field(default=10, description="how long a receiver may take for a batch")

    @property
    def _is_needed(self) -> bool:
        return self.content
