import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import RedisLink, redis_link
from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.ledger.audit import AuditEntry
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.redis_teams import AUDIT as AUDIT_LOG
from gateway.tenancy.teams.redis_teams import IDENTITY, KEYS, PEPPER, REVISION, TEAMS, WRITE, RedisTeamStore
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import PutKey, PutTeam, Snapshot
from tests.storage import RedisServer, RedisServers, free_port

pytestmark = pytest.mark.redis

AUDIT = AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="create", kind="team", id="blue")
PATIENCE_S = 30.0

BLUE, CI = Team("blue"), Key("ci", "blue", "d" * 64)


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    yield link
    await link.aclose()


async def test_everything_lies_in_one_slot_and_never_expires(link: RedisLink, redis_server: RedisServer) -> None:
    """Scripts need this in a cluster."""
    store = RedisTeamStore(link)
    await store.initialize(None)
    await store.write(PutTeam(BLUE), AUDIT)
    await store.write(PutKey(CI), AUDIT)
    with redis_server.client() as client:
        names = sorted(client.keys("*"))
        ends = {client.ttl(name) for name in names}

    prefix = b"warmgate:{directory}:"
    assert [prefix + name for name in (b"audit", b"identity", b"keys", b"pepper", b"revision", b"teams")] == names
    assert {-1} == ends


async def test_a_change_whose_message_was_lost_is_seen(link: RedisLink, redis_server: RedisServer) -> None:
    """The revision shows it, for example after the listener lost its connection."""
    store = RedisTeamStore(link, poll_s=0.02)
    async with aclosing(store.changes()) as changes, asyncio.timeout(60):
        await anext(changes)
        with redis_server.client() as client:
            client.hset(TEAMS, "blue", '{"name":"blue"}')
            client.set(REVISION, "1-other")
        await anext(changes)

    assert Snapshot(1, {"blue": BLUE}, {}) == await store.load()


async def test_a_message_is_not_waited_for_in_vain(link: RedisLink, redis_server: RedisServer) -> None:
    """A message wakes the listener, which would otherwise look once an hour."""
    store, other = RedisTeamStore(link, poll_s=3600.0), redis_link(redis_server.url, timeout_s=PATIENCE_S)
    async with aclosing(store.changes()) as changes, asyncio.timeout(60):
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.05)
        await RedisTeamStore(other).write(PutTeam(BLUE), AUDIT)
        await waiting
    await other.aclose()


async def test_a_redis_that_lost_its_last_changes_is_believed(link: RedisLink, redis_server: RedisServer) -> None:
    """It uses the numbers of the lost changes again, so a number alone would not show the difference."""
    reader, other = RedisTeamStore(link), redis_link(redis_server.url, timeout_s=PATIENCE_S)
    writer = RedisTeamStore(other)
    await writer.write(PutTeam(BLUE), AUDIT)
    with redis_server.client() as client:
        revision = client.get(REVISION)
        assert isinstance(revision, bytes)
        await writer.write(PutKey(CI), AUDIT)
        assert {"ci"} == set((await reader.load()).keys)
        client.hdel(KEYS, "ci")
        client.set(REVISION, revision)
    await writer.write(PutKey(Key("dev", "blue", "e" * 64)), AUDIT)

    assert (2, {"dev"}) == ((await reader.load()).revision, set((await reader.load()).keys))
    await other.aclose()


async def test_a_redis_that_was_emptied_is_empty(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link)
    await store.write(PutTeam(BLUE), AUDIT)
    with redis_server.client() as client:
        client.flushall()

    assert Snapshot(0, {}, {}) == await store.load()


