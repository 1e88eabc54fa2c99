"""A process that reserves as fast as it can and says so, until it is killed: `python -m ... FILE`.

By numbers where that can be, as the proxy does, and else at length.
"""

import asyncio
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from gateway.quota import seats
from gateway.quota.embedded_store import EmbeddedQuotaStore
from gateway.quota.limit import Charge, Granted, Limit
from gateway.quota.seats import Counted, Seats, Taken
from gateway.storage.sqlite_file import SqliteFile
from tests.contracts.embedded_quota import book, create_book
from tests.contracts.quota_stage import LEASE_S, entry

UNITS = 10.0
DAY = Limit("key:ci/tokens_per_day", "period", 1_000_000.0)
BUCKET = Limit("key:ci/tokens_per_minute", "rate", 60.0, burst=1_000_000.0)
"""Large, and so slow that next to nothing comes back while a test runs."""


PERIOD = "2026-11-18"
COUNTED = [Counted(DAY, seats.BOTH, seats.DAY), Counted(BUCKET, seats.BOTH, seats.NEVER)]


def charges(units: float) -> list[Charge]:
    return [Charge(DAY, units, PERIOD, 86_400.0), Charge(BUCKET, units)]


async def reserve_for_ever(path: Path) -> None:
    file = SqliteFile(path)
    await file.run(create_book)
    store = EmbeddedQuotaStore(file, book, clock=time.time, lease_s=LEASE_S)
    await store.open()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.run())
        taken = Taken()
        while True:
            reservation = uuid.uuid4().hex
            if store.take(taken, store.now()) is None:
                answer = await store.reserve("blue", reservation, charges(UNITS), partial(entry, "lost"))
                assert isinstance(answer, Granted)
                at = store.seats(reservation, COUNTED)
                tell()
                store.settle("blue", reservation, charges(UNITS), partial(entry, reservation))
            else:
                at = taken.seats
                tell()
                store.give_back(
                    taken, partial(entry, reservation), one=1.0, prompt=0.0, completion=0.0, both=UNITS, usd=0.0
                )
                await asyncio.sleep(0)
            taken = on(at)


def on(at: Seats | None) -> Taken:
    """The next request, by numbers."""
    assert at is not None
    at.day, at.day_left_s = PERIOD, 86_400.0
    taken = Taken()
    taken.seats, taken.both = at, UNITS
    return taken


def tell() -> None:
    sys.stdout.write(f"{UNITS}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(reserve_for_ever(Path(sys.argv[1])))
