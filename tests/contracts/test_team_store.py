"""What the gateway expects of any `TeamStore`, whichever of its objects, in whichever process, writes."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import pytest

from gateway.protocol.errors import Conflict, GatewayError, InvalidField, UnknownEntity
from gateway.storage.redis_link import redis_link
from gateway.storage.sqlite_file import SqliteFile
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.access_records import AccessRecord, ProvisionedGroup, ProvisionedUser, Revocation
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.change_result import change_result
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.redis_teams import RedisTeamStore
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.secret import fingerprint
from gateway.tenancy.teams.sqlite_teams import SqliteTeamStore
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import (
    Change,
    DeleteKey,
    DeleteRoute,
    DeleteTeam,
    DeleteWorker,
    PutAccess,
    PutKey,
    PutRoute,
    PutTeam,
    PutWorker,
    Snapshot,
    TeamStore,
)
from tests.storage import RedisServer

PATIENCE_S = 30.0

Open = Callable[[], AbstractAsyncContextManager[TeamStore]]
"""Each time another object of the same store, as another gateway has it."""


@pytest.fixture
def sqlite(tmp_path: Path) -> Open:
    @asynccontextmanager
    async def open_() -> AsyncIterator[TeamStore]:
        file = SqliteFile(tmp_path / "warmgate.db")
        yield SqliteTeamStore(file)
        await file.aclose()

    return open_


@pytest.fixture
def redis(redis_server: RedisServer) -> Open:
    @asynccontextmanager
    async def open_() -> AsyncIterator[TeamStore]:
        link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
        yield RedisTeamStore(link)
        await link.aclose()

    return open_


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def opened(request: pytest.FixtureRequest) -> Open:
    opened: Open = request.getfixturevalue(request.param)
    return opened


BLUE = Team("blue", models=("tiny", "gpt-*"), limits=Limits(tokens_per_minute=50_000, usd_per_month=100.0))
CI = Key("ci", "blue", "d" * 64, limits=Limits(concurrent=50), model_limits={"tiny": Limits(requests_per_minute=6)})


def entry(id_: str) -> AuditEntry:
    return AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="update", kind="key", id=id_)


async def put(store: TeamStore, *entities: Team | Key) -> Snapshot:
    for entity in entities:
        change = PutTeam(entity) if isinstance(entity, Team) else PutKey(entity)
        snapshot = await store.write(change, entry("put"))
    return snapshot


async def logged(store: TeamStore, *, most: int = 100) -> list[str]:
    """Ids of the whole log, by pages of *most*."""
    page = await store.audit(most=most)
    found = [each.id for each in page.items]
    while page.next is not None:
        page = await store.audit(page.next, most=most)
        found += [each.id for each in page.items]
    return found


async def next_of(changes: AsyncGenerator[None, None]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await anext(changes)


async def test_a_store_begins_empty(opened: Open) -> None:
    async with opened() as store:
        assert Snapshot(0, {}, {}) == await store.load()
        assert [] == await logged(store)


async def test_one_store_reads_what_another_writes(opened: Open) -> None:
    async with opened() as one, opened() as other:
        await other.load()
        written = await put(one, BLUE, CI)

        assert Snapshot(2, {"blue": BLUE}, {"ci": CI}) == written == await other.load() == await one.load()


async def test_unchanged_rows_stay_the_same_objects(opened: Open) -> None:
    async with opened() as one, opened() as other:
        await put(one, BLUE)
        before = await other.load()
        same = await other.load()
        await put(one, CI)
        after = await other.load()

        assert before is same
        assert before.teams["blue"] is after.teams["blue"]


async def test_a_change_replaces_what_was_there(opened: Open) -> None:
    blocked = Key("ci", "blue", "d" * 64, blocked=True)
    async with opened() as store:
        await put(store, BLUE, CI)
        await store.write(PutKey(blocked, CI), entry("ci"))

        assert {"ci": blocked} == (await store.load()).keys


async def test_the_second_of_two_concurrent_changes_gets_a_conflict(opened: Open) -> None:
    """No update is lost, and what is refused is not logged."""
    heavy, light = Team("blue", weight=2.0), Team("blue", weight=0.5)
    async with opened() as one, opened() as other:
        await put(one, BLUE)
        await other.load()
        await one.write(PutTeam(heavy, BLUE), entry("one"))
        with pytest.raises(Conflict):
            await other.write(PutTeam(light, BLUE), entry("other"))

        assert {"blue": heavy} == (await other.load()).teams
        assert ["one", "put"] == await logged(other)


async def test_deletions_take_what_is_there(opened: Open) -> None:
    """Also if it has changed since anyone who deletes it looked."""
    async with opened() as one, opened() as other:
        await put(one, BLUE, CI, Key("dev", "blue", "e" * 64))
        await other.load()
        await one.write(PutKey(Key("ci", "blue", "f" * 64), CI), entry("ci"))
        await other.write(DeleteKey("ci"), entry("ci"))
        assert {"dev"} == set((await one.load()).keys)

        await other.write(DeleteTeam("blue", with_keys=True), entry("blue"))
        assert Snapshot(6, {}, {}) == await one.load()


async def test_deletions_of_what_was_read_take_nothing_else(opened: Open) -> None:
    """What was changed in between stays, and what is refused is not logged."""
    heavy, other_ci = Team("blue", weight=2.0), Key("ci", "blue", "f" * 64)
    async with opened() as one, opened() as other:
        await put(one, BLUE, CI)
        await other.load()
        await one.write(PutTeam(heavy, BLUE), entry("one"))
        await one.write(PutKey(other_ci, CI), entry("one"))
        for change in (DeleteKey("ci", CI), DeleteTeam("blue", with_keys=True, former=BLUE)):
            with pytest.raises(Conflict):
                await other.write(change, entry("other"))
        assert ({"blue": heavy}, {"ci": other_ci}) == ((left := await other.load()).teams, left.keys)
        assert ["one", "one", "put", "put"] == await logged(other)

        await other.write(DeleteKey("ci", other_ci), entry("other"))
        await other.write(DeleteTeam("blue", former=heavy), entry("other"))
        assert ({}, {}) == ((left := await one.load()).teams, left.keys)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (PutTeam(Team("blue")), Conflict),
        (PutKey(Key("x", "red", "x")), UnknownEntity),
        (DeleteTeam("blue"), Conflict),
        (DeleteTeam("red"), UnknownEntity),
        (DeleteKey("x"), UnknownEntity),
    ],
)
async def test_a_refused_change_changes_nothing(opened: Open, change: Change, error: type[GatewayError]) -> None:
    async with opened() as store:
        before = await put(store, BLUE, CI)
        with pytest.raises(error):
            await store.write(change, entry("refused"))

        assert before == await store.load()
        assert ["put", "put"] == await logged(store)


async def test_writers_at_the_same_moment_all_succeed(opened: Open) -> None:
    """Each by its own object; changes of different things do not get into each other's way."""
    async with opened() as a, opened() as b, opened() as c:
        await put(a, BLUE)
        keys = [Key(f"k{n}", "blue", f"{n:064}") for n in range(12)]
        await asyncio.gather(
            *(store.write(PutKey(key), entry(key.id)) for key, store in zip(keys, [a, b, c] * 4, strict=True))
        )

        assert Snapshot(13, {"blue": BLUE}, {key.id: key for key in keys}) == await a.load()
        assert {"put", *(key.id for key in keys)} == set(await logged(b))


