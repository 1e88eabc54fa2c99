"""Options for the KV events of a simulated worker, and the engine versions that the options imitate."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from simulator.event_wire import EventFormat, HashSpelling


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Options for KV events, by default those of vLLM 0.33. Raises `ValueError` with the name of an invalid option."""

    port: int = 0
    """Port of the PUB socket at the worker's address, or 0 to let the system choose a port."""
    dial: str | None = None
    """Address (``tcp://host:port``) of a subscriber to which the PUB socket connects, instead of using *port*."""
    replay_port: int | None = None
    """Port of the ROUTER socket for replays, or None (the default of vLLM) to offer no replays."""
    topic: str = ""
    format: EventFormat = "map"
    hashes: HashSpelling | None = None
    """Encoding of block hashes, or None for the default of the imitated engine."""
    replay_frames: Literal[4, 3] = 4
    """Number of frames in a replay message. A value of 3 imitates vLLM up to 0.25, which sent no topic."""
    first_sequence: Literal[0, 1] = 0
    """Sequence number of the first batch of events. It is 1 in llm-d's simulator."""
    batch_s: float = 0.0
    """Seconds of events in a batch, or 0 to send a batch after every engine step. llm-d's simulator uses 1."""
    buffer_steps: int = 10_000
    """Number of event batches that can be replayed."""

    def of_rank(self, rank: int) -> "EventOptions":
        """Return the event options for *rank*, whose number is added to the configured ports as in vLLM."""
        return dataclasses.replace(
            self,
            port=self.port and self.port + rank,
            replay_port=self.replay_port and self.replay_port + rank,
        )

    def __post_init__(self) -> None:
        for name, port in (("port", self.port), ("replay_port", self.replay_port or 0)):
            if not 0 <= port < 65536:
                raise ValueError(f"kv_events.{name} must be 0 to 65535, got {port}")
        if self.dial is not None and not self.dial.startswith(("tcp://", "ipc://")):
            raise ValueError(f"kv_events.dial must begin with tcp:// or ipc://, got {self.dial}")
        if not 0 <= self.batch_s < math.inf:
            raise ValueError(f"kv_events.batch_s must be finite and not negative, got {self.batch_s}")
        if self.buffer_steps < 1:
            raise ValueError(f"kv_events.buffer_steps must be at least 1, got {self.buffer_steps}")
        self._check_choices()

    def _check_choices(self) -> None:
        if self.format not in ("map", "array"):
            raise ValueError(f"kv_events.format must be map or array, got {self.format}")
        if self.hashes not in ("int", "bytes", "signed", None):
            raise ValueError(f"kv_events.hashes must be int, bytes or signed, got {self.hashes}")
        if self.replay_frames not in (4, 3):
            raise ValueError(f"kv_events.replay_frames must be 4 or 3, got {self.replay_frames}")
        if self.first_sequence not in (0, 1):
            raise ValueError(f"kv_events.first_sequence must be 0 or 1, got {self.first_sequence}")
