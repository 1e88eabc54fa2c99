"""Counters for one KV event stream, used in metrics and routing explanations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.workers.kv_events.batch_log import Knowledge
from gateway.workers.kv_events.decoding import IgnoredAs, RefusedAs
from gateway.workers.kv_events.feed import Trust

Doubt = Literal["not_connected", "undecodable", "partial", "unreplayed", "lost", "inaccurate"]
"""Reason why a stream is not live although no replay is in progress. ``inaccurate`` means that its predictions were
wrong.
"""


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """Snapshot of the counters of one KV event stream. They start at zero and never decrease."""

    trust: Trust
    doubt: Doubt | None
    knowledge: Knowledge
    connections: int
    """Number of connections so far. For an engine that connects to the gateway, it is 1 after the first message."""
    batches: int
    """Number of processed batches."""
    events: Mapping[Literal["stored", "removed", "cleared"], int]
    blocks: Mapping[Literal["stored", "removed"], int]
    duplicates: int
    late: int
    """Number of messages from an earlier incarnation of the engine or from before the known part of its history."""
    gaps: int
    lost_batches: int
    """Number of missing batches that the gateway no longer waits for."""
    replays: int
    """Number of requested replays."""
    restarts: int
    """Number of detected engine restarts."""
    rebuilds: int
    """Number of times that the index was rebuilt while the engine kept running."""
    turned_away: int
    """Number of messages that could not be held because there was no space. Replays can still recover them."""
    undecodable: int
    """Number of batches that could not be decoded."""
    malformed: int
    """Number of messages that could not be parsed."""
    other_topic: int
    """Number of messages with a topic other than the configured one."""
    ignored: Mapping[IgnoredAs, int]
    refused: Mapping[RefusedAs, int]
    last_seq: int | None
    """Sequence number of the batch that was processed last, or None."""
    lag_s: float | None
    """Seconds from the creation to the processing of the last batch, by the clocks of the two machines."""