async def test_listeners_hear_at_once_and_after_each_change(opened: Open) -> None:
    async with opened() as one, opened() as other, aclosing(one.changes()) as own, aclosing(other.changes()) as heard:
        await next_of(own)
        await next_of(heard)
        for change in (PutTeam(BLUE), PutKey(CI), DeleteKey("ci")):
            written = await one.write(change, entry("x"))
            await next_of(own)
            await next_of(heard)
            assert written == await other.load()


async def test_access_records_are_kept_and_heard_of(opened: Open) -> None:
    revoked = Revocation("okta", "session", "sitzung-ß", 5.0, 9.0, "lost laptop")
    user = ProvisionedUser("okta", "u1", "Ålice", groups=("g1",), attributes='{"name":{"givenName":"Å"}}')
    group = ProvisionedGroup("okta", "g1", "Forschung ß", created_at=3.5)
    made: dict[str, AccessRecord | None] = {each.name: each for each in (revoked, user, group)}
    nothing: dict[str, AccessRecord | None] = dict.fromkeys(made)
    async with opened() as one, opened() as other, aclosing(other.changes()) as heard:
        await next_of(heard)
        written = await one.write(PutAccess(made, nothing), entry("session"))
        await next_of(heard)

        assert Snapshot(1, access={each.name: each for each in (revoked, user, group)}) == written == await other.load()
    async with opened() as later:
        assert written == await later.load()
        with pytest.raises(Conflict):
            await later.write(PutAccess(nothing, nothing), entry("stale"))
        await later.write(PutAccess(nothing, made), entry("gone"))
        assert Snapshot(2) == await later.load()


