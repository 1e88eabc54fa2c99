import msgspec
import pytest
from msgspec import structs

from gateway.storage.redis_link import redis_link
from gateway.tenancy.ledger.redis_usage import LUA, TEAMS, RedisUsage
from gateway.tenancy.ledger.usage_store import NEW_USERS_PER_DAY, Period, RecordQuery
from tests.gateway.tenancy.ledger.examples import a_record, an_entry, redis_ledger
from tests.storage import RedisServer, RedisServers, free_port


def test_the_script_has_the_limit_of_new_users() -> None:
    assert f"local NEW_USERS_PER_DAY = {NEW_USERS_PER_DAY}\n" in LUA


@pytest.mark.redis
async def test_all_keys_of_a_team_share_its_hash_tag(redis_server: RedisServer) -> None:
    """One script writes them all, so a cluster must have them in one slot, except the list of teams."""
    async with redis_ledger(redis_server) as ledger:
        await ledger.book([an_entry(user="ann")])

    with redis_server.client() as client:
        keys = set(client.keys())

    assert {
        TEAMS,
        *(b"warmgate:{blue}:ledger:" + kind for kind in (b"records", b"sums", b"users")),
        b"warmgate:{blue}:ledger:records:2026-11-21",
        b"warmgate:{blue}:ledger:sums:2026-11-21",
        b"warmgate:{blue}:ledger:users:2026-11",
    } == keys


@pytest.mark.redis
async def test_days_are_forgotten_in_a_cluster_too(redis_servers: RedisServers) -> None:
    """Its pipelines have methods that ask at once, and have to be awaited: those are not used."""
    server = redis_servers.make(port=free_port())
    server.start_cluster()
    link = redis_link(f"{server.tcp_url}?cluster=true", timeout_s=30.0)
    with server.client() as client:
        client.sadd(TEAMS, "blue")
        client.zadd("warmgate:{blue}:ledger:records", {"2026-11-20": 0, "2026-11-21": 0})
        for day in ("2026-11-20", "2026-11-21"):
            client.xadd(f"warmgate:{{blue}}:ledger:records:{day}", {"r": "[]"})
        await RedisUsage(link).forget(records_before="2026-11-21", sums_before="2026-11-01")
        await link.aclose()

        assert {b"warmgate:{blue}:ledger:records", b"warmgate:{blue}:ledger:records:2026-11-21"} == set(
            client.keys("warmgate:{blue}:*")
        )
        assert [b"2026-11-21"] == client.zrange("warmgate:{blue}:ledger:records", 0, -1)


@pytest.mark.redis
async def test_a_record_of_a_later_version_is_read_as_far_as_it_is_known(redis_server: RedisServer) -> None:
    """While replicas are replaced one by one."""
    later = [*structs.astuple(a_record()), "what that may be"]
    async with redis_ledger(redis_server) as ledger:
        await ledger.book([an_entry()])
        with redis_server.client() as client:
            client.xadd("warmgate:{blue}:ledger:records:2026-11-21", {"r": msgspec.json.encode(later)})
        page = await ledger.usage.records(RecordQuery(period=Period.month("2026-11")))

    assert [a_record(), a_record()] == page.items


@pytest.mark.redis
async def test_forgetting_leaves_only_the_team(redis_server: RedisServer) -> None:
    async with redis_ledger(redis_server) as ledger:
        await ledger.book([an_entry(user="ann"), an_entry("2026-10-01", user="bob")])

        assert not await ledger.usage.forget(records_before="2026-12-01", sums_before="2026-12-01")

    with redis_server.client() as client:
        assert [TEAMS] == client.keys()


@pytest.mark.redis
async def test_a_day_of_many_records_is_read_in_pieces(redis_server: RedisServer) -> None:
    """More than Redis is asked for at once, of two teams, each record once and in order."""
    async with redis_ledger(redis_server) as ledger:
        await ledger.book([an_entry(team=team, request_id=f"{number}") for number in range(450) for team in ("a", "b")])
        page = await ledger.usage.records(RecordQuery(period=Period.month("2026-11")), most=10_000)

    assert page.next is None
    assert [str(number) for number in reversed(range(450)) for _ in "ab"] == [one.request_id for one in page.items]


@pytest.mark.redis
async def test_many_records_take_little_room(redis_server: RedisServer) -> None:
    """Some 250 bytes each: the page on what Redis needs says so."""
    async with redis_ledger(redis_server) as ledger:
        await ledger.book([an_entry(request_id=f"{number:032x}") for number in range(2000)])

    with redis_server.client() as client:
        used = client.memory_usage("warmgate:{blue}:ledger:records:2026-11-21", samples=0)

    assert used is not None
    assert used / 2000 < 300
