"""Backup, restore and check, of either store."""

import asyncio
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.app.mapping.tenancy import store_rules
from gateway.app.store_rules import StoreRules
from gateway.app.stores import Stores, initialize, stores_of
from gateway.cli.backup.store import back_up, check, restore
from gateway.protocol.errors import StoreUnavailable
from gateway.settings import build
from gateway.storage.file_lock import FileLock
from gateway.storage.redis_link import redis_client
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.ledger.usage_store import Period, RecordQuery, SumQuery
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutKey, PutTeam, PutWorker
from tests.gateway.tenancy.ledger.examples import an_entry
from tests.gateway.tenancy_examples import NOW
from tests.storage import RedisServer, RedisServers

AUDIT = AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="create", kind="team", id="blue")
BUDGET = Charge(Limit("team:blue/tokens_per_day", "period", 10.0), 6.0, "2026-11-21", 3600.0)
ADDED = PutWorker(AddedWorker("tiny", "http://10.0.0.7:8000", "w7", created_at=5.0))
NOVEMBER = Period.month("2026-11")

CLOCK = time.time  # Redis ends keys by its own
"""For backups."""

Place = Callable[..., StoreRules]


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    return lambda name, **store: settings_for(f"sqlite:///{tmp_path}/{name}.db", **store)


@pytest.fixture
def redis(redis_servers: RedisServers) -> Place:
    servers: dict[str, RedisServer] = {}

    def at(name: str, **store: Any) -> StoreRules:
        if name not in servers:
            servers[name] = redis_servers.started()
        return settings_for(servers[name].url, timeout_s=10.0, **store)

    return at


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def place(request: pytest.FixtureRequest) -> Place:
    place: Place = request.getfixturevalue(request.param)
    return place


def settings_for(url: str, **store: Any) -> StoreRules:
    model = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
    return store_rules(build({"models": [model], "store": {"url": url, **store}}, {}))


async def at_work(rules: StoreRules, act: Callable[[Stores], Any]) -> Any:
    """What *act* comes to, with the loops of the store that *rules* name."""
    await initialize(rules, wall_clock=lambda: NOW)
    stores = stores_of(rules, wall_clock=lambda: NOW)
    await stores.open()
    await stores.identify()
    async with asyncio.TaskGroup() as tasks:
        loops = [tasks.create_task(loop) for loop in stores.loops()]
        outcome = await act(stores)
        for loop in loops:
            loop.cancel()
    await stores.aclose()
    return outcome


async def fill(stores: Stores) -> None:
    """Two teams, a key, an added worker, and a request that took most of a budget."""
    for change in (PutTeam(Team("blue")), PutTeam(Team("red")), PutKey(Key("ci", "blue", "d" * 64)), ADDED):
        await stores.teams.write(change, AUDIT)
    assert isinstance(await stores.quota.reserve("blue", "r-1", [BUDGET], an_entry), Granted)
    stores.quota.settle("blue", "r-1", [BUDGET], partial(an_entry, team="blue", user="ann"))
    async with asyncio.timeout(60):
        while not (await stores.usage.records(RecordQuery(period=NOVEMBER))).items:
            await asyncio.sleep(0.01)


async def seen(stores: Stores) -> dict[str, Any]:
    """Everything that can be read of a store, its pepper included."""
    kept = await stores.teams.load()
    return {
        "identity": stores.teams.identity,
        "pepper": await stores.identify(),
        "teams": set(kept.teams),
        "keys": dict(kept.keys),
        "workers": dict(kept.workers),
        "audit": list((await stores.teams.audit()).items),
        "records": list((await stores.usage.records(RecordQuery(period=NOVEMBER))).items),
        "sums": await stores.usage.sums(SumQuery(period=NOVEMBER, by=("team", "key", "model"))),
        "users": await stores.usage.users("blue", "2026-11"),
        "budget": type(await stores.quota.reserve("blue", "r-2", [BUDGET], an_entry)),
    }


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def pepper_in(stores: Stores) -> bytes:
    return await stores.identify()


