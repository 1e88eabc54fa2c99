"""The groups for the store, and for the state that gateways share."""

from typing import Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import EntityName, Group
from gateway.settings.rules import Count, OnUnavailable, Positive, Secret, StoreUrl, unless_contradictory


class StoreSettings(Group):
    url: StoreUrl | None = Field(
        default=None, description="sqlite:///FILE, redis://HOST:PORT/0 or rediss://; null: only configured teams"
    )
    pepper: Secret | None = Field(
        default=None, description="key under which digests of secrets are made; null: one that the store keeps"
    )
    timeout_s: Positive = Field(
        default=0.5,
        description="time limit for Redis, connecting (six round trips) included; beyond it the store is unavailable",
    )
    replicas: Count = Field(
        default=1, description="number of gateways on the store: each gets its share while the store is unavailable"
    )
    on_unavailable_requests: OnUnavailable = Field(
        default="share", description="request limits while the store is unavailable: share or fail_closed"
    )
    on_unavailable_tokens: OnUnavailable = Field(
        default="share", description="limits of tokens per minute while the store is unavailable"
    )
    on_unavailable_concurrent: OnUnavailable = Field(
        default="share", description="concurrency limits while the store is unavailable"
    )
    on_unavailable_budget: OnUnavailable = Field(
        default="fail_closed", description="daily and monthly limits while the store is unavailable"
    )
    lease_s: Positive = Field(
        default=30, description="a gateway that is silent for this long is dead; its reservations are settled"
    )
    retention_days: Count = Field(default=400, description="how long ledger records are kept")
    response_days: Count = Field(
        default=30, description="how long the owner of a kept response is known; after that it is not served"
    )


class ReplicasSettings(Group):
    share: bool = Field(
        default=True,
        description="gateways with the same store in Redis share what they know of the load and caches of workers",
    )
    group: EntityName = Field(
        default="default", description="gateways of one group share; others with the same store are separate"
    )
    heartbeat_s: Positive = Field(default=1, description="time between two heartbeats")
    dead_after_s: Positive = Field(
        default=3,
        description="a replica without a heartbeat for this long is dead: its requests on workers no longer count",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.dead_after_s >= 2 * self.heartbeat_s:
            return self
        text = "is shorter than two times replicas.heartbeat_s: one late heartbeat would end a replica"
        return unless_contradictory(self, [Contradiction(("dead_after_s",), text)])
