"""Exchanges between the processes of one gateway, over the hub of their supervisor."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.app.processes.message_hub import MessageHub
from gateway.protocol.errors import StoreUnavailable
from gateway.workers.replicas.hub_bus import FixedKey, HubBus
from tests.gateway.workers.replicas.test_channel import Replica, replica_on, until
from tests.routing.examples import ANSWERED, A, B, a_request, book

KEY = b"k" * 32


@pytest.fixture
async def hub() -> AsyncIterator[MessageHub]:
    made = MessageHub()
    yield made
    made.close()


@asynccontextmanager
async def process(hub: MessageHub, name: bytes) -> AsyncIterator[Replica]:
    async with replica_on(HubBus(await hub.connect()), FixedKey(KEY), name) as made:
        yield made


async def test_what_one_process_books_the_others_see(hub: MessageHub) -> None:
    """Its end, too. None of them gets another key."""
    async with process(hub, b"1") as one, process(hub, b"2") as two, process(hub, b"3") as three:
        for each in (one, two, three):
            await each.until_it_hears(2)
        now = time.monotonic()
        bookings = [book(one.fleet, a_request("abc"), now, A), book(two.fleet, a_request("xyz"), now, B)]
        for each in (one, two, three):
            await until(lambda each=each: each.in_flight() == 2)  # type: ignore[misc]
        one.fleet.bookings.release(bookings[0], ANSWERED, now + 0.2)
        two.fleet.bookings.release(bookings[1], ANSWERED, now + 0.2)
        for each in (one, two, three):
            await until(lambda each=each: each.in_flight() == 0)  # type: ignore[misc]

        assert [] == one.keys + two.keys + three.keys
        assert 0 == one.outbox.dropped + one.peers.gaps


async def test_a_process_that_starts_later_sees_the_load_that_there_is(hub: MessageHub) -> None:
    async with process(hub, b"1") as one:
        for _ in range(3):
            book(one.fleet, a_request("abc"), time.monotonic(), A)
        await until(lambda: one.exchange.is_connected)
        async with process(hub, b"2") as two:
            await until(lambda: two.in_flight() == 3)


async def test_a_process_without_its_supervisor_is_alone(hub: MessageHub) -> None:
    """Its requests go on, and it says so in its metrics."""
    async with process(hub, b"1") as one, process(hub, b"2") as two:
        await one.until_it_hears(1)
        hub.close()
        await until(lambda: len(one.peers) + len(two.peers) == 0)

        assert (False, None) == (one.exchange.is_connected, one.exchange.lag_s)


async def test_a_bus_is_used_after_it_has_subscribed(hub: MessageHub) -> None:
    bus = HubBus(await hub.connect())
    with pytest.raises(StoreUnavailable, match="The supervisor of the processes has ended"):
        await bus.publish(b"early")
    frames = await bus.subscribe()
    assert frames is await bus.subscribe()
    await bus.publish(b"one")

    assert b"one" == await frames.next(1.0)
    await frames.aclose()
    await bus.aclose()


async def test_a_lost_hub_stays_lost(hub: MessageHub) -> None:
    bus = HubBus(await hub.connect())
    frames = await bus.subscribe()
    hub.close()
    with pytest.raises(StoreUnavailable):
        await frames.next(1.0)
    for act in (bus.subscribe, lambda: bus.publish(b"late")):
        with pytest.raises(StoreUnavailable):
            await act()
    await bus.aclose()


async def test_a_supervisor_that_hangs_costs_bounded_memory() -> None:
    """Frames beyond 32 MiB are lost. The others then find a gap, and ask for a snapshot."""
    ours, theirs = socket.socketpair()
    bus = HubBus(ours)
    await bus.subscribe()
    frame = bytes(4 * 2**20)
    for _ in range(20):
        await bus.publish(frame)
    await bus.aclose()
    theirs.setblocking(False)
    received = 0
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(theirs, 2**20):
        received += len(data)
    theirs.close()

    assert 32 * 2**20 <= received <= 40 * 2**20


async def test_a_bus_that_was_never_used_closes_its_socket() -> None:
    ours, theirs = socket.socketpair()
    await HubBus(ours).aclose()

    assert b"" == theirs.recv(1)
    theirs.close()


async def test_the_key_of_processes_never_changes() -> None:
    key = FixedKey(KEY)

    assert not await key.agree()
    assert KEY == key.value
