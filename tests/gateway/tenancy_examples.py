"""Teams for the gateway's tests; with none, everybody may ask."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from gateway.app.mapping.tenancy import declared_in, tenancy_rules
from gateway.app.tenancy import Tenancy
from gateway.settings import build
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.ledger.usage_store import Period, RecordQuery

SECRET = "wg-ci-0123456789"
AUTHORIZATION = (b"authorization", f"Bearer {SECRET}".encode())
NOW = 1_763_700_000.0
"""Seconds since 1970: 2025-11-21, 04:40 UTC."""


def a_team(name: str = "blue", **fields: Any) -> dict[str, Any]:
    """A team with the key ``ci``, as the settings declare it."""
    return {"name": name, "keys": [{"id": "ci", "secret": SECRET}], **fields}


def a_tenancy(*teams: dict[str, Any], wall_clock: Callable[[], float] = lambda: NOW, **groups: Any) -> Tenancy:
    """Tenancy of a gateway with the model ``tiny``, with everything in memory."""
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
    settings = build({"models": [model], "teams": list(teams), **groups}, {})
    return Tenancy(tenancy_rules(settings), partial(declared_in, settings), wall_clock=wall_clock)


@asynccontextmanager
async def at_work(tenancy: Tenancy) -> AsyncIterator[Tenancy]:
    """*tenancy* from begin to end, with its loops."""
    await tenancy.begin()
    try:
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(loop) for loop in tenancy.loops()]
            yield tenancy
            for loop in loops:
                loop.cancel()
    finally:
        await tenancy.aclose()


async def booked(tenancy: Tenancy, records: int) -> list[UsageRecord]:
    """The ledger of the month of `NOW`, oldest first, as soon as it has so many *records*."""
    query = RecordQuery(period=Period.month("2025-11"))
    async with asyncio.timeout(60):
        while True:
            page = await tenancy.stores.usage.records(query)
            if len(page.items) >= records:
                return list(reversed(page.items))
            await asyncio.sleep(0.01)
