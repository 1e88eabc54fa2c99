"""Checkpoints of quota meters in an SQLite file. A checkpoint is at or above the current value, so that few requests
need a write.

A gateway that was killed restarts from its checkpoints. It refuses slightly more than necessary, and never grants more
than the limit.
"""

import math
import sqlite3
from collections.abc import Iterable, Sequence

from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meters import MeterState

RATE_SHARE = 1 / 20
"""Share of a token bucket by which its checkpoint is ahead of the current value."""
RATE_AHEAD_S = 0.5
"""Minimum seconds by which the checkpoint of a rate limit is ahead of its value. A restart takes longer, so a killed
process loses nothing.
"""
PERIOD_SHARE = 1 / 1000
"""Share of a period's limit by which the checkpoint is ahead of the current value, which a killed process can lose."""
SOON = 0.5
"""Share of the distance to a checkpoint after which the next checkpoint is written, so that requests do not have to
wait for it.
"""
NEVER = -math.inf
"""Checkpoint value for a meter that is not in the file yet."""


def ahead(meter: Meter) -> float:
    """Return how far the next checkpoint of *meter* is ahead of the meter's value, in the same units."""
    limit = meter.limit
    if meter.is_rate:
        return max(RATE_SHARE * limit.burst * 60.0 / limit.amount, RATE_AHEAD_S)
    return PERIOD_SHARE * limit.amount


def next_checkpoint(meter: Meter, now: float) -> float:
    value = max(meter.value, now) if meter.is_rate else meter.value
    return value + ahead(meter)


def put(meter: Meter, checkpoint: float) -> None:
    """Record that the file now contains *checkpoint* for *meter*."""
    meter.checkpoint = checkpoint
    meter.alert = checkpoint - SOON * ahead(meter)


def create(connection: sqlite3.Connection) -> None:
    """Create the tables for quotas if they do not exist."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS quota_mark (team TEXT NOT NULL, limit_id TEXT NOT NULL, value REAL NOT NULL, "
        "period TEXT NOT NULL, ends REAL NOT NULL, PRIMARY KEY (team, limit_id)) WITHOUT ROWID"
    )

    connection.execute(
        "CREATE TABLE IF NOT EXISTS quota_unlikely (team TEXT NOT NULL, limit_id TEXT NOT NULL, period TEXT NOT NULL, "
        "units REAL NOT NULL, ends REAL NOT NULL, PRIMARY KEY (team, limit_id)) WITHOUT ROWID"
    )


def read(connection: sqlite3.Connection, now: float) -> list[MeterState]:
    """Return the meter states in the file that are still valid at *now*."""
    rows = connection.execute("SELECT team, limit_id, value, period, ends FROM quota_mark WHERE ends > ?", (now,))
    return [MeterState(*row) for row in rows]


def reclaim(connection: sqlite3.Connection, now: float) -> None:
    """Lower the checkpoints of period limits by the units that requests of a previous process had reserved beyond their
    likely use.
    """
    connection.execute(
        "UPDATE quota_mark SET value = max(0, value - (SELECT units FROM quota_unlikely AS u WHERE u.team = "
        "quota_mark.team AND u.limit_id = quota_mark.limit_id AND u.period = quota_mark.period)) WHERE ends > ? AND "
        "EXISTS (SELECT 1 FROM quota_unlikely AS u WHERE u.team = quota_mark.team AND u.limit_id = "
        "quota_mark.limit_id AND u.period = quota_mark.period)",
        (now,),
    )
    connection.execute("DELETE FROM quota_unlikely")


def note_unlikely(connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str, float, float]]) -> None:
    """Write the rows that `reclaim` subtracts after a restart: team, limit, period, units, and end of period."""
    connection.executemany(
        "INSERT INTO quota_unlikely (team, limit_id, period, units, ends) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (team, limit_id) DO UPDATE SET period = excluded.period, units = excluded.units, "
        "ends = excluded.ends WHERE excluded.period >= period",
        rows,
    )


def write(connection: sqlite3.Connection, states: Iterable[MeterState]) -> None:
    """Write the meter states *states* in place of earlier states of the same limits. A state of a later period stays:
    another process of the gateway may have begun the period earlier.
    """
    connection.executemany(
        "INSERT INTO quota_mark (team, limit_id, value, period, ends) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (team, limit_id) DO UPDATE SET value = excluded.value, period = excluded.period, "
        "ends = excluded.ends WHERE excluded.period >= period",
        [(state.team, state.limit, state.value, state.period, state.ends) for state in states],
    )


def replace(connection: sqlite3.Connection, states: Sequence[MeterState]) -> None:
    """Write the meter states *states* in place of all earlier states."""
    connection.execute("DELETE FROM quota_mark")
    connection.execute("DELETE FROM quota_unlikely")
    write(connection, states)


def remove_ended(connection: sqlite3.Connection, now: float) -> None:
    """Delete the rows of token buckets that are full at *now* and of periods that have ended."""
    connection.execute("DELETE FROM quota_mark WHERE ends <= ?", (now,))
    connection.execute("DELETE FROM quota_unlikely WHERE ends <= ?", (now,))


def unlikely_of(meter: Meter, units: float) -> tuple[str, str, str, float, float]:
    """Return the row for *meter* that `note_unlikely` writes."""
    return meter.team, meter.limit.id, meter.period, units, meter.ends


def state_of(meter: Meter, checkpoint: float) -> MeterState:
    ends = checkpoint if meter.is_rate else meter.ends
    return MeterState(meter.team, meter.limit.id, checkpoint, meter.period, ends)