async def nothing(_: Stores) -> None:
    """The store is there."""


async def test_what_was_backed_up_is_there_again(place: Place, tmp_path: Path) -> None:
    """In another store: teams, keys, the log, usage, what is left of budgets, and the pepper, as asked for."""
    first, second, backup = place("first"), place("second"), tmp_path / "backup"

    async def filled(stores: Stores) -> dict[str, Any]:
        await fill(stores)
        return await seen(stores)

    before = await at_work(first, filled)
    await back_up(first, backup, with_pepper=True, wall_clock=CLOCK)
    await restore(second, backup, force=False, wall_clock=CLOCK)
    after = await at_work(second, seen)

    assert before == after
    assert ({"blue", "red"}, Refused) == (after["teams"], after["budget"])
    assert ["http://10.0.0.7:8000"] == [worker.url for worker in after["workers"].values()]
    assert 1 == len(after["records"]) == len(after["users"])
    assert 0o600 == stat.S_IMODE(backup.stat().st_mode)


async def test_a_backup_of_a_store_in_use_disturbs_no_one(place: Place, tmp_path: Path) -> None:
    settings = place("first")

    async def meanwhile(stores: Stores) -> None:
        await fill(stores)
        await back_up(settings, tmp_path / "backup", with_pepper=True, wall_clock=CLOCK)
        await stores.teams.write(PutTeam(Team("later")), AUDIT)

    await at_work(settings, meanwhile)
    await restore(place("second"), tmp_path / "backup", force=False, wall_clock=CLOCK)

    assert {"blue", "red"} == (await at_work(place("second"), seen))["teams"]


async def test_a_backup_has_the_pepper_only_if_it_is_asked_for(place: Place, tmp_path: Path) -> None:
    """Without it a thief has digests that nothing can be done with; anyone who restores it has to bring it."""
    first, backup = place("first"), tmp_path / "backup"
    pepper = await at_work(first, pepper_in)
    await at_work(first, fill)
    await back_up(first, backup, with_pepper=False, wall_clock=CLOCK)
    assert pepper not in backup.read_bytes()
    with pytest.raises(
        StoreUnavailable, match=r"The backup has no pepper\. Set store\.pepper to the pepper with the fingerprint "
    ):
        await restore(place("second"), backup, force=False, wall_clock=CLOCK)
    await restore(first, backup, force=True, wall_clock=CLOCK)  # it has the pepper itself

    assert pepper == await at_work(first, pepper_in)


async def test_a_given_pepper_has_to_fit(place: Place, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    await at_work(place("first", pepper="given"), fill)
    await back_up(place("first", pepper="given"), backup, with_pepper=True, wall_clock=CLOCK)
    with pytest.raises(
        StoreUnavailable,
        match=r"store\.pepper has the fingerprint [0-9a-f]{16}, but the backup was made with the pepper",
    ):
        await restore(place("second", pepper="another"), backup, force=False, wall_clock=CLOCK)
    await restore(place("second", pepper="given"), backup, force=False, wall_clock=CLOCK)

    assert b"given" == (await at_work(place("second", pepper="given"), seen))["pepper"]


async def test_what_a_store_has_is_replaced_by_force_only(place: Place, tmp_path: Path) -> None:
    first, second, backup = place("first"), place("second"), tmp_path / "backup"
    await at_work(first, fill)

    async def other(stores: Stores) -> None:
        await stores.teams.write(PutTeam(Team("green")), AUDIT)

    await at_work(second, other)
    await back_up(first, backup, with_pepper=True, wall_clock=CLOCK)
    with pytest.raises(StoreUnavailable, match=r"The store is not empty\. Use --force"):
        await restore(second, backup, force=False, wall_clock=CLOCK)
    await restore(second, backup, force=True, wall_clock=CLOCK)

    assert {"blue", "red"} == (await at_work(second, seen))["teams"]


async def test_a_damaged_backup_changes_nothing(place: Place, tmp_path: Path) -> None:
    first, second, backup = place("first"), place("second"), tmp_path / "backup"
    await at_work(first, fill)
    await at_work(second, fill)
    before = await at_work(second, seen)
    await back_up(first, backup, with_pepper=True, wall_clock=CLOCK)
    whole = backup.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"something else " * 1000):
        backup.write_bytes(damaged)
        with pytest.raises(StoreUnavailable, match="backup"):
            await restore(second, backup, force=True, wall_clock=CLOCK)

    assert before == await at_work(second, seen)


