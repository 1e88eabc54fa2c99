"""Settings for the admin API under ``/admin/v1``."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import EntityName, Group, Token
from gateway.settings.rules import Secret, VariableName, unless_contradictory


class AdminKeySettings(Group):
    role: Literal["viewer", "operator", "owner"] = Field(
        description="role of the admin key: viewer (read), operator (also change limits, block and drain) or "
        "owner (also manage teams and keys)"
    )
    id: EntityName = Field(
        default_factory=lambda fields: fields["role"],
        description="name of the admin key in the audit log. The default is the role of the key.",
    )
    team: EntityName | None = Field(
        default=None,
        description="team whose keys, usage, requests and batches the admin key can read. With the role owner, the "
        "admin key can also create, rotate and delete keys of the team, within the limits of the team, and nothing "
        "else. The role operator cannot have a team. Null means that the admin key is not limited to a team.",
    )
    secret: Secret | None = Field(default=None, description="secret that callers of the admin API send")
    secret_env: VariableName | None = Field(
        default=None, description="environment variable that holds the secret of the admin key"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.secret is None and self.secret_env is None:
            found.append(Contradiction(("secret",), "is required. Set secret or secret_env"))
        if self.team is not None and self.role == "operator":
            text = "needs the role viewer or owner, but the role is 'operator'. Change the role, or remove team"
            found.append(Contradiction(("team",), text))
        return unless_contradictory(self, found)


class AdminSettings(Group):
    port: int | None = Field(
        default=None, ge=0, le=65535, description="separate port for /admin/v1. Null means the port of the gateway."
    )
    host: Token | None = Field(
        default=None, description="address that the separate admin port listens on. Null means server.host."
    )
    keys: Annotated[tuple[AdminKeySettings, ...], Field(strict=False)] = Field(
        default=(), description="keys for /admin/v1 and /warmgate/explain. Without keys, both are disabled."
    )
    receipts: int = Field(
        default=20000,
        ge=0,
        le=1_000_000,
        description="number of latest requests whose receipts (why this worker, and what came of it) the gateway keeps "
        "in memory for /admin/v1/requests, at 400 to 800 bytes each. 0, or no keys, keeps none.",
    )
    cache_activity: bool = Field(
        default=True,
        description="observe which prefixes requests ask for and how well predicted cache hits match, for "
        "/admin/v1/cache-map and /admin/v1/index-truth. It costs at most a few milliseconds of processor time per "
        "second. Without admin keys, nothing is observed.",
    )
    prefix_words: bool = Field(
        default=False,
        description="show the first words of prefixes (up to 80 bytes) in /admin/v1/cache-map and in the console, if "
        "tracing.content or teams[].tracing.content is true for every team that uses the prefix. Other prefixes are "
        "named by their hashes.",
    )
