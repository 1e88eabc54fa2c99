"""The replayed trace, its speed, and its engines."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine_model.host_tier import LoadTiming
from engine_model.timing import Timing

TimingModel = Literal["fifo", "chunked"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A trace, how it is replayed, and before what."""

    title: str
    trace: Path
    workers: int
    blocks: int
    """KV cache of a worker, in blocks of the trace."""
    speed: float = 1.0
    poisson_per_s: float | None = None
    """Requests per second at speed 1; None for the recorded times."""
    users: int = 1
    """Users of a closed loop."""
    skip: int = 0
    """Requests, or sessions of a closed loop, left out at the beginning."""
    limit: int | None = None
    """Number of replayed requests after those; None: all."""
    timing: TimingModel = "fifo"
    prefill_tokens_per_s: float = Timing().prefill_tokens_per_s
    """Rate of prefill of an engine."""
    worker_speeds: Sequence[float] = ()
    """Factors of the speed of each worker's engine, in turn over the workers; empty: all workers are equally fast."""
    rate_error: float | None = None
    """Factor between the rate of prefill that the router assumes at first and the real one; None: its default.

    Our strategies then begin with what a gateway begins with, policies of others with the truth.
    """
    host_blocks: int = 0
    """Host tier of a worker, in blocks of the trace; 0: none."""
    load_tokens_per_s: float = LoadTiming().tokens_per_s
    """Rate at which an engine loads blocks from its host tier."""
    pulls: bool = False
    """Whether an engine can pull blocks from the host tier of another engine."""
    load_price: float | None = None
    """Share of the time to compute a block that our strategies at first assume for loading it; None: their default."""
    event_lag_s: float = 0.0
    """Delay of KV events."""
    event_loss: float = 0.0
    """Share of the batches of KV events that are lost at first and replayed when the next one shows the gap."""

    def __post_init__(self) -> None:
        for name in (
            "workers",
            "blocks",
            "speed",
            "poisson_per_s",
            "users",
            "limit",
            "prefill_tokens_per_s",
            "rate_error",
            "load_tokens_per_s",
            "load_price",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        for speed in self.worker_speeds:
            if not speed > 0:
                raise ValueError(f"worker_speeds must be above 0, not {speed}")
        for name in ("skip", "event_lag_s", "host_blocks"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.pulls and self.timing != "fifo":
            raise ValueError(f"pulls require timing fifo, not {self.timing}")
        if not 0 <= self.event_loss < 1:
            raise ValueError(f"event_loss must be at least 0 and below 1, not {self.event_loss}")

    def worker_speed(self, worker: int) -> float:
        """Return the factor of the speed of *worker*'s engine."""
        return self.worker_speeds[worker % len(self.worker_speeds)] if self.worker_speeds else 1.0

    @property
    def mean_tokens_per_s(self) -> float:
        """Mean rate of prefill of all workers."""
        return self.prefill_tokens_per_s * statistics.fmean(map(self.worker_speed, range(self.workers)))
