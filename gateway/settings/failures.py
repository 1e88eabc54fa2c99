"""The groups for workers that are slow, fail or leave."""

from pydantic import Field

from gateway.settings.group import Group
from gateway.settings.rules import (
    Count,
    NotNegative,
    Positive,
    Share,
    UrlPath,
)


class TimeoutSettings(Group):
    connect_s: Positive = Field(default=2, description="opening a connection to a worker")
    first_byte_s: Positive = Field(default=300, description="from the request sent to the first byte of the answer")
    idle_s: Positive = Field(default=120, description="between two pieces of an answer")
    total_s: Positive = Field(default=1800, description="the whole exchange with a worker")


class HealthSettings(Group):
    interval_s: Positive = Field(default=2, description="time between two checks of a worker")
    timeout_s: Positive = Field(default=1, description="a check without an answer for this long has failed")
    failures_to_down: Count = Field(default=2, description="failed checks in a row that take a worker out")
    successes_to_up: Count = Field(default=1, description="good checks in a row that bring it back")
    path: UrlPath = Field(default="/health", description="path that is asked")
    metrics_interval_s: Positive = Field(default=5, description="time between two readings of a worker's metrics")


class BreakerSettings(Group):
    failures: Count = Field(default=5, description="failures within window_s that open a worker's breaker")
    window_s: Positive = Field(default=30, description="span in which failures are counted")
    open_s: Positive = Field(default=10, description="how long an open breaker keeps requests away; longer each time")
    error_share: Share = Field(
        default=0.5, description="of a worker's requests within window_s: as many failures open its breaker as well"
    )
    least_requests: Count = Field(default=10, description="requests within window_s before error_share counts")


class RetrySettings(Group):
    max_attempts: Count | None = Field(default=None, description="workers tried per request; null: every one once")
    budget_share: Share = Field(
        default=0.5, description="of the requests of the last 10 s: as many may be sent a second time"
    )
    budget_floor_per_s: NotNegative = Field(default=10, description="and as many a second in any case")
    first_byte_factor: Positive = Field(
        default=3, description="a stream that has not begun after this many times the predicted time is tried elsewhere"
    )
    first_byte_margin_s: NotNegative = Field(default=5, description="and so much longer")
    wait_s: NotNegative = Field(
        default=10, description="how long a request waits for a worker when none is there, before a fallback or 503"
    )
    stall_gaps: Positive = Field(
        default=20, description="a stream that pauses for so many times its usual gap goes on elsewhere (continuation)"
    )
    stall_s: Positive = Field(
        default=1,
        description="but not before it has paused for so long; either is ten times as long while all streams of its"
        " worker pause, or while it is the only one and the engine is seen to generate tokens",
    )


class DrainSettings(Group):
    hand_over_after_s: NotNegative | None = Field(
        default=30,
        description="streams of a draining worker that last longer go on at another (continuation); null: never",
    )
