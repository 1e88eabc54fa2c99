"""Stage of the `QuotaStore` contract suite: the clock of a store, its ledger, and its end."""

import asyncio
from typing import Protocol

from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.quota.quota_store import QuotaStore

NOW = 1_795_000_000.0
"""When a stage begins: 2026-11-18 around noon, UTC, in seconds since 1970."""

LEASE_S = 2100.0
"""Lease of reservations."""

PATIENCE_S = 30.0


class QuotaStage(Protocol):
    """The store of a running gateway, on data that outlives it."""

    @property
    def store(self) -> QuotaStore: ...

    books_lost: bool
    """Whether the ledger gets the reservations of a gateway that died."""

    async def advance(self, seconds: float) -> None:
        """Advance the store's clock. Ended leases are then settled at once or by the next call."""
        ...

    async def carried_out(self) -> None:
        """Wait until limits contain everything that was settled."""
        ...

    async def booked(self) -> list[Entry]:
        """The ledger, once all entries so far are in it; in any order."""
        ...

    async def end(self) -> None:
        """End the gateway cleanly, by cancelling `run`. `store` is then that of another gateway."""
        ...

    async def die(self) -> None:
        """Kill the gateway, and let its leases end. `store` is then that of another gateway."""
        ...


def entry(request_id: str, *, outcome: str = "ok", tokens: int = 0, team: str = "blue") -> Entry:
    """A line of the ledger that can be distinguished from others by *request_id*."""
    record = UsageRecord(
        time="2026-11-18T12:00:00.000Z",
        request_id=request_id,
        team=team,
        project=None,
        key="ci",
        user=None,
        model_asked="tiny",
        model="tiny",
        backend="w1",
        outcome=outcome,  # type: ignore[arg-type]
        status=200,
        prompt_tokens=tokens,
        cached_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        saved_usd=0.0,
        fell_back=False,
        ttft_ms=None,
        duration_ms=1.0,
    )
    return Entry.from_record("2026-11-18", record)


async def cancelled(task: "asyncio.Task[None]") -> None:
    """Cancel *task* and wait for its end."""
    task.cancel()
    await asyncio.wait([task], timeout=PATIENCE_S)
    assert task.done()


async def killed(task: "asyncio.Task[None]") -> None:
    """Cancel *task* until it has ended, whatever it would still do at its end."""
    async with asyncio.timeout(PATIENCE_S):
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.05)
