"""How far a file lets meters go: marks at or beyond what they stand at, so that not every request must be written.

A gateway that was killed begins from its marks. It refuses a little more than it had to, and never grants more.
"""

import math
import sqlite3
from collections.abc import Iterable, Sequence

from gateway.quota.meter import Meter
from gateway.quota.meters import MeterState

RATE_SHARE = 1 / 20
"""Of a bucket that a mark is ahead."""
RATE_AHEAD_S = 0.5
"""At least: a gateway that is killed needs longer to be back, and loses nothing."""
PERIOD_SHARE = 1 / 1000
"""Of a period's amount that a mark is ahead, and that each kill may cost at most."""
SOON = 0.5
"""Of what a mark is ahead; once so much is used up, the next mark is written before anybody needs it."""


def ahead(meter: Meter) -> float:
    """How far the mark of *meter* is to be beyond its value, in units of that."""
    limit = meter.limit
    if meter.is_rate:
        return max(RATE_SHARE * limit.burst * 60.0 / limit.amount, RATE_AHEAD_S)
    return PERIOD_SHARE * limit.amount


def mark_of(meter: Meter, now: float) -> float:
    """The next one, a step ahead."""
    value = max(meter.value, now) if meter.is_rate else meter.value
    return value + ahead(meter)


def put(meter: Meter, mark: float) -> None:
    """*mark* stands in the file."""
    meter.mark = mark
    # Beyond this it is looked at again: soon enough to be done before anybody has to wait.
    meter.alert = mark - SOON * ahead(meter)


def create(connection: sqlite3.Connection) -> None:
    """The table, if it is not there."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS quota_mark (team TEXT NOT NULL, limit_id TEXT NOT NULL, value REAL NOT NULL, "
        "period TEXT NOT NULL, ends REAL NOT NULL, PRIMARY KEY (team, limit_id)) WITHOUT ROWID"
    )

    connection.execute(
        "CREATE TABLE IF NOT EXISTS quota_unlikely (team TEXT NOT NULL, limit_id TEXT NOT NULL, period TEXT NOT NULL, "
        "units REAL NOT NULL, ends REAL NOT NULL, PRIMARY KEY (team, limit_id)) WITHOUT ROWID"
    )


def read(connection: sqlite3.Connection, now: float) -> list[MeterState]:
    """Those that say anything at *now*."""
    rows = connection.execute("SELECT team, limit_id, value, period, ends FROM quota_mark WHERE ends > ?", (now,))
    return [MeterState(*row) for row in rows]


def reclaim(connection: sqlite3.Connection, now: float) -> None:
    """Lower the marks of periods by what requests of a former process had reserved, and have hardly used."""
    connection.execute(
        "UPDATE quota_mark SET value = max(0, value - (SELECT units FROM quota_unlikely AS u WHERE u.team = "
        "quota_mark.team AND u.limit_id = quota_mark.limit_id AND u.period = quota_mark.period)) WHERE ends > ? AND "
        "EXISTS (SELECT 1 FROM quota_unlikely AS u WHERE u.team = quota_mark.team AND u.limit_id = "
        "quota_mark.limit_id AND u.period = quota_mark.period)",
        (now,),
    )
    connection.execute("DELETE FROM quota_unlikely")


def note_unlikely(connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str, float, float]]) -> None:
    """What would have to be reclaimed: team, limit, period, units, and when the period ends."""
    connection.executemany(
        "INSERT INTO quota_unlikely (team, limit_id, period, units, ends) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (team, limit_id) DO UPDATE SET period = excluded.period, units = excluded.units, "
        "ends = excluded.ends",
        rows,
    )


def write(connection: sqlite3.Connection, states: Iterable[MeterState]) -> None:
    """In the place of what stands there of the same limits."""
    connection.executemany(
        "INSERT INTO quota_mark (team, limit_id, value, period, ends) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (team, limit_id) DO UPDATE SET value = excluded.value, period = excluded.period, "
        "ends = excluded.ends",
        [(state.team, state.limit, state.value, state.period, state.ends) for state in states],
    )


def replace(connection: sqlite3.Connection, states: Sequence[MeterState]) -> None:
    """*states*, and no others."""
    connection.execute("DELETE FROM quota_mark")
    connection.execute("DELETE FROM quota_unlikely")
    write(connection, states)


def remove_ended(connection: sqlite3.Connection, now: float) -> None:
    """What says nothing any more at *now*: buckets that are full, periods that are over."""
    connection.execute("DELETE FROM quota_mark WHERE ends <= ?", (now,))
    connection.execute("DELETE FROM quota_unlikely WHERE ends <= ?", (now,))


def unlikely_of(meter: Meter, units: float) -> tuple[str, str, str, float, float]:
    """The row of *meter*, *units* of whose value will hardly be used."""
    return meter.team, meter.limit.id, meter.period, units, meter.ends


def state_of(meter: Meter, mark: float) -> MeterState:
    return MeterState(meter.team, meter.limit.id, mark, meter.period, mark if meter.is_rate else meter.ends)


NEVER = -math.inf
"""The mark of a meter of which nothing is written."""
