"""The replayed trace, its speed, and its engines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.replay.trace import TRACES
from simulator.timing import Timing

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
    rate_error: float | None = None
    """Factor between the rate of prefill that the router assumes at first and the real one; None: its default.

    Our strategies then begin with what a gateway begins with, policies of others with the truth.
    """
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
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        for name in ("skip", "event_lag_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if not 0 <= self.event_loss < 1:
            raise ValueError(f"event_loss must be at least 0 and below 1, not {self.event_loss}")


CONVERSATION = TRACES / "mooncake_conversation_6000.jsonl"
SYNTHETIC = TRACES / "mooncake_synthetic_2000.jsonl"
AGENTIC = TRACES / "agentic_248_sessions_blk1024.jsonl.gz"
RAG = TRACES / "ragpulse_3553_blk64.jsonl.gz"

SETTINGS: Sequence[Setting] = (
    Setting("Chat: mooncake conversation", CONVERSATION, 8, 5712, speed=2.0),
    Setting("Bursts of the same prefix: mooncake synthetic", SYNTHETIC, 8, 690, 1.5),
    Setting("Coding agents", AGENTIC, 8, 1000, users=128),
    Setting("RAG: ragpulse", RAG, 4, 8192, poisson_per_s=6.0),
)
