"""A what-if job and its result, in the form that passes between the gateway and the process that replays."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Engine:
    """Learned times of one worker."""

    prefill_fixed_s: float
    prefill_s_per_token: float
    decode_s: float
    decode_slope_s: float


@dataclass(frozen=True, slots=True)
class FleetShape:
    """A fleet and its strategy."""

    strategy: str
    workers: int
    cache_tokens: int
    """KV cache of each worker."""


@dataclass(frozen=True, slots=True)
class Change:
    """Difference between an alternative and the recorded fleet. A value of None is as recorded."""

    strategy: str | None = None
    workers: int | None = None
    cache_tokens: int | None = None
    cache_factor: float | None = None
    """Factor of the recorded cache size."""

    def applied(self, recorded: FleetShape) -> FleetShape:
        tokens = recorded.cache_tokens if self.cache_tokens is None else self.cache_tokens
        if self.cache_factor is not None:
            tokens = round(tokens * self.cache_factor)
        return FleetShape(
            recorded.strategy if self.strategy is None else self.strategy,
            recorded.workers if self.workers is None else self.workers,
            max(1, tokens),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """Requests to replay, the fleet that answered them, and alternatives."""

    model: str
    fleet: FleetShape
    """Configured strategy, and current workers. The recorded strategy and number of workers replace them."""
    engines: tuple[Engine, ...]
    changes: tuple[Change, ...]
    directory: str | None = None
    """Folder with recorded shapes, or None for an uploaded trace."""
    since: float = 0.0
    """Unix time from which shapes are replayed."""
    trace: str | None = None
    """Uploaded trace, one JSON object per line, or None for recorded shapes."""
    users: int = 1
    """Users of an uploaded trace of sessions without times."""
    gpu_hour_usd: float | None = None
    """Price of a worker's hour, or None if it is not configured."""
    saved_token_usd: float | None = None
    """Difference between the price of a computed and of a cached prompt token, or None without prices."""
    has_kv_events: bool = True
    """Whether engines send KV events. Without them, kv_aware predicts the contents of caches as prefix_aware does."""
    max_cpu_s: int = 600
    max_memory_bytes: int = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the requests that count: the first tenth warms the caches up."""

    requests: int
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    hit_ratio: float | None
    """Share of all prompt tokens that came out of a cache, or None if engines did not report it."""


@dataclass(frozen=True, slots=True)
class Row:
    """Outcome of one replay."""

    fleet: FleetShape
    figures: Figures | None
    """None if the replay failed."""
    gpu_hours: float | None = None
    usd: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """Estimate of what the caches saved for one team, compared with round robin on the same workers."""

    team: str | None
    requests: int
    prompt_tokens: int
    saved_tokens: int
    """Prompt tokens that were not computed again. A negative number means that round robin would have computed less."""
    saved_s: float
    """Seconds that callers waited less for first tokens, in sum over all requests."""
    saved_usd: float | None


@dataclass(frozen=True, slots=True)
class Result:
    begins_at: float | None
    """Unix time of the first request, or None for an uploaded trace."""
    duration_s: float
    requests: int
    measured: Figures | None
    """Measured figures, or None for an uploaded trace."""
    recorded: Row | None
    """Replay of the recorded fleet and strategy, or None for an uploaded trace."""
    scale: float
    """Factor of the learned times of engines with which the replay agrees with what was measured."""
    alternatives: tuple[Row, ...]
    savings: tuple[Saved, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One line from the process that replays."""

    done: float | None = None
    """Share of the work that is done, from 0 to 1."""
    result: Result | None = None
    error: str | None = None
