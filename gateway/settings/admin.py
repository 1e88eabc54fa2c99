"""The groups for the routes under ``/admin/v1``."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.rules import (
    Contradiction,
    EntityName,
    Secret,
    Token,
    VariableName,
    unless_contradictory,
)


class AdminKeySettings(Group):
    role: Literal["viewer", "operator", "owner"] = Field(
        description="viewer reads; operator changes limits, blocks, drains; owner also makes teams and keys and rotates"
    )
    id: EntityName = Field(
        default_factory=lambda fields: fields["role"], description="who it is, in the audit log; default: its role"
    )
    secret: Secret | None = Field(default=None, description="what callers send")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.secret is None and self.secret_env is None:
            text = "is needed: secret or secret_env"
            return unless_contradictory(self, [Contradiction(("secret",), text)])
        return self


class AdminSettings(Group):
    port: int | None = Field(
        default=None, ge=0, le=65535, description="port of its own for /admin/v1; null: that of the gateway"
    )
    host: Token | None = Field(default=None, description="address of that port; null: server.host")
    keys: Annotated[tuple[AdminKeySettings, ...], Field(strict=False)] = Field(
        default=(), description="who may use /admin/v1; none: nobody"
    )
