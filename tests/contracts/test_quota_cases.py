"""The arithmetic of limits as one table of cases, for both implementations: `meter.py` and `redis_meters.lua`.

All numbers are units of the limit. A rate has used what its bucket lacks, which may exceed its burst: a debt.
"""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pytest

from gateway.tenancy.quota.limit import BOTH, DAY, NEVER, ONE, USD, Charge, Granted, Limit, PlanLimit, Refused
from gateway.tenancy.quota.meters import Meters, PlanHold, PlanMeters
from tests.contracts.embedded_quota import embedded
from tests.contracts.quota_stage import NOW, QuotaStage, entry
from tests.contracts.redis_quota import redis
from tests.contracts.shared_quota import shared

TODAY, TOMORROW = "2026-11-18", "2026-11-19"
DAY_S = 86_400.0

RATE = Limit("key:ci/tokens_per_minute", "rate", 600.0, burst=60.0)
"""Ten units a second."""
BUDGET = Limit("team:blue/usd_per_day", "period", 1.0)
SLOTS = Limit("team:blue/concurrent", "concurrent", 2.0)

REFUSED_FOREVER = math.inf
GRANTED = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """State before, charge and time, and the decision and state after."""

    name: str
    limit: Limit
    used: float
    """Before the charge."""
    units: float
    """Charged."""
    wait_s: float
    """Decision: `GRANTED`, or the wait of the refusal."""
    after: float
    """Used after the decision."""
    later_s: float = 0.0
    """Time between the state before and the charge."""
    period: str = TODAY
    """Period of the charge; the state before is one of TODAY."""
    left_s: float = DAY_S / 2
    """Time until that period ends, at the charge."""
    today_left_s: float = DAY_S / 2
    """Time until TODAY ends, at the state before."""
    settled: float | None = None
    """Actual usage."""
    refunded: float = 0.0
    """Refunded by an administrator before that."""
    at_end: float = 0.0
    """Used after the settlement."""


CASES = [
    Case("a full bucket grants its burst", RATE, 0.0, 60.0, GRANTED, 60.0),
    Case("a bucket grants what is left", RATE, 40.0, 20.0, GRANTED, 60.0),
    Case("a bucket refuses more than is left", RATE, 40.0, 25.0, 0.5, 40.0),
    Case("an empty bucket refuses", RATE, 60.0, 25.0, 2.5, 60.0),
    Case("time refills a bucket", RATE, 60.0, 25.0, GRANTED, 60.0, later_s=2.5),
    Case("a moment too early is refused", RATE, 60.0, 25.0, 0.01, 35.1, later_s=2.49),
    Case("time does not fill beyond the burst", RATE, 60.0, 60.0, GRANTED, 60.0, later_s=600.0),
    Case("more than the burst passes a full bucket", RATE, 0.0, 600.0, GRANTED, 600.0),
    Case("more than the burst waits for a full bucket", RATE, 10.0, 61.0, 1.0, 10.0),
    Case("more than the amount never passes", RATE, 0.0, 601.0, REFUSED_FOREVER, 0.0),
    Case("a debt is waited for", RATE, 600.0, 10.0, 55.0, 600.0),
    Case("no units are granted even in debt", RATE, 900.0, 0.0, GRANTED, 900.0),
    Case("a rate gets back what was not used", RATE, 0.0, 60.0, GRANTED, 60.0, settled=10.0, at_end=10.0),
    Case("a rate is charged what was used beyond", RATE, 20.0, 10.0, GRANTED, 30.0, settled=110.0, at_end=130.0),
    Case("a rate gets back a failed request", RATE, 20.0, 30.0, GRANTED, 50.0, settled=0.0, at_end=20.0),
    Case("a budget grants its amount", BUDGET, 0.0, 1.0, GRANTED, 1.0),
    Case("a budget grants what is left", BUDGET, 0.75, 0.25, GRANTED, 1.0),
    Case("a budget refuses until its period ends", BUDGET, 0.75, 0.5, DAY_S / 2, 0.75),
    Case("time does not refill a budget", BUDGET, 0.75, 0.5, 3600.0, 0.75, later_s=60.0, left_s=3600.0),
    Case("more than a budget never passes", BUDGET, 0.0, 1.01, REFUSED_FOREVER, 0.0),
    Case("no units are granted beyond a budget", BUDGET, 1.5, 0.0, GRANTED, 1.5),
    Case("a budget gets back what was not used", BUDGET, 0.0, 0.75, GRANTED, 0.75, settled=0.25, at_end=0.25),
    Case("a budget is charged what was used beyond", BUDGET, 0.5, 0.5, GRANTED, 1.0, settled=1.5, at_end=2.0),
    Case("a refund lowers a budget", BUDGET, 0.5, 0.25, GRANTED, 0.75, refunded=0.5, settled=0.25, at_end=0.25),
    Case("a refund leaves nothing below 0", BUDGET, 0.25, 0.5, GRANTED, 0.75, refunded=9.0, settled=0.25, at_end=0.0),
    Case(
        *("a new period starts at zero", BUDGET, 1.0, 0.5, GRANTED, 0.5),
        later_s=600.0,
        today_left_s=600.0,
        period=TOMORROW,
        left_s=DAY_S,
    ),
    Case(
        *("a clock that is a little ahead starts the new period", BUDGET, 1.0, 0.5, GRANTED, 0.5),
        later_s=541.0,
        today_left_s=600.0,
        period=TOMORROW,
        left_s=DAY_S,
    ),
    Case(
        *("a calendar that is far ahead counts in the current period", BUDGET, 1.0, 0.5, 62.0, 1.0),
        later_s=538.0,
        today_left_s=600.0,
        period=TOMORROW,
        left_s=DAY_S,
    ),
    Case("a free slot is granted", SLOTS, 1.0, 1.0, GRANTED, 2.0),
    Case("without a free slot the wait is a second", SLOTS, 2.0, 1.0, 1.0, 2.0),
    Case("more slots than there are never pass", SLOTS, 0.0, 3.0, REFUSED_FOREVER, 0.0),
    Case("a settled request frees its slot", SLOTS, 1.0, 1.0, GRANTED, 2.0, settled=1.0, at_end=1.0),
    Case("a failed request frees its slot", SLOTS, 1.0, 1.0, GRANTED, 2.0, settled=0.0, at_end=1.0),
]


