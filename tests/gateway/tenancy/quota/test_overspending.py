"""Streams that end when a budget is spent, and their errors."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pytest

from gateway.protocol.errors import GatewayError, QuotaSpent
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota.limit import Limit
from gateway.tenancy.quota.output_length import OutputLengths
from gateway.tenancy.quota.overspending import Overspending
from gateway.tenancy.quota.plan import Calendar, Metered, Plans
from gateway.tenancy.quota.quota import Ask, Quota, Reservation
from gateway.tenancy.teams.limits import Limits
from tests.contracts.embedded_quota import EmbeddedStage
from tests.gateway.tenancy.quota.examples import BUDGET, NOW, caller, entry, usd

PRICE = Price.per_million(input_usd=0.0, cached_input_usd=0.0, output_usd=1000.0)
"""A tenth of a cent for a token of an answer."""
TINY = Metered("tiny", PRICE.cost_usd, max_output_tokens=100)


@dataclass(eq=False)
class Stream:
    events: int = 0
    stopped: GatewayError | None = None


class Gateway:
    def __init__(self, stage: EmbeddedStage) -> None:
        self.stage = stage
        plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))
        lengths = OutputLengths(default=50.0)
        self.quota = Quota(stage.store, plans, lengths=lengths, clock=lambda: NOW, time_zone=UTC)
        self.overspending = Overspending(stage.store, tolerance=0.1, clock=lambda: NOW)

    async def stream(self, limits: Limits, *, max_tokens: int | None = 100) -> tuple[Stream, Reservation]:
        who, ask = caller(team=limits), Ask(0.0, max_tokens=max_tokens)
        reservation = await self.quota.reserve(who, TINY, ask, lambda _: entry("lost"))
        stream = Stream()
        self.overspending.begin(stream, reservation)
        return stream, reservation


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    stage = EmbeddedStage(tmp_path / "quota.db")
    await stage.begin()
    yield Gateway(stage)
    await stage.close()


async def test_a_stream_within_what_it_has_reserved_goes_on(gateway: Gateway) -> None:
    stream, _ = await gateway.stream(Limits(usd_per_day=0.1))
    stream.events = 100
    await gateway.overspending.check("blue")

    assert stream.stopped is None


async def test_a_stream_longer_than_reserved_is_stopped_beyond_the_tolerance(gateway: Gateway) -> None:
    """Ten cents have room for 100 tokens, and a tenth of that is tolerated."""
    stream, _ = await gateway.stream(Limits(usd_per_day=0.1))
    stream.events = 110
    await gateway.overspending.check("blue")
    tolerated = stream.stopped
    stream.events = 111
    await gateway.overspending.check("blue")

    assert tolerated is None
    assert isinstance(stream.stopped, QuotaSpent)
    assert (
        "The budget of team blue on US dollars per day is spent: Limit 0.1, Used 0.111. The answer ends here."
        == stream.stopped.message
    )
    assert "team/usd_per_day" == stream.stopped.refused_by


async def test_a_stream_that_is_paid_for_goes_on_beside_one_that_is_not(gateway: Gateway) -> None:
    """What all have beyond their reservations counts together."""
    limits = Limits(tokens_per_day=300)
    paid, _ = await gateway.stream(limits)
    longer, _ = await gateway.stream(limits)
    longest, _ = await gateway.stream(limits)
    paid.events, longer.events, longest.events = 90, 116, 115
    await gateway.overspending.check("blue")

    assert [False, True, True] == [each.stopped is not None for each in (paid, longer, longest)]


async def test_all_streams_end_when_the_budget_itself_is_passed(gateway: Gateway) -> None:
    """This happens after requests that used more than reserved, or when a budget is lowered."""
    stream, _ = await gateway.stream(Limits(usd_per_day=1.0))
    await gateway.stage.store.reserve("blue", "other", [usd(0.5)], lambda: entry("other"))
    gateway.stage.store.settle("blue", "other", [usd(1.2)], lambda: entry("other"))
    await gateway.overspending.check("blue")

    assert Limit("team:blue/usd_per_day", "period", 1.0) == BUDGET
    assert stream.stopped is not None


async def test_streams_that_ended_or_have_no_budget_are_left_alone(gateway: Gateway) -> None:
    free, _ = await gateway.stream(Limits(tokens_per_minute=1000))
    ended, reservation = await gateway.stream(Limits(usd_per_day=0.1))
    gateway.overspending.end(ended, reservation.team)
    gateway.overspending.end(ended, reservation.team)
    free.events = ended.events = 1_000_000
    await gateway.overspending.check("blue")

    assert [None, None] == [free.stopped, ended.stopped]
