import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from gateway.errors import StoreAway
from gateway.ledger.audit import AuditEntry
from gateway.storage.redis_link import RedisLink, redis_link
from gateway.teams.key import Key
from gateway.teams.redis_teams import KEYS, REVISION, TEAMS, RedisTeamStore
from gateway.teams.team import Team
from gateway.teams.team_store import PutKey, PutTeam, Snapshot
from tests.storage import RedisServer, RedisServers, free_port

pytestmark = pytest.mark.redis

AUDIT = AuditEntry(time="2026-11-21T00:00:00.000Z", who="ops", role="owner", action="create", kind="team", id="blue")
PATIENCE_S = 10.0

BLUE, CI = Team("blue"), Key("ci", "blue", "d" * 64)


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    yield link
    await link.aclose()


async def test_everything_lies_in_one_slot_and_never_expires(link: RedisLink, redis_server: RedisServer) -> None:
    """Which is what scripts need in a cluster."""
    store = RedisTeamStore(link)
    await store.write(PutTeam(BLUE), AUDIT)
    await store.write(PutKey(CI), AUDIT)
    await store.pepper()
    with redis_server.client() as client:
        names = sorted(client.keys("*"))
        ends = {client.ttl(name) for name in names}

    prefix = b"warmgate:{directory}:"
    assert [prefix + name for name in (b"audit", b"keys", b"pepper", b"revision", b"teams")] == names
    assert {-1} == ends


async def test_a_change_whose_message_was_lost_is_seen(link: RedisLink, redis_server: RedisServer) -> None:
    """As when the connection of the listener was away for a moment: the revision tells."""
    store = RedisTeamStore(link, poll_s=0.02)
    async with aclosing(store.changes()) as changes, asyncio.timeout(10):
        await anext(changes)
        with redis_server.client() as client:
            client.hset(TEAMS, "blue", '{"name":"blue"}')
            client.set(REVISION, "1-other")
        await anext(changes)

    assert Snapshot(1, {"blue": BLUE}, {}) == await store.load()


async def test_a_message_is_not_waited_for_in_vain(link: RedisLink, redis_server: RedisServer) -> None:
    """A listener hears of a change by its message: this one would look once an hour."""
    store, other = RedisTeamStore(link, poll_s=3600.0), redis_link(redis_server.url, timeout_s=PATIENCE_S)
    async with aclosing(store.changes()) as changes, asyncio.timeout(10):
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.05)
        await RedisTeamStore(other).write(PutTeam(BLUE), AUDIT)
        await waiting
    await other.aclose()


async def test_a_redis_that_lost_its_last_changes_is_believed(link: RedisLink, redis_server: RedisServer) -> None:
    """It counts the next ones as it counted those: a number alone would say that nothing has changed."""
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


async def test_a_redis_that_is_away_is_away_for_all_questions(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link)
    redis_server.kill()

    for question in (store.load, store.pepper, store.audit, lambda: store.note(AUDIT)):
        with pytest.raises(StoreAway):
            await question()
    with pytest.raises(StoreAway):
        await store.write(PutTeam(BLUE), AUDIT)
    async with aclosing(store.changes()) as changes:
        with pytest.raises(StoreAway):
            await anext(changes)


async def test_a_listener_is_told_that_redis_is_away(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link, poll_s=0.02)
    async with aclosing(store.changes()) as changes, asyncio.timeout(10):
        await anext(changes)
        redis_server.kill()
        with pytest.raises(StoreAway):
            await anext(changes)


async def test_listeners_leave_no_connection_behind(link: RedisLink, redis_server: RedisServer) -> None:
    store = RedisTeamStore(link)
    for _ in range(5):
        async with aclosing(store.changes()) as changes:
            await anext(changes)
    with redis_server.client() as client:
        async with asyncio.timeout(10):
            while client.pubsub_channels():
                await asyncio.sleep(0.005)


async def test_it_works_in_a_cluster(redis_servers: RedisServers) -> None:
    """Scripts, the log, and messages."""
    server = redis_servers.make(port=free_port())
    server.start_cluster()
    links = [redis_link(f"{server.tcp_url}?cluster=true", timeout_s=PATIENCE_S) for _ in range(2)]
    writer, reader = (RedisTeamStore(link) for link in links)
    assert await writer.pepper() == await reader.pepper()
    async with aclosing(reader.changes()) as changes, asyncio.timeout(10):
        for change in (PutTeam(BLUE), PutKey(CI)):
            await anext(changes)
            written = await writer.write(change, AUDIT)
        await anext(changes)
        assert Snapshot(2, {"blue": BLUE}, {"ci": CI}) == written == await reader.load()
    assert [AUDIT, AUDIT] == list((await reader.audit()).items)
    for link in links:
        await link.aclose()
