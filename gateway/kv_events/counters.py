"""What a stream came to so far, as plain numbers, for metrics and explanations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.kv_events.decoding import IgnoredAs, RefusedAs
from gateway.kv_events.feed import Trust
from gateway.kv_events.sequencing import Knowledge

Doubt = Literal["not_connected", "undecodable", "partial", "unreplayed", "lost", "inaccurate"]
"""Why a stream is not live although nothing is on its way. inaccurate: its predictions did not come true."""


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """A snapshot. Numbers count from the start of the stream, and never go down."""

    trust: Trust
    doubt: Doubt | None
    knowledge: Knowledge
    connections: int
    """How often it was connected; without a connection to be seen, whether it ever heard anything."""
    batches: int
    """Taken in, in order."""
    events: Mapping[Literal["stored", "removed", "cleared"], int]
    blocks: Mapping[Literal["stored", "removed"], int]
    duplicates: int
    late: int
    """Messages of an earlier life, or of the time before what is known."""
    gaps: int
    lost_batches: int
    """Never came, and were given up."""
    replays: int
    """How many were asked for."""
    restarts: int
    """Lives of the engine that were seen to begin, after the first."""
    rebuilds: int
    """How often all was begun anew in the same life."""
    turned_away: int
    """Messages that found no room to wait; not lost, as long as replays work."""
    undecodable: int
    """Batches."""
    malformed: int
    """Messages that were none."""
    other_topic: int
    """Messages under another topic than was configured."""
    ignored: Mapping[IgnoredAs, int]
    refused: Mapping[RefusedAs, int]
    last_seq: int | None
    """Of the last batch that was taken in."""
    lag_s: float | None
    """From when the engine made that batch to when it was taken in, by the clocks of both machines."""
