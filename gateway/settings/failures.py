"""Settings for workers that are slow, fail or are drained: timeouts, health checks, circuit breakers, and retries."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Count, NotNegative, Positive, Share, UrlPath


class TimeoutSettings(Group):
    connect_s: Positive = Field(default=2, description="maximum seconds for opening a connection to a worker")
    first_byte_s: Positive = Field(
        default=300, description="maximum seconds from sending a request to the first byte of the worker's answer"
    )
    idle_s: Positive = Field(default=120, description="maximum seconds between two pieces of a worker's answer")
    total_s: Positive = Field(
        default=1800, description="maximum seconds for a whole request to a worker, including its answer"
    )


class HealthSettings(Group):
    interval_s: Positive = Field(default=2, description="seconds between two health checks of a worker")
    timeout_s: Positive = Field(
        default=1, description="seconds after which an unanswered health check counts as failed"
    )
    failures_to_down: Count = Field(
        default=2, description="number of consecutive failed health checks after which a worker gets no more requests"
    )
    successes_to_up: Count = Field(
        default=1,
        description="number of consecutive successful health checks after which a worker that was down gets "
        "requests again",
    )
    path: UrlPath = Field(default="/health", description="URL path that health checks request from the worker")
    metrics_interval_s: Positive = Field(default=5, description="seconds between two readings of a worker's metrics")


class BreakerSettings(Group):
    failures: Count = Field(
        default=5,
        description="number of consecutive failures within breaker.window_s after which a worker's circuit "
        "breaker opens",
    )
    window_s: Positive = Field(
        default=30, description="seconds over which the circuit breaker of a worker counts failures"
    )
    open_s: Positive = Field(
        default=10,
        description="seconds that an open circuit breaker keeps requests away from a worker. The time doubles "
        "after each failed trial, up to eight times.",
    )
    error_share: Share = Field(
        default=0.5,
        description="share of failed requests within breaker.window_s that also opens a worker's circuit breaker",
    )
    min_requests: Count = Field(
        default=10, description="minimum number of requests within breaker.window_s before breaker.error_share applies"
    )


class RetrySettings(Group):
    max_attempts: Count | None = Field(
        default=None,
        description="maximum number of workers that are tried for one request. Null means each worker once.",
    )
    budget_share: Share = Field(
        default=0.5,
        description="maximum number of retries, as a share of the requests of the last 10 seconds. The limit keeps "
        "retries from adding load to an overloaded fleet.",
    )
    budget_floor_per_s: NotNegative = Field(
        default=10,
        description="number of retries per second that are always allowed, in addition to retry.budget_share",
    )
    wait_s: NotNegative = Field(
        default=10,
        description="maximum seconds that a request waits for a worker if none is available. After that, "
        "fallbacks are tried, or the request gets status 503.",
    )


class DrainSettings(Group):
    hand_over_after_s: NotNegative | None = Field(
        default=30,
        description="seconds after which the streams of a draining worker are continued on another worker, if "
        "models[].continuation allows it. Null means never.",
    )
