"""The groups for what is kept, and what gateways share."""

from typing import Self

from pydantic import Field, model_validator

from gateway.settings.group import Group
from gateway.settings.rules import (
    Contradiction,
    Count,
    EntityName,
    NotNegative,
    Positive,
    Secret,
    StoreUrl,
    WhenAway,
    unless_contradictory,
)


class StoreSettings(Group):
    url: StoreUrl | None = Field(
        default=None, description="sqlite:///FILE, or redis://HOST:PORT/0, or rediss://; null: only what teams says"
    )
    pepper: Secret | None = Field(
        default=None, description="key under which digests of secrets are made; null: one that the store keeps"
    )
    timeout_s: Positive = Field(
        default=0.5,
        description="for an answer of Redis, connecting included, which takes six round trips; later it is unavailable",
    )
    replicas: Count = Field(default=1, description="gateways that share the store: each one's share when it is away")
    away_requests: WhenAway = Field(default="share", description="limits of requests when it is away: share or closed")
    away_tokens: WhenAway = Field(default="share", description="limits of tokens per minute when it is away")
    away_concurrent: WhenAway = Field(default="share", description="limits of requests at once when it is away")
    away_budget: WhenAway = Field(default="closed", description="limits per day and month when it is away")
    lease_s: Positive = Field(
        default=30, description="a gateway that says nothing for so long is dead; what it had reserved is settled"
    )
    retention_days: Count = Field(default=400, description="how long lines of the ledger are kept")
    response_days: Count = Field(
        default=30, description="how long it is known whose a kept response is; then nobody can get it"
    )


class ReplicasSettings(Group):
    share: bool = Field(
        default=True, description="gateways with the same store in Redis tell each other what they give to workers"
    )
    group: EntityName = Field(
        default="default", description="those of one group do; others that have the same store are none of theirs"
    )
    tie_s: NotNegative = Field(
        default=0.02, description="workers that cost so much more are as good: all replicas choose the same of them"
    )
    heartbeat_s: Positive = Field(default=1, description="between two signs of life")
    dead_after_s: Positive = Field(
        default=3, description="a replica unheard for so long is dead: what it had on workers counts no more"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.dead_after_s >= 2 * self.heartbeat_s:
            return self
        text = "is shorter than two times replicas.heartbeat_s: one late sign of life would be a death"
        return unless_contradictory(self, [Contradiction(("dead_after_s",), text)])
