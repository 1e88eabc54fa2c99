"""Counters of one stream, for metrics and explanations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.workers.kv_events.batch_log import Knowledge
from gateway.workers.kv_events.decoding import IgnoredAs, RefusedAs
from gateway.workers.kv_events.feed import Trust

Doubt = Literal["not_connected", "undecodable", "partial", "unreplayed", "lost", "inaccurate"]
"""Reason why a stream is not live although nothing is on its way. inaccurate: its predictions did not match."""


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """Snapshot of a stream's counters, which count from its start and never go down."""

    trust: Trust
    doubt: Doubt | None
    knowledge: Knowledge
    connections: int
    """Connections so far; for an engine that dials, 1 once it was heard."""
    batches: int
    """Batches that were taken in."""
    events: Mapping[Literal["stored", "removed", "cleared"], int]
    blocks: Mapping[Literal["stored", "removed"], int]
    duplicates: int
    late: int
    """Messages of an earlier incarnation, or from before the known part."""
    gaps: int
    lost_batches: int
    """Batches that never came, and were given up."""
    replays: int
    """Replays that were requested."""
    restarts: int
    """Restarts of the engine that were noticed."""
    rebuilds: int
    """Rebuilds of the picture within the same incarnation."""
    turned_away: int
    """Messages that could not be held; not lost as long as replays work."""
    undecodable: int
    """Batches that could not be decoded."""
    malformed: int
    """Messages that could not be parsed."""
    other_topic: int
    """Messages under another topic than was configured."""
    ignored: Mapping[IgnoredAs, int]
    refused: Mapping[RefusedAs, int]
    last_seq: int | None
    """Sequence of the last batch that was taken in."""
    lag_s: float | None
    """Time from the making of that batch to its taking in, by the clocks of both machines."""
