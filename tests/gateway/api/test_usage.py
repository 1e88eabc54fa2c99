"""`/v1/usage`, over a real ledger and real limits in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gateway.api.usage import SelfView, router
from gateway.app.tenancy import Tenancy
from gateway.models.registry import Models
from gateway.protocol.errors import InvalidField, InvalidKey, UnknownEntity
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.quota.limit import Granted
from gateway.tenancy.quota.plan import Tokens
from tests.fakes.backends import Refuses
from tests.gateway.cli.commands.terminal import entry
from tests.gateway.examples import a_model, the_models
from tests.gateway.tenancy_examples import NOW, SECRET, a_team, a_tenancy, at_work, booked

TODAY = "2025-11-21"


def two_models() -> Models:
    return the_models(a_model(Refuses(), name="tiny"), a_model(Refuses(), name="large"))


@asynccontextmanager
async def serving(
    tenancy: Tenancy, *entries: Entry, models: Models | None = None, now: float = NOW
) -> AsyncIterator[httpx.AsyncClient]:
    """Asks with the key ``ci``; *entries* are in the ledger."""
    api = FastAPI()
    api.include_router(router)
    api.state.access = tenancy.access
    api.state.self_view = SelfView(
        tenancy.stores.usage, tenancy.stores.quota, tenancy.plans, models or two_models(), tenancy.zone, lambda: now
    )
    headers = {"authorization": f"Bearer {SECRET}"}
    async with (
        at_work(tenancy),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost", headers=headers) as client,
    ):
        for each in entries:
            tenancy.stores.quota.book(each.record.team, partial(Entry.from_record, each.day, each.record))
        await booked(tenancy, sum(each.day.startswith(TODAY[:7]) for each in entries))
        yield client


async def found(client: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.get("/v1/usage", params=query)).raise_for_status().json()
    return answer


async def test_a_key_sees_its_own_sums_of_this_month() -> None:
    """Whole, and for each model; what other keys and other teams have used is not in them."""
    entries = [
        entry(TODAY, request_id="r-1"),
        entry(TODAY, request_id="r-2", model="large", outcome="aborted", cost_usd=0.125),
        entry(TODAY, request_id="r-3", key="another"),
        entry(TODAY, request_id="r-4", team="green"),
        entry("2025-10-31", request_id="r-5"),
    ]
    async with serving(a_tenancy(a_team()), *entries) as client:
        answer = await found(client)

    one = {
        "requests": 1,
        "failed": 0,
        "aborted": 0,
        "lost": 0,
        "fallbacks": 0,
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "completion_tokens": 10,
        "cost_usd": 0.25,
        "saved_usd": 0.5,
        "fallback_cost_usd": 0.0,
    }
    assert {
        "object": "usage",
        "team": "blue",
        "key": "ci",
        "project": None,
        "from": "2025-11-01",
        "to": "2025-11-30",
        "total": {
            "requests": 2,
            "failed": 0,
            "aborted": 1,
            "lost": 0,
            "fallbacks": 0,
            "prompt_tokens": 200,
            "cached_tokens": 120,
            "completion_tokens": 20,
            "cost_usd": 0.375,
            "saved_usd": 1.0,
            "fallback_cost_usd": 0.0,
        },
        "models": [{**one, "model": "large", "aborted": 1, "cost_usd": 0.125}, {**one, "model": "tiny"}],
        "limits": [],
    } == answer


async def test_another_month_can_be_asked_for() -> None:
    async with serving(a_tenancy(a_team()), entry("2025-10-31", cost_usd=3.0), entry(TODAY)) as client:
        october = await found(client, month="2025-10")
        november = await found(client)

    assert ("2025-10-01", "2025-10-31", 3.0) == (october["from"], october["to"], october["total"]["cost_usd"])
    assert ("2025-11-01", "2025-11-30", 0.25) == (november["from"], november["to"], november["total"]["cost_usd"])


async def test_this_month_is_that_of_the_settings_time_zone() -> None:
    """Where the ledger's days begin."""
    noon_of_october_31 = datetime(2025, 10, 31, 12, tzinfo=UTC).timestamp()
    first_days = []
    for zone in ("Pacific/Kiritimati", "America/New_York"):  # UTC+14, UTC-4
        async with serving(a_tenancy(a_team(), quota={"time_zone": zone}), now=noon_of_october_31) as client:
            first_days.append((await found(client))["from"])

    assert ["2025-11-01", "2025-10-01"] == first_days


async def test_limits_are_those_that_a_request_meets() -> None:
    """The key's, the team's, and of each model within either, with what is left of them."""
    models = two_models()
    tenancy = a_tenancy(
        {
            "name": "blue",
            "limits": {"usd_per_month": 10},
            "model_limits": {"large": {"tokens_per_minute": 1000}, "unknown": {"max_concurrent_requests": 1}},
            "keys": [{"id": "ci", "secret": SECRET, "limits": {"max_concurrent_requests": 5}}],
        }
    )
    async with serving(tenancy, models=models) as client:
        caller = tenancy.directory.caller("ci")
        large = models.get("large")
        assert caller is not None
        assert large is not None
        charges = tenancy.plans.plan_for(caller, large.metered).charges(Tokens(30.0, 0.0, 20.0), 2.5, NOW)
        assert isinstance(await tenancy.stores.quota.reserve("blue", "r-1", charges, entry), Granted)
        limits = (await found(client))["limits"]

    assert [
        ("key", "ci", None, "concurrent", 5.0, 4.0),
        ("team", "blue", None, "usd_per_month", 10.0, 7.5),
        ("team", "blue", "large", "tokens_per_minute", 1000.0, 50.0),
    ] == [tuple(each[name] for name in ("scope", "name", "model", "measure", "amount", "remaining")) for each in limits]
    assert [0.0, 3.0] == [limits[0]["reset_s"], limits[2]["reset_s"]]
    assert 9 * 86400 < limits[1]["reset_s"] < 10 * 86400


async def test_to_ask_takes_nothing() -> None:
    """Not even a request per minute."""
    async with serving(a_tenancy(a_team(limits={"requests_per_minute": 1}))) as client:
        answers = [await found(client) for _ in range(5)]

    assert [1.0] * 5 == [answer["limits"][0]["remaining"] for answer in answers]
    assert 0 == answers[-1]["total"]["requests"]


@pytest.mark.parametrize("month", ["2025-13", "november", "2025-11-21", "0000-01"])
async def test_what_is_no_month_is_reported(month: str) -> None:
    """400, with the parameter."""
    async with serving(a_tenancy(a_team())) as client:
        with pytest.raises(InvalidField) as raised:
            await found(client, month=month)

    assert "month" == raised.value.param


async def test_it_needs_a_key() -> None:
    """One that is known."""
    async with serving(a_tenancy(a_team())) as client:
        with pytest.raises(InvalidKey):
            await client.get("/v1/usage", headers={"authorization": "Bearer another"})


async def test_where_there_are_no_keys_there_is_nothing_to_tell() -> None:
    """Nothing is counted there; 404."""
    async with serving(a_tenancy()) as client:
        with pytest.raises(UnknownEntity, match=r"^Usage is not tracked, because no teams and no keys are configured$"):
            await found(client)
