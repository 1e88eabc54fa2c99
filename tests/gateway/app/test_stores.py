"""Facts about which store an address stands for, and that its parts are of one piece."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from gateway.app.mapping.tenancy import store_rules
from gateway.app.store_rules import StoreAddressError
from gateway.app.stores import Stores, stores_of
from gateway.protocol.errors import StoreUnavailable
from gateway.settings import build
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.ledger.usage_store import Period, RecordQuery
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutTeam
from tests.gateway.tenancy.ledger.examples import an_entry
from tests.gateway.tenancy_examples import NOW
from tests.storage import RedisServer

BUDGET = Charge(Limit("team:blue/tokens_per_day", "period", 10.0), 6.0, "2026-11-21", 3600.0)
MADE = AuditEntry(
    time="2026-11-21T08:00:00.000Z", who="root", role="owner", action="create", kind="team", id="blue", team="blue"
)


def stores_at(url: str | None, **store: object) -> Stores:
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
    return stores_of(
        store_rules(build({"models": [model], "store": {"url": url, **store}}, {})), wall_clock=lambda: NOW
    )


@asynccontextmanager
async def at_work(stores: Stores) -> AsyncIterator[Stores]:
    await stores.open()
    async with asyncio.TaskGroup() as tasks:
        loops = [tasks.create_task(loop) for loop in stores.loops()]
        yield stores
        for loop in loops:
            loop.cancel()
    await stores.aclose()


async def use(stores: Stores) -> None:
    """A team, a request of it, and a place in its budget."""
    await stores.teams.write(PutTeam(Team(name="blue")), MADE)
    assert isinstance(await stores.quota.reserve("blue", "r-1", [BUDGET], an_entry), Granted)
    stores.quota.settle("blue", "r-1", [BUDGET], partial(an_entry, team="blue"))


async def check_used(stores: Stores) -> None:
    assert ["blue"] == list((await stores.teams.load()).teams)
    async with asyncio.timeout(60):
        while not (page := await stores.usage.records(RecordQuery(period=Period.month("2026-11")))).items:
            await asyncio.sleep(0.01)
    assert ["blue"] == [record.team for record in page.items]
    assert isinstance(await stores.quota.reserve("blue", "r-2", [BUDGET], an_entry), Refused)


@pytest.mark.parametrize("url", [None, "sqlite:///FOLDER/warmgate.db"])
async def test_all_parts_are_of_one_store(tmp_path: Path, url: str | None) -> None:
    async with at_work(stores_at(url and url.replace("FOLDER", str(tmp_path)))) as stores:
        await use(stores)
        await check_used(stores)


async def test_a_file_has_all_of_it_after_the_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/warmgate.db"
    async with at_work(stores_at(url)) as stores:
        await use(stores)
        pepper = await stores.identify()
    (mode,) = {stat.S_IMODE(file.stat().st_mode) for file in files_in(tmp_path)}
    async with at_work(stores_at(url)) as stores:
        await check_used(stores)
        assert pepper == await stores.identify()

    assert 0o600 == mode


async def test_without_an_address_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is made, and the next one is empty."""
    monkeypatch.chdir(tmp_path)
    async with at_work(stores_at(None)) as stores:
        await use(stores)
    async with at_work(stores_at(None)) as stores:
        assert {} == (await stores.teams.load()).teams

    assert [] == files_in(tmp_path)


def test_a_folder_that_is_not_there_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    """A file that is not there is made, a folder is not: its name may be misspelt."""
    with pytest.raises(StoreAddressError, match="no such folder, which is not a folder"):
        stores_at(f"sqlite:///{tmp_path}/no such folder/warmgate.db")


async def test_a_file_that_cannot_be_used_is_reported_at_the_start(tmp_path: Path) -> None:
    """Not with the first request."""
    (tmp_path / "warmgate.db").mkdir()
    stores = stores_at(f"sqlite:///{tmp_path}/warmgate.db")
    with pytest.raises(StoreUnavailable, match=r"warmgate\.db cannot be used"):
        await stores.open()
    await stores.aclose()


@pytest.mark.redis
async def test_redis_has_all_parts_too(redis_server: RedisServer) -> None:
    """Two gateways of one store: what one has done is there for the other."""
    async with at_work(stores_at(redis_server.url)) as one, at_work(stores_at(redis_server.url)) as other:
        assert await one.initialize() == await other.identify()
        await use(one)
        await check_used(other)


@pytest.mark.parametrize(("away", "expected"), [("share", Granted), ("fail_closed", StoreUnavailable)])
async def test_when_redis_is_away_the_settings_say_what_holds(
    tmp_path: Path, away: str, expected: type[object]
) -> None:
    """It may be away at the start, and while there is nothing of it but its share of the limits."""
    async with at_work(stores_at(f"unix://{tmp_path}/nobody", replicas=2, on_unavailable_budget=away)) as stores:
        async with asyncio.timeout(60):
            try:
                decision: object = await stores.quota.reserve("blue", "r-1", [SMALL], an_entry)
            except StoreUnavailable as error:
                decision = error
        assert isinstance(decision, expected)
        assert stores.quota.is_degraded


SMALL = Charge(BUDGET.limit, 1.0, BUDGET.period, BUDGET.period_left_s)


def test_an_address_with_a_fault_is_refused_without_its_password() -> None:
    with pytest.raises(StoreAddressError) as caught:
        stores_at("redis://:hunter2@127.0.0.1:1/0?no_such_option=1")

    assert "store.url has an unknown option or an invalid value. Correct its query string." == str(caught.value)


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())