async def test_a_backup_never_goes_over_a_file(place: Place, tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("precious")
    await at_work(place("first"), nothing)
    with pytest.raises(FileExistsError):
        await back_up(place("first"), tmp_path / "backup", with_pepper=False, wall_clock=CLOCK)

    assert "precious" == (tmp_path / "backup").read_text()


async def test_a_store_that_is_not_there_is_reported(place: Place, tmp_path: Path) -> None:
    for act in (partial(back_up, path=tmp_path / "backup", with_pepper=False), partial(check, teams=())):
        with pytest.raises(StoreUnavailable, match=r"The file first\.db does not exist|The store is not initialized"):
            await act(place("first"), wall_clock=CLOCK)

    assert [] == files_in(tmp_path)


async def test_a_sound_store_is_reported_as_such(place: Place) -> None:
    await at_work(place("first"), fill)
    checked = await check(place("first"), (), wall_clock=CLOCK)

    assert ([], 2, 1, 1) == (checked.faults, checked.teams, checked.keys, checked.workers)
    assert (32, 16) == (len(checked.identity), len(checked.fingerprint))


async def test_what_does_not_belong_together_is_reported(place: Place) -> None:
    """A key without its team, and two with one secret."""

    async def broken(stores: Stores) -> None:
        for name in ("blue", "red"):
            await stores.teams.write(PutTeam(Team(name)), AUDIT)
        for name in ("a", "b"):
            await stores.teams.write(PutKey(Key(name, "blue", "d" * 64)), AUDIT)
        await stores.teams.write(PutKey(Key("c", "gone", "e" * 64), is_team_declared=True), AUDIT)

    await at_work(place("first"), broken)
    checked = await check(place("first"), (), wall_clock=CLOCK)

    assert [
        "the key 'c' belongs to the team 'gone', which does not exist",
        "the key 'a' has the same secret as another key",
        "the key 'b' has the same secret as another key",
    ] == checked.faults


async def test_a_file_that_a_gateway_uses_is_not_replaced(sqlite: Place, tmp_path: Path) -> None:
    await at_work(sqlite("first"), fill)
    await back_up(sqlite("first"), tmp_path / "backup", with_pepper=True, wall_clock=CLOCK)
    lock = FileLock(tmp_path / "first.db")
    with pytest.raises(StoreUnavailable, match=r"A gateway is using the file first\.db\. Stop the gateway first"):
        await restore(sqlite("first"), tmp_path / "backup", force=True, wall_clock=CLOCK)
    lock.release()


@pytest.mark.redis
async def test_gateways_that_run_find_what_was_restored(
    redis: Place, redis_servers: RedisServers, tmp_path: Path
) -> None:
    """The identity and the pepper are those that they know: after FLUSHALL nothing has to be restarted."""
    settings, backup = redis("first"), tmp_path / "backup"

    async def lose(stores: Stores) -> set[str]:
        await fill(stores)
        await back_up(settings, backup, with_pepper=True, wall_clock=CLOCK)
        await flush(settings)
        with pytest.raises(StoreUnavailable, match="has lost its data"):
            await stores.teams.load()
        await restore(settings, backup, force=True, wall_clock=CLOCK)
        return set((await stores.teams.load()).keys)

    assert {"ci"} == await at_work(settings, lose)


async def flush(rules: StoreRules) -> None:
    client = redis_client(rules.url)
    await client.flushall()
    await client.aclose()
