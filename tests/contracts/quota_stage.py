"""What the `QuotaStore` contract suite needs to know of a store beside the seam: its clock, its ledger, and its end."""

import asyncio
from typing import Protocol

from gateway.ledger.entry import Entry
from gateway.ledger.record import UsageRecord
from gateway.quota.quota_store import QuotaStore

NOW = 1_795_000_000.0
"""When a stage begins: 2026-11-18 around noon, UTC, in seconds since 1970."""

LEASE_S = 2100.0
"""Of its reservations."""

PATIENCE_S = 10.0


class QuotaStage(Protocol):
    """One gateway's store whose `run` is running, on data that outlives the gateway."""

    @property
    def store(self) -> QuotaStore: ...

    books_lost: bool
    """Whether what a gateway that died had reserved comes into the ledger."""

    async def advance(self, seconds: float) -> None:
        """Let the store's clock go on. Leases that ended by it are then looked for: at once or at the next call."""
        ...

    async def carried_out(self) -> None:
        """Wait until what was settled so far is so for limits."""
        ...

    async def booked(self) -> list[Entry]:
        """The ledger, once all that was told the store so far is in it; in any order."""
        ...

    async def end(self) -> None:
        """The gateway ends in peace: its `run` is cancelled. From then on `store` is that of another one."""
        ...

    async def die(self) -> None:
        """The gateway is killed, its last leases are over, and were looked for. `store` is that of another one."""
        ...


def entry(request_id: str, *, outcome: str = "ok", tokens: int = 0, team: str = "blue") -> Entry:
    """A line of the ledger that can be told from others by *request_id*."""
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
    return Entry.of("2026-11-18", record)


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
