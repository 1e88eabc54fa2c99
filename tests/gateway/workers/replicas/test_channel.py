"""Exchanges over a real Redis: what one reports the others hear, and no one waits for a store that is away."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.storage.redis_link import redis_link
from gateway.workers.replicas.bus import Bus, ReplicaKey
from gateway.workers.replicas.channel import ReplicaChannel
from gateway.workers.replicas.outbox import BookingOutbox
from gateway.workers.replicas.peers import Peers
from gateway.workers.replicas.redis_bus import RedisBus
from gateway.workers.replicas.shared_key import SharedKey
from gateway.workers.replicas.wire import Beat, encoded
from routing.fleet import Fleet
from tests.gateway.workers.replicas.test_outbox import watched
from tests.routing.examples import ANSWERED, A, B, a_request, book
from tests.storage import PATIENCE_S, RedisServer, RedisServers, free_port

BEAT_S, DEAD_AFTER_S = 0.1, 1.0


@dataclass
class Replica:
    """One gateway, as far as replicas see it."""

    fleet: Fleet
    outbox: BookingOutbox
    peers: Peers
    exchange: ReplicaChannel
    keys: list[bytes]
    changed: list[str]
    task: "asyncio.Task[None]" = field(repr=False)

    def in_flight(self) -> int:
        return sum(worker.in_flight for worker in self.fleet)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def until_it_hears(self, others: int) -> None:
        await until(lambda: len(self.peers) == others)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def replica(
    url: str, name: bytes, *, group: str = "default", key: bytes | None = None, timeout_s: float = PATIENCE_S
) -> AsyncIterator[Replica]:
    link = redis_link(url, timeout_s=timeout_s)
    bus = RedisBus(link, group)
    async with replica_on(bus, SharedKey(link, group, own=key or name * 32), name) as made:
        yield made


@asynccontextmanager
async def replica_on(bus: Bus, key: ReplicaKey, name: bytes) -> AsyncIterator[Replica]:
    outbox = BookingOutbox()
    fleet = watched(outbox)
    peers = Peers({"tiny": fleet}.get, dead_after_s=DEAD_AFTER_S)
    keys: list[bytes] = []
    changed: list[str] = []

    def on_change(models: Iterable[str]) -> None:
        changed.extend(models)

    exchange = ReplicaChannel(
        bus,
        sender=name * 16,
        key=key,
        outbox=outbox,
        peers=peers,
        clock=time.monotonic,
        on_key=keys.append,
        on_change=on_change,
        beat_s=BEAT_S,
        dead_after_s=DEAD_AFTER_S,
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(exchange.run())
        looking = tasks.create_task(bus.run())
        made = Replica(fleet, outbox, peers, exchange, keys, changed, task)
        yield made
        await made.stop()
        looking.cancel()
    await bus.aclose()


@pytest.mark.redis
async def test_what_one_books_the_others_see(redis_server: RedisServer) -> None:
    """Among three; and its end. Anyone who waits there for a worker is notified."""
    async with (
        replica(redis_server.url, b"1") as one,
        replica(redis_server.url, b"2") as two,
        replica(redis_server.url, b"3") as three,
    ):
        for each in (one, two, three):
            await each.until_it_hears(2)
        now = time.monotonic()
        bookings = [book(one.fleet, a_request("abc"), now, A), book(two.fleet, a_request("xyz"), now, B)]
        for each in (one, two, three):
            await until(lambda each=each: each.in_flight() == 2)  # type: ignore[misc]
        one.fleet.bookings.first_byte(bookings[0], now + 0.1)
        await until(lambda: three.fleet.worker(A).load(now).decodes == 1)
        one.fleet.bookings.release(bookings[0], ANSWERED, now + 0.2)
        two.fleet.bookings.release(bookings[1], ANSWERED, now + 0.2)
        for each in (one, two, three):
            await until(lambda each=each: each.in_flight() == 0)  # type: ignore[misc]

        assert {"tiny"} == set(three.changed)
        assert 0 == one.outbox.dropped + one.peers.gaps
        assert one.exchange.sent > 0 < one.exchange.heard


@pytest.mark.redis
async def test_a_newcomer_sees_the_load_that_there_is(redis_server: RedisServer) -> None:
    """Bookings from before anybody listened."""
    async with replica(redis_server.url, b"1") as one:
        now = time.monotonic()
        bookings = [book(one.fleet, a_request("abc"), now, A) for _ in range(3)]
        one.fleet.bookings.first_byte(bookings[0], now)
        await until(lambda: one.exchange.is_connected)
        async with replica(redis_server.url, b"2") as two:
            await until(lambda: two.in_flight() == 3)

            assert 1 == two.fleet.worker(A).load(now).decodes
            assert 3 == next(c.hit_blocks for c in two.fleet.candidates(a_request("abc"), now) if c.worker == A)


@pytest.mark.redis
async def test_one_that_stops_says_farewell(redis_server: RedisServer) -> None:
    """No one waits for it to be dead."""
    async with replica(redis_server.url, b"1") as one, replica(redis_server.url, b"2") as two:
        await one.until_it_hears(1)
        await two.until_it_hears(1)
        book(one.fleet, a_request(), time.monotonic(), A)
        await until(lambda: two.in_flight() == 1)
        one.task.cancel()
        await asyncio.wait([one.task])
        async with asyncio.timeout(DEAD_AFTER_S / 2):
            while two.in_flight():
                await asyncio.sleep(0.005)

        assert 0 == len(two.peers)


@pytest.mark.redis
async def test_all_come_to_one_key(redis_server: RedisServer) -> None:
    """A replica with another one is notified once, before it hears any other."""
    async with replica(redis_server.url, b"1") as one, replica(redis_server.url, b"2") as two:
        await one.until_it_hears(1)

        assert 1 == len(one.keys + two.keys)
        assert (one.keys + two.keys)[0] in {b"1" * 32, b"2" * 32}


@pytest.mark.redis
async def test_groups_do_not_hear_each_other(redis_server: RedisServer) -> None:
    """Each is alone, and hears itself."""
    async with (
        replica(redis_server.url, b"1", group="blue") as one,
        replica(redis_server.url, b"2", group="red") as two,
    ):
        for each in (one, two):
            await until(lambda each=each: each.exchange.lag_s is not None)  # type: ignore[misc]

        assert (0, 0) == (len(one.peers), len(two.peers))
        assert 0.0 < (one.exchange.lag_s or 0.0) < PATIENCE_S


@pytest.mark.redis
async def test_what_cannot_be_read_is_counted(redis_server: RedisServer) -> None:
    """A replica of another version, and noise: neither is a peer."""
    async with replica(redis_server.url, b"1") as one:
        await until(lambda: one.exchange.is_connected)
        with redis_server.client() as client:
            client.publish("warmgate:replicas:default", b"\2" + encoded(b"9" * 16, Beat(1))[1:])
            client.publish("warmgate:replicas:default", encoded(b"9" * 16, Beat(1)) + b"more")
        await until(lambda: one.exchange.unreadable == 2)

        assert 0 == len(one.peers)


@pytest.mark.redis
async def test_without_redis_each_is_alone_until_it_is_back(redis_servers: RedisServers) -> None:
    """What was booked meanwhile is seen then. It was empty when it came back, and the key is as it was."""
    redis = redis_servers.started()
    async with replica(redis.url, b"1") as one, replica(redis.url, b"2") as two:
        await one.until_it_hears(1)
        await two.until_it_hears(1)
        keys = one.keys + two.keys
        redis.kill()
        await until(lambda: len(one.peers) + len(two.peers) == 0)

        assert (False, None) == (one.exchange.is_connected, one.exchange.lag_s)

        booking = book(one.fleet, a_request("abc"), time.monotonic(), A)
        redis.start()
        await until(lambda: two.in_flight() == 1)
        one.fleet.bookings.release(booking, ANSWERED, time.monotonic())
        await until(lambda: two.in_flight() == 0)

        assert keys == one.keys + two.keys


@pytest.mark.redis
async def test_one_that_stops_while_redis_dies_stops(redis_servers: RedisServers) -> None:
    """The loss of the connection and the cancellation arrive in the same turn of the loop."""
    redis_server = redis_servers.started()
    async with replica(redis_server.url, b"1") as only:
        await until(lambda: only.exchange.is_connected)
        redis_server.kill()
        only.task.cancel()
        ended, _ = await asyncio.wait([only.task], timeout=PATIENCE_S)

    assert {only.task} == ended


@pytest.mark.redis
async def test_a_redis_that_hangs_is_one_that_is_away(redis_servers: RedisServers) -> None:
    """Connections stay open, and nothing comes: peers die of it, and live again when it goes on."""
    redis = redis_servers.started()
    async with replica(redis.url, b"1", timeout_s=0.3) as one, replica(redis.url, b"2", timeout_s=0.3) as two:
        await one.until_it_hears(1)
        await two.until_it_hears(1)
        redis.freeze()
        await until(lambda: len(one.peers) + len(two.peers) == 0)
        redis.thaw()
        await one.until_it_hears(1)
        await two.until_it_hears(1)


@pytest.mark.redis
async def test_a_gateway_starts_without_redis(redis_servers: RedisServers, caplog: pytest.LogCaptureFixture) -> None:
    """`agree` says so, the log says it once, and the exchange begins when it is there."""
    redis = redis_servers.make()
    async with replica(redis.url, b"1") as one:
        assert not await one.exchange.agree()

        await until(lambda: len(caplog.records) > 0)
        await asyncio.sleep(0.3)  # for some more attempts
        assert 1 == len([record for record in caplog.records if "cannot be received" in record.getMessage()])

        redis.start()
        await until(lambda: one.exchange.is_connected)

        assert await one.exchange.agree()


@pytest.mark.redis
async def test_a_cluster_passes_it_on_as_well(redis_servers: RedisServers) -> None:
    """Channels are known to all of its nodes."""
    port = free_port()
    redis = redis_servers.make(port=port)
    redis.start_cluster()
    url = f"redis://127.0.0.1:{port}?cluster=true"
    async with replica(url, b"1") as one, replica(url, b"2") as two:
        await one.until_it_hears(1)
        await two.until_it_hears(1)
        book(one.fleet, a_request("abc"), time.monotonic(), A)
        await until(lambda: two.in_flight() == 1)