class Counter(Protocol):
    """One implementation of the arithmetic."""

    async def use(self, charge: Charge) -> None:
        """Bring the limit of *charge* to its units, whether there is room or not."""
        ...

    async def advance(self, seconds: float) -> None: ...

    async def reserve(self, charge: Charge) -> float:
        """Return the wait; `GRANTED`: none."""
        ...

    async def refund(self, charge: Charge) -> None: ...

    async def settle(self, charge: Charge) -> None:
        """Settle what `reserve` granted."""
        ...

    async def used(self, charge: Charge) -> float:
        """Return what is used of the limit; *charge* has no units."""
        ...


class ByStore:
    """A `QuotaStore`, through its seam."""

    def __init__(self, stage: QuotaStage) -> None:
        self._stage = stage
        self._number = 0
        self._reserved = ""

    async def use(self, charge: Charge) -> None:
        if charge.limit.kind == "concurrent":
            for _ in range(int(charge.units)):
                await self._decide(Charge(charge.limit, 1.0))
            return
        await self.reserve(_without_units(charge))
        await self.settle(charge)

    async def advance(self, seconds: float) -> None:
        await self._stage.advance(seconds)

    async def reserve(self, charge: Charge) -> float:
        decision = await self._decide(charge)
        self._reserved = f"r{self._number}"
        return decision.wait_s if isinstance(decision, Refused) else GRANTED

    async def refund(self, charge: Charge) -> None:
        await self._stage.store.refund("blue", [charge])

    async def settle(self, charge: Charge) -> None:
        self._stage.store.settle("blue", self._reserved, [charge], partial(entry, self._reserved))
        await self._stage.carried_out()

    async def used(self, charge: Charge) -> float:
        if charge.limit.kind == "period":
            return (await self._stage.store.spent("blue", [charge]))[0]
        decision = await self._decide(charge)
        level = decision.levels[0]
        if charge.limit.kind == "rate":
            return level.reset_s * charge.limit.amount / 60.0
        return charge.limit.amount - level.remaining

    async def _decide(self, charge: Charge) -> Granted | Refused:
        self._number += 1
        name = f"r{self._number}"
        return await self._stage.store.reserve("blue", name, [charge], partial(entry, f"lost-{name}", outcome="lost"))


