"""A team whose budgets are used, and what watches them, with real stores in one file."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import msgspec

from gateway.storage.sqlite_file import SqliteFile
from gateway.tenancy.alerts.alert import Alert
from gateway.tenancy.alerts.alert_store import AlertStore
from gateway.tenancy.alerts.budget_use import BudgetUses
from gateway.tenancy.alerts.budget_watch import BudgetWatch
from gateway.tenancy.alerts.spend_watch import SpendRule, SpendWatch
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from gateway.tenancy.ledger import sqlite_usage
from gateway.tenancy.ledger.sqlite_book import book
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.quota.embedded_store import EmbeddedQuotaStore
from gateway.tenancy.quota.limit import Charge, Limit
from gateway.tenancy.quota.plan import Calendar
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.soft_budgets import SoftBudgets
from gateway.tenancy.quota.spent_budgets import SpentBudgets
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from tests.contracts.quota_stage import cancelled
from tests.gateway.tenancy.ledger.examples import an_entry

NOON = 1_795_262_400.0
"""2026-11-21 12:00 in UTC."""


class AlertStage:
    def __init__(self, file: SqliteFile) -> None:
        self.now = NOON
        self.file = file
        self.directory = Directory()
        self.usage = SqliteUsage(file)
        self.quota = EmbeddedQuotaStore(file, book, clock=self.clock, lease_s=3600)
        self.alerts = SqliteAlerts(file, wall_clock=self.clock)
        self.spent = SpentBudgets()
        calendar = Calendar(UTC)
        self.soft_budgets = SoftBudgets(self.usage, self.directory, calendar, cached_weight=1.0, clock=self.clock)
        self.calendar = calendar

    def clock(self) -> float:
        return self.now

    def have(self, *teams: Team, keys: Sequence[Key] = ()) -> None:
        self.directory.declare(Declared({each.name: each for each in teams}, {each.id: each for each in keys}))

    def uses(self, quota: QuotaStore | None = None) -> BudgetUses:
        return BudgetUses(
            *(quota or self.quota, self.usage, self.directory, self.calendar),
            soft_budgets=self.soft_budgets,
            spent=self.spent,
            clock=self.clock,
        )

    def watch(self, store: AlertStore | None = None, *, check_s: float = 10.0) -> BudgetWatch:
        """A watch of a gateway that has just started."""
        return BudgetWatch(
            *(store or self.alerts, self.uses()),
            receivers=["ops"],
            thresholds=(1.0, 0.5, 0.8),
            check_s=check_s,
            clock=self.clock,
        )

    def spend_watch(self, store: AlertStore | None = None, *, check_s: float = 10.0) -> SpendWatch:
        """A watch of unusual spend of a gateway that has just started."""
        return SpendWatch(
            *(store or self.alerts, self.usage, Calendar(UTC), SpendRule(5.0, 10.0, 3, 14)),
            receivers=["ops"],
            check_s=check_s,
            clock=self.clock,
        )

    async def spend(self, day: str, usd: float, *, team: str = "blue") -> None:
        """Add a request to the ledger."""
        await self.file.run(lambda connection: book(connection, [an_entry(day, team=team, cost_usd=usd)]))

    async def use(self, limit: str, units: float, *, amount: float = 10.0, period: str = "2026-11") -> None:
        charge = Charge(Limit(limit, "period", amount), units, period, 86_400.0)
        entry = an_entry("2026-11-21")
        await self.quota.reserve("blue", f"{limit}{units}", [charge], lambda: entry)
        self.quota.settle("blue", f"{limit}{units}", [charge], lambda: entry)

    async def waiting(self) -> list[Alert]:
        """The alerts that the receiver ``ops`` has not got."""
        found = await self.alerts.waiting("ops", 1000)
        return [msgspec.json.decode(each.body, type=Alert) for each in found.alerts]


@asynccontextmanager
async def alert_stage(folder: Path) -> AsyncIterator[AlertStage]:
    file = SqliteFile(folder / "db")
    await file.run(sqlite_usage.create)
    stage = AlertStage(file)
    await stage.quota.open()
    running = asyncio.create_task(stage.quota.run())  # ends below
    yield stage
    await cancelled(running)
    await file.aclose()
