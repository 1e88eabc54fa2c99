"""A process that reserves as fast as it can and prints each grant, until it is killed: `python -m ... FILE`, or
`python -m ... FILE DESCRIPTOR SEAT` for one of several processes with the table at the descriptor.

Like the proxy, it reserves by plan where possible, and by charges otherwise.
"""

import asyncio
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from gateway.tenancy.quota.limit import BOTH, NEVER, Charge, Granted, Limit, PlanLimit
from gateway.tenancy.quota.limit import DAY as EACH_DAY
from gateway.tenancy.quota.meter_table import MeterTable
from gateway.tenancy.quota.meters import PlanHold, PlanMeters
from tests.contracts.embedded_quota import book, create_book
from tests.contracts.quota_stage import LEASE_S, entry

UNITS = 10.0
DAY = Limit("key:ci/tokens_per_day", "period", 1_000_000.0)
BUCKET = Limit("key:ci/tokens_per_minute", "rate", 60.0, burst=1_000_000.0)
"""Large, and so slow that next to nothing comes back while a test runs."""


PERIOD = "2026-11-18"
PLAN_LIMITS = [PlanLimit(DAY, BOTH, EACH_DAY), PlanLimit(BUCKET, BOTH, NEVER)]


def charges(units: float) -> list[Charge]:
    return [Charge(DAY, units, PERIOD, 86_400.0), Charge(BUCKET, units)]


async def reserve_for_ever(path: Path, table: MeterTable | None) -> None:
    file = SqliteFile(path)
    await file.run(create_book)
    store = EmbeddedQuotaStore(file, book, clock=time.time, lease_s=LEASE_S, table=table)
    await store.open()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.run())
        hold = PlanHold()
        while True:
            reservation = uuid.uuid4().hex
            if store.in_memory.reserve_plan(hold, store.in_memory.now()) is None:
                answer = await store.reserve("blue", reservation, charges(UNITS), partial(entry, "lost"))
                assert isinstance(answer, Granted)
                at = store.in_memory.plan_meters(reservation, PLAN_LIMITS)
                tell()
                store.settle("blue", reservation, charges(UNITS), partial(entry, reservation))
            else:
                at = hold.meters
                tell()
                store.in_memory.settle_plan(
                    hold, partial(entry, reservation), one=1.0, prompt=0.0, completion=0.0, both=UNITS, usd=0.0
                )
                await asyncio.sleep(0)
            hold = hold_of(at)


def hold_of(at: PlanMeters | None) -> PlanHold:
    """Return the next request."""
    assert at is not None
    at.day, at.day_left_s = PERIOD, 86_400.0
    hold = PlanHold()
    hold.meters, hold.both = at, UNITS
    return hold


def tell() -> None:
    sys.stdout.write(f"{UNITS}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    shared = MeterTable(int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else None
    asyncio.run(reserve_for_ever(Path(sys.argv[1]), shared))