async def test_weights_of_routes_are_kept_and_heard_of(opened: Open) -> None:
    weights = RouteWeights("modèle/1", {"a": 90.0, "b": 10.5}, {"a": 1.0, "b": 0.0}, changed_at=5.0)
    async with opened() as one, opened() as other, aclosing(other.changes()) as heard:
        await next_of(heard)
        written = await one.write(PutRoute(weights), entry("chat"))
        await next_of(heard)

        assert Snapshot(1, routes={"modèle/1": weights}) == written == await other.load()
    async with opened() as later:
        assert written == await later.load()
        await later.write(DeleteRoute("modèle/1"), entry("gone"))
        with pytest.raises(UnknownEntity):
            await later.write(DeleteRoute("modèle/1"), entry("again"))

        assert Snapshot(2) == await later.load()
        assert ["gone", "chat"] == await logged(later)


async def test_added_workers_are_kept_and_heard_of(opened: Open) -> None:
    worker = AddedWorker("modèle 1", "http://10.0.0.7:8000", "w7", created_at=5.0)
    async with opened() as one, opened() as other, aclosing(other.changes()) as heard:
        await next_of(heard)
        written = await one.write(PutWorker(worker), entry("w7"))
        await next_of(heard)

        assert Snapshot(1, workers={"w7 modèle 1": worker}) == written == await other.load()
        with pytest.raises(Conflict):
            await other.write(PutWorker(worker), entry("again"))
        await other.load()
    async with opened() as later:
        assert written == await later.load()
        await later.write(DeleteWorker("modèle 1", "w7"), entry("gone"))
        with pytest.raises(UnknownEntity):
            await later.write(DeleteWorker("modèle 1", "w7"), entry("again"))

        assert Snapshot(2) == await later.load()
        assert ["gone", "w7"] == await logged(later)


async def test_a_note_in_the_log_is_no_change(opened: Open) -> None:
    async with opened() as store, aclosing(store.changes()) as heard:
        await store.initialize(None)
        await next_of(heard)
        waiting = asyncio.ensure_future(anext(heard))
        await store.note(entry("worker-1"))

        assert ["worker-1"] == await logged(store)
        assert 0 == (await store.load()).revision
        assert not waiting.done()
        await put(store, BLUE)
        async with asyncio.timeout(PATIENCE_S):
            await waiting


async def test_the_pepper_is_made_once(opened: Open) -> None:
    async with opened() as one, opened() as other:
        peppers = await asyncio.gather(*(store.initialize(None) for store in (one, other, one, other)))

    assert 1 == len(set(peppers))
    assert 32 == len(peppers[0])


async def test_a_store_that_was_never_initialized_is_refused(opened: Open) -> None:
    """It looks like one that lost everything, and nothing is made in it."""
    async with opened() as store:
        for _ in range(2):
            with pytest.raises(StoreUnfit, match="warmgate store init") as refused:
                await store.identify(None)

        assert ("uninitialized", None) == (refused.value.state, store.identity)


async def test_the_identity_is_written_once(opened: Open) -> None:
    async with opened() as one, opened() as other:
        pepper = await one.initialize(None)
        assert pepper == await other.initialize(None) == await other.identify(None)
        assert one.identity is not None
        assert one.identity == other.identity
        assert fingerprint(pepper) == one.identity.fingerprint


async def test_a_given_pepper_is_known_by_its_fingerprint(opened: Open) -> None:
    """It is not kept. Without it, and with another one, the store is refused: keys would be made that no one knows."""
    async with opened() as store:
        assert b"given" == await store.initialize(b"given")
        for given, state in ((None, "pepper_missing"), (b"another", "pepper_differs")):
            for question in (store.identify, store.initialize):
                with pytest.raises(StoreUnfit) as refused:
                    await question(given)
                assert state == refused.value.state
                assert b"another" not in str(refused.value).encode()
        assert b"given" == await store.identify(b"given")


