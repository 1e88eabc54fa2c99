"""Options of a simulated worker's KV events, and the version of the engine that they imitate."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from simulator.event_wire import EventFormat, HashSpelling


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """The defaults match vLLM 0.33. Raises `ValueError`, naming the option, for an invalid value."""

    port: int = 0
    """Port of the PUB socket, on the worker's own address; 0 lets the system choose one."""
    dial: str | None = None
    """Connect the PUB socket to this address (``tcp://host:port``), where a subscriber is bound; *port* is not used."""
    replay_port: int | None = None
    """Port of the ROUTER socket; ``None``: there is no replay, as in vLLM by default."""
    topic: str = ""
    format: EventFormat = "map"
    hashes: HashSpelling | None = None
    """``None``: as the dialect has them."""
    replay_frames: Literal[4, 3] = 4
    """3, without the topic, as up to vLLM 0.25; the socket then drops what does not fit its queue, as up to 0.32."""
    first_sequence: Literal[0, 1] = 0
    """1 in llm-d's simulator."""
    batch_s: float = 0.0
    """Collect events for so many seconds and send them as one batch; 0: after every step. llm-d's simulator has 1."""
    buffer_steps: int = 10_000
    """Batches that can be replayed."""

    def of_rank(self, rank: int) -> "EventOptions":
        """Return the options with the ports of *rank*, which count up from the chosen ones, as vLLM's do."""
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