async def test_a_redis_that_lost_its_data_is_noticed_and_not_filled_again(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """A gateway that knows its identity neither reads it nor writes to it until the data is back."""
    store = RedisTeamStore(link)
    await store.initialize(None)
    written = await store.write(PutTeam(BLUE), AUDIT)
    with redis_server.client() as client:
        before = {name: client.dump(name) for name in client.keys("*")}
        client.flushall()
        for question in (store.load, lambda: store.write(PutKey(CI), AUDIT), lambda: store.note(AUDIT)):
            with pytest.raises(StoreUnfit, match="lost its data") as refused:
                await question()
            assert "lost" == refused.value.state
        assert [] == client.keys("*")
        for name, value in before.items():
            client.restore(name, 0, value)

    assert written == await store.load()


async def test_a_redis_without_an_identity_gets_no_entries(link: RedisLink, redis_server: RedisServer) -> None:
    """A gateway that starts does not use it either, and logs that."""
    with pytest.raises(StoreUnfit, match="not initialized"):
        await RedisTeamStore(link).note(AUDIT)
    with redis_server.client() as client:
        assert [] == client.keys("*")


async def test_a_change_of_a_moment_before_its_data_is_lost_writes_nothing(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """The script that writes checks the identity: the revision of an empty store may be the expected one."""
    store = RedisTeamStore(link)
    await store.initialize(None)
    with redis_server.client() as client:
        client.delete(IDENTITY)
        arguments = (b"0", b"1-x", b"{}", 1, "channel", store._expected, b"2", b"blue", b"{}")
        keys = (REVISION, TEAMS, KEYS, AUDIT_LOG, IDENTITY)
        outcome = client.eval(WRITE, len(keys), *keys, *arguments)

        assert (0, 0) == (outcome, client.exists(TEAMS))


async def test_a_store_that_was_initialized_again_is_another_one(link: RedisLink, redis_server: RedisServer) -> None:
    """Its pepper is new, so its keys would be refused here."""
    store = RedisTeamStore(link)
    await store.initialize(None)
    with redis_server.client() as client:
        client.flushall()
    await RedisTeamStore(link).initialize(None)

    with pytest.raises(StoreUnfit, match="The store was replaced after this gateway started") as refused:
        await store.load()
    assert "replaced" == refused.value.state


async def test_a_store_from_before_identities_keeps_its_pepper(link: RedisLink, redis_server: RedisServer) -> None:
    """After `warmgate store init` all its keys are valid as before."""
    store = RedisTeamStore(link)
    await store.write(PutTeam(BLUE), AUDIT)
    with redis_server.client() as client:
        client.set(PEPPER, b"p" * 32)

    assert b"p" * 32 == await store.initialize(None)
    assert {"blue": BLUE} == (await store.load()).teams


async def test_a_store_of_a_later_version_is_refused(link: RedisLink, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.set(IDENTITY, '{"id":"x","fingerprint":"y","schema":2,"more":[]}')
    for question in (RedisTeamStore(link).identify, RedisTeamStore(link).initialize):
        with pytest.raises(StoreUnfit, match="has schema 2, but this Warmgate supports only 1: use a later version"):
            await question(None)


async def test_a_loss_is_seen_where_no_team_was_ever_made(link: RedisLink, redis_server: RedisServer) -> None:
    """There is no revision before and after, but the identity shows it."""
    store = RedisTeamStore(link, poll_s=0.02)
    await store.initialize(None)
    async with aclosing(store.changes()) as changes, asyncio.timeout(60):
        await anext(changes)
        with redis_server.client() as client:
            client.flushall()
        await anext(changes)
    with pytest.raises(StoreUnfit):
        await store.load()


async def test_an_unavailable_redis_fails_all_calls(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link)
    redis_server.kill()

    for question in (store.load, lambda: store.identify(None), store.audit, lambda: store.note(AUDIT)):
        with pytest.raises(StoreUnavailable):
            await question()
    with pytest.raises(StoreUnavailable):
        await store.write(PutTeam(BLUE), AUDIT)
    async with aclosing(store.changes()) as changes:
        with pytest.raises(StoreUnavailable):
            await anext(changes)


async def test_a_listener_fails_when_redis_is_unavailable(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link, poll_s=0.02)
    async with aclosing(store.changes()) as changes, asyncio.timeout(60):
        await anext(changes)
        redis_server.kill()
        with pytest.raises(StoreUnavailable):
            await anext(changes)


async def test_listeners_leave_no_connection_behind(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link)
    for _ in range(5):
        async with aclosing(store.changes()) as changes:
            await anext(changes)
    with redis_server.client() as client:
        async with asyncio.timeout(60):
            while client.pubsub_channels():
                await asyncio.sleep(0.005)


async def test_it_works_in_a_cluster(redis_servers: RedisServers) -> None:
    """Scripts, the log, and messages."""
    server = redis_servers.make(port=free_port())
    server.start_cluster()
    links = [redis_link(f"{server.tcp_url}?cluster=true", timeout_s=PATIENCE_S) for _ in range(2)]
    writer, reader = (RedisTeamStore(link) for link in links)
    assert await writer.initialize(None) == await reader.identify(None)
    async with aclosing(reader.changes()) as changes, asyncio.timeout(60):
        for change in (PutTeam(BLUE), PutKey(CI)):
            await anext(changes)
            written = await writer.write(change, AUDIT)
        await anext(changes)
        assert Snapshot(2, {"blue": BLUE}, {"ci": CI}) == written == await reader.load()
    assert [AUDIT, AUDIT] == list((await reader.audit()).items)
    for link in links:
        await link.aclose()
