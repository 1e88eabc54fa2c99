"""Claims in the embedded store; tests/contracts/test_claims.py holds them to the seam."""

import sqlite3
from pathlib import Path

from gateway.api.admin_v1.claims import LIFETIME_S, Claim
from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.storage.sqlite_file import SqliteFile
from tests.gateway.examples import Clock


async def test_a_claim_ends_after_a_day(tmp_path: Path) -> None:
    """Then its row is gone as well, so that the table does not grow."""
    file, clock = SqliteFile(tmp_path / "db"), Clock(1000.0)
    claims = SqliteClaims(file, wall_clock=clock)
    await claims.take(Claim("a", "one", "blue"))
    clock.now += LIFETIME_S - 1
    kept = await claims.find("a")
    clock.now += 1
    ended = await claims.find("a")

    def count(connection: sqlite3.Connection) -> int:
        (rows,) = connection.execute("SELECT count(*) FROM claims").fetchone()
        return int(rows)

    rows = await file.run(count)
    await file.aclose()

    assert Claim("a", "one", "blue") == kept
    assert ended is None
    assert 0 == rows


async def test_claims_survive_the_process(tmp_path: Path) -> None:
    """Another one with the same file knows them."""
    one = SqliteFile(tmp_path / "db")
    await SqliteClaims(one, wall_clock=Clock()).take(Claim("a", "one", "blue"))
    await one.aclose()
    other = SqliteFile(tmp_path / "db")
    kept = await SqliteClaims(other, wall_clock=Clock()).find("a")
    await other.aclose()

    assert Claim("a", "one", "blue") == kept
