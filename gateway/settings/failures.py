"""The groups for workers that are slow, fail or leave."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Count, NotNegative, Positive, Share, UrlPath


class TimeoutSettings(Group):
    connect_s: Positive = Field(default=2, description="time limit for opening a connection to a worker")
    first_byte_s: Positive = Field(
        default=300, description="time limit from sending the request to the first byte of the answer"
    )
    idle_s: Positive = Field(default=120, description="time limit between two pieces of an answer")
    total_s: Positive = Field(default=1800, description="time limit for the whole exchange with a worker")


class HealthSettings(Group):
    interval_s: Positive = Field(default=2, description="time between two checks of a worker")
    timeout_s: Positive = Field(default=1, description="a check without an answer for this long has failed")
    failures_to_down: Count = Field(default=2, description="failed checks in a row that take a worker out")
    successes_to_up: Count = Field(default=1, description="good checks in a row that bring it back")
    path: UrlPath = Field(default="/health", description="path of the health check")
    metrics_interval_s: Positive = Field(default=5, description="time between two readings of a worker's metrics")


class BreakerSettings(Group):
    failures: Count = Field(default=5, description="failures within window_s that open a worker's breaker")
    window_s: Positive = Field(default=30, description="span in which failures are counted")
    open_s: Positive = Field(default=10, description="how long an open breaker blocks requests; longer each time")
    error_share: Share = Field(
        default=0.5, description="share of failed requests within window_s that also opens a worker's breaker"
    )
    min_requests: Count = Field(default=10, description="minimum requests within window_s before error_share applies")


class RetrySettings(Group):
    max_attempts: Count | None = Field(default=None, description="workers tried per request; null: each worker once")
    budget_share: Share = Field(default=0.5, description="retry budget, as a share of the requests of the last 10 s")
    budget_floor_per_s: NotNegative = Field(default=10, description="retries per second that are always allowed")
    wait_s: NotNegative = Field(
        default=10, description="how long a request waits when no worker is available, before a fallback or 503"
    )


class DrainSettings(Group):
    hand_over_after_s: NotNegative | None = Field(
        default=30,
        description="time after which streams of a draining worker move to another (continuation); null: never",
    )