async def test_keys_without_any_pepper_are_not_given_a_new_one(opened: Open) -> None:
    async with opened() as store:
        await put(store, BLUE, CI)
        with pytest.raises(StoreUnfit) as refused:
            await store.initialize(None)
        assert "pepper_missing" == refused.value.state
        assert b"given" == await store.initialize(b"given")


async def test_a_pepper_beside_the_one_that_the_store_keeps_is_refused(opened: Open) -> None:
    async with opened() as store:
        kept = await store.initialize(None)
        with pytest.raises(StoreUnfit) as refused:
            await store.identify(b"given")
        assert "pepper_differs" == refused.value.state
        assert kept == await store.identify(kept)


async def test_everything_stays_when_its_gateways_end(opened: Open) -> None:
    async with opened() as store:
        pepper = await store.initialize(None)
        before = await put(store, BLUE, CI)
    async with opened() as store:
        assert before == await store.load()
        assert pepper == await store.identify(None)
        assert ["put", "put"] == await logged(store)


async def test_the_log_is_read_newest_first_page_by_page(opened: Open) -> None:
    async with opened() as store:
        await store.initialize(None)
        for n in range(7):
            await store.note(entry(f"e{n}"))

        expected = [f"e{n}" for n in reversed(range(7))]
        assert [expected] * 4 == [await logged(store, most=most) for most in (1, 2, 7, 100)]


async def test_a_walk_through_the_log_sees_each_entry_once_while_others_come(opened: Open) -> None:
    async with opened() as store:
        await store.initialize(None)
        for n in range(6):
            await store.note(entry(f"e{n}"))
        first = await store.audit(most=2)
        seen = [each.id for each in first.items]
        cursor = first.next
        while cursor is not None:
            await store.note(entry("late"))
            page = await store.audit(cursor, most=2)
            seen += [each.id for each in page.items]
            cursor = page.next

    assert ["e5", "e4", "e3", "e2", "e1", "e0"] == seen


@pytest.mark.parametrize("cursor", ["", "x", "!", "W10", "Wy0xXQ", "WzEsMSwxXQ", "WzFlNDAsMWU0MF0", "WzFlNDBd"])
async def test_a_cursor_of_nowhere_is_refused(opened: Open, cursor: str) -> None:
    """Anyone who asks may have written it: it is their mistake, not the store's."""
    async with opened() as store:
        await store.initialize(None)
        await store.note(entry("e"))
        with pytest.raises(InvalidField, match="cursor"):
            await store.audit(cursor)


async def test_whatever_is_done_the_store_is_as_the_changes_say(opened: Open) -> None:
    """Random changes by two objects, beside the pure function that says what each of them comes to."""
    rng = random.Random(5)
    expected = Snapshot(0)
    async with opened() as one, opened() as other:
        for step in range(150):
            change = _random_change(rng, expected)
            store = rng.choice((one, other))
            try:
                outcome = change_result(change, expected)
            except GatewayError as fault:
                with pytest.raises(type(fault)):
                    await store.write(change, entry(str(step)))
            else:
                expected = outcome.snapshot
                assert expected == await store.write(change, entry(str(step)))
            assert expected == await rng.choice((one, other)).load()

        assert expected.revision == len(await logged(one))
        assert 60 < expected.revision < 140


def _random_change(rng: random.Random, now: Snapshot) -> Change:
    name, id_ = rng.choice("abc"), rng.choice("uvwxyz")
    team, key = now.teams.get(name), now.keys.get(id_)
    worker = AddedWorker(name, f"http://{rng.choice('hij')}:1", id_)
    if rng.random() < 0.1:
        team, key = None, None
    made = Revocation("okta", "subject", name, rng.uniform(1, 9), 9.0)
    match rng.randrange(13):
        case 0 | 1 | 2:
            return PutTeam(Team(name, weight=rng.uniform(1, 9)), team)
        case 3 | 4 | 5:
            return PutKey(Key(id_, key.team if key else name, rng.randbytes(4).hex()), key)
        case 6:
            return DeleteKey(id_)
        case 7 | 8:
            return PutWorker(worker)
        case 9 | 10 | 11:
            weights = RouteWeights(name, {"m": rng.uniform(1, 9)}, {"m": 1.0})
            access = PutAccess({made.name: rng.choice((made, None))}, rng.choice(({}, {made.name: None})))
            return rng.choice((DeleteWorker(name, id_), PutRoute(weights), DeleteRoute(name), access))
        case _:
            return DeleteTeam(name, with_keys=rng.random() < 0.5)
