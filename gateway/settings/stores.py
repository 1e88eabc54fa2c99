"""Settings for the store, and for state that several gateways share."""

from typing import Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import EntityName, Group
from gateway.settings.rules import Count, OnUnavailable, Positive, Secret, StoreUrl, unless_contradictory


class StoreSettings(Group):
    url: StoreUrl | None = Field(
        default=None,
        description="store for teams, keys, limits and the ledger: sqlite:///FILE, redis://HOST:PORT/0 or rediss:// "
        "for TLS. Null means storage in memory, with teams from the settings file only.",
    )
    pepper: Secret | None = Field(
        default=None,
        description="secret key for the digests of API keys in the store. Null means a key that the store "
        "generates and keeps.",
    )
    timeout_s: Positive = Field(
        default=0.5,
        description="maximum seconds for a call to Redis, including the six round trips of connecting. After "
        "that, the store counts as unavailable.",
    )
    replicas: Count = Field(
        default=1,
        description="number of gateways that use the store. While the store is unavailable, each gateway grants "
        "its share of the limits.",
    )
    on_unavailable_requests: OnUnavailable = Field(
        default="share",
        description="request limits while the store is unavailable: share (each gateway grants its share) or "
        "fail_closed (requests get status 503)",
    )
    on_unavailable_tokens: OnUnavailable = Field(
        default="share",
        description="token limits per minute while the store is unavailable: share (each gateway grants its "
        "share) or fail_closed (requests get status 503)",
    )
    on_unavailable_concurrent: OnUnavailable = Field(
        default="share",
        description="concurrency limits while the store is unavailable: share (each gateway grants its share) or "
        "fail_closed (requests get status 503)",
    )
    on_unavailable_budget: OnUnavailable = Field(
        default="fail_closed",
        description="daily and monthly limits while the store is unavailable: share (each gateway grants its "
        "share) or fail_closed (requests get status 503)",
    )
    lease_s: Positive = Field(
        default=30,
        description="seconds without contact after which a gateway counts as dead and its reservations in Redis "
        "are settled",
    )
    retention_days: Count = Field(default=400, description="number of days for which ledger entries are kept")
    response_days: Count = Field(
        default=30,
        description="number of days for which the store knows the owner of a stored response. After that, the "
        "response is not served.",
    )


class ReplicasSettings(Group):
    share: bool = Field(
        default=True,
        description="let gateways with the same Redis store share what they know about the load and caches of workers",
    )
    group: EntityName = Field(
        default="default",
        description="name of the group in which gateways share what they know about workers. Gateways in other "
        "groups of the same store are separate.",
    )
    heartbeat_s: Positive = Field(
        default=1, description="seconds between two heartbeats of a gateway to the other gateways of its group"
    )
    dead_after_s: Positive = Field(
        default=3,
        description="seconds without a heartbeat after which a gateway counts as dead. Requests of a dead gateway no "
        "longer count as load of the workers.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.dead_after_s >= 2 * self.heartbeat_s:
            return self
        text = (
            "is shorter than two times replicas.heartbeat_s, so one late heartbeat would make a gateway count as dead"
        )
        return unless_contradictory(self, [Contradiction(("dead_after_s",), text)])