class ByPlan:
    """`Meters` with plan holds. Where those cannot grant, charges decide, as in `Quota`."""

    def __init__(self) -> None:
        self._meters = Meters()
        self._now = NOW
        self._plan: PlanMeters
        self._hold = PlanHold()

    async def use(self, charge: Charge) -> None:
        limit = charge.limit
        what = {"rate": BOTH, "period": USD, "concurrent": ONE}[limit.kind]
        for number in range(int(charge.units) if limit.kind == "concurrent" else 0):
            self._meters.reserve("blue", f"runs{number}", [Charge(limit, 1.0)], self._now)
        self._meters.reserve("blue", "first", [_without_units(charge)], self._now)
        held = self._meters.held("first")
        assert held is not None
        self._plan = PlanMeters([PlanLimit(limit, what, DAY if limit.kind == "period" else NEVER)], held.meters)
        self._meters.settle("first", [charge])

    async def advance(self, seconds: float) -> None:
        self._now += seconds

    async def reserve(self, charge: Charge) -> float:
        hold = self._hold = PlanHold()
        hold.meters, hold.both, hold.usd, hold.likely_usd = self._plan, charge.units, charge.units, charge.units
        self._plan.day, self._plan.day_left_s = charge.period, charge.period_left_s
        if hold.units(self._plan.each[0].what) == charge.units and self._meters.reserve_plan(hold, self._now):
            return GRANTED
        decision = self._meters.reserve("blue", "by charges", [charge], self._now)
        return decision.wait_s if isinstance(decision, Refused) else GRANTED

    async def refund(self, charge: Charge) -> None:
        self._meters.refund("blue", [charge], self._now)

    async def settle(self, charge: Charge) -> None:
        used = charge.units
        assert self._meters.settle_plan(self._hold, one=used, prompt=0.0, completion=0.0, both=used, usd=used)
        assert not self._meters.settle_plan(self._hold, one=used, prompt=0.0, completion=0.0, both=used, usd=used)

    async def used(self, charge: Charge) -> float:
        if charge.limit.kind == "period":
            return self._meters.spent("blue", [charge], self._now)[0]
        decision = self._meters.reserve("blue", "look", [charge], self._now)
        self._meters.cancel("look")
        level = decision.levels[0]
        if charge.limit.kind == "rate":
            return level.reset_s * charge.limit.amount / 60.0
        return charge.limit.amount - level.remaining


def _without_units(charge: Charge) -> Charge:
    return Charge(charge.limit, 0.0, charge.period, charge.period_left_s)


Open = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Counter]]


def by_store(open_: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[QuotaStage]]) -> Open:
    @asynccontextmanager
    async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Counter]:
        async with open_(request) as stage:
            yield ByStore(stage)

    return opened


@asynccontextmanager
async def by_plan(_: pytest.FixtureRequest) -> AsyncIterator[Counter]:
    yield ByPlan()


@pytest.fixture(
    params=[
        pytest.param(by_store(embedded), id="embedded"),
        pytest.param(by_store(shared), id="shared"),
        pytest.param(by_plan, id="plan"),
        pytest.param(by_store(redis), id="redis", marks=pytest.mark.redis),
    ]
)
async def counter(request: pytest.FixtureRequest) -> AsyncIterator[Counter]:
    open_: Open = request.param
    async with open_(request) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_limits_decide_by_the_table(counter: Counter, case: Case) -> None:
    def charge(units: float) -> Charge:
        return (
            Charge(case.limit, units, case.period, case.left_s) if case.limit is BUDGET else Charge(case.limit, units)
        )

    before = Charge(BUDGET, case.used, TODAY, case.today_left_s) if case.limit is BUDGET else charge(case.used)
    await counter.use(before)
    await counter.advance(case.later_s)

    assert case.wait_s == pytest.approx(await counter.reserve(charge(case.units)), abs=1e-4)
    assert case.after == pytest.approx(await counter.used(charge(0.0)), abs=1e-4)
    if case.refunded:
        await counter.refund(charge(case.refunded))
    if case.settled is not None:
        await counter.settle(charge(case.settled))
        assert case.at_end == pytest.approx(await counter.used(charge(0.0)), abs=1e-4)
