"""Lending and keeping connections, over real sockets and a clock in the test's hand."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.backends.upstream.connection import UpstreamConnection
from gateway.backends.upstream.engine_progress import EngineProgress
from gateway.backends.upstream.origin import Origin
from gateway.backends.upstream.pool import ConnectionPool
from gateway.protocol.errors import ConnectFailed, UpstreamTimeout
from tests.gateway.backends.upstream.peer import Peer, Request, Wire, free_port, serving


async def answers(_: Request, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def pool_of(
    peer: Peer,
    clock: Clock | None = None,
    *,
    max_connections: int | None = None,
    max_idle: int = 8,
    engine: EngineProgress | None = None,
) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(
        "w1",
        Origin.from_url(peer.url),
        connect_s=5.0,
        max_connections=max_connections,
        max_idle=max_idle,
        reuse_within_s=4.0,
        engine=engine,
        clock=clock or Clock(),
    )
    try:
        yield pool
    finally:
        pool.close()


async def exchange(connection: UpstreamConnection) -> None:
    connection.begin(
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
        streams=False,
        is_head_request=False,
        first_byte_deadline=math.inf,
        total_deadline=math.inf,
        idle_s=math.inf,
    )
    await connection.first_byte()
    while not connection.response.is_complete:
        await connection.wait_for_body(0.0)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def counts(pool: ConnectionPool) -> tuple[int, int, int]:
    return pool.connections_open, pool.connections_idle, pool.calls_waiting


async def test_the_most_recently_used_connection_is_lent_first() -> None:
    """Last in, first out: what is not needed ages."""
    async with serving(answers) as peer, pool_of(peer) as pool:
        first, second = await pool.open(deadline=math.inf), await pool.open(deadline=math.inf)
        for connection in (first, second):
            await exchange(connection)
            pool.give_back(connection)

        assert (2, 2, 0) == counts(pool)
        assert [second, first, None] == [pool.take_idle(0.0), pool.take_idle(0.0), pool.take_idle(0.0)]


async def test_a_connection_that_was_idle_for_too_long_is_not_lent() -> None:
    """The worker may be about to close it, so it is closed first."""
    async with serving(answers) as peer, pool_of(peer) as pool:
        connection = await pool.open(deadline=math.inf)
        await exchange(connection)
        pool.give_back(connection)

        assert pool.take_idle(4.0) is None
        assert (0, 0, 0) == counts(pool)


async def test_the_sweep_closes_what_is_idle_for_too_long() -> None:
    """Without calls the connections still go, those in use stay."""
    clock = Clock()
    async with serving(answers) as peer, pool_of(peer, clock) as pool:
        idle, busy = await pool.open(deadline=math.inf), await pool.open(deadline=math.inf)
        await exchange(idle)
        pool.give_back(idle)
        pool.sweep(3.9)
        assert (2, 1, 0) == counts(pool)

        pool.sweep(4.0)
        assert (1, 0, 0) == counts(pool)
        assert busy.is_open()


async def test_more_than_max_idle_are_closed() -> None:
    """A burst does not leave its connections behind."""
    async with serving(answers) as peer, pool_of(peer, max_idle=1) as pool:
        connections = [await pool.open(deadline=math.inf) for _ in range(3)]
        for connection in connections:
            await exchange(connection)
            pool.give_back(connection)

        assert (1, 1, 0) == counts(pool)


async def test_a_connection_given_back_before_its_end_is_cut() -> None:
    """The worker sees the caller go, and the count is right at once."""
    async with serving(lambda _, wire: wire.until_caller_left()) as peer, pool_of(peer) as pool:
        connection = await pool.open(deadline=math.inf)
        connection.begin(
            b"GET / HTTP/1.1\r\n\r\n",
            b"",
            streams=False,
            is_head_request=False,
            first_byte_deadline=math.inf,
            total_deadline=math.inf,
            idle_s=math.inf,
        )
        pool.give_back(connection)
        pool.give_back(connection)

        assert (0, 0, 0) == counts(pool)
        async with asyncio.timeout(60):
            await peer.left.wait()


async def test_an_idle_connection_that_the_worker_closes_is_forgotten() -> None:
    """It is neither counted nor lent."""

    async def answers_and_closes(request: Request, wire: Wire) -> None:
        await answers(request, wire)
        await is_kept.wait()
        wire.writer.close()

    is_kept = asyncio.Event()
    async with serving(answers_and_closes) as peer, pool_of(peer) as pool:
        connection = await pool.open(deadline=math.inf)
        await exchange(connection)
        pool.give_back(connection)
        assert (1, 1, 0) == counts(pool)
        is_kept.set()
        async with asyncio.timeout(60):
            while counts(pool) != (0, 0, 0):
                await asyncio.sleep(0.002)

        assert pool.take_idle(0.0) is None


async def test_calls_over_the_limit_wait_in_order() -> None:
    """A connection that becomes free goes to a caller that has waited longest, never to a newcomer."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        connection = await pool.open(deadline=math.inf)
        order: list[str] = []

        async def call(name: str) -> None:
            lent = await pool.open(deadline=math.inf)
            order.append(name)
            await exchange(lent)
            pool.give_back(lent)

        async with asyncio.TaskGroup() as group:
            group.create_task(call("first"))
            group.create_task(call("second"))
            await turns()
            assert (1, 0, 2) == counts(pool)
            await exchange(connection)
            pool.give_back(connection)
            group.create_task(call("newcomer"))

        assert ["first", "second", "newcomer"] == order
        assert (1, 1, 0) == counts(pool)
        assert 1 == peer.connections


async def test_a_cut_connection_gives_its_slot_to_the_next() -> None:
    """A caller that waits opens a connection of his own when one is lost."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        connection = await pool.open(deadline=math.inf)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(pool.open(deadline=math.inf))
            await turns()
            pool.discard(connection)

        assert waiting.result() is not connection
        assert (1, 0, 0) == counts(pool)
        assert 2 == peer.connections


@pytest.mark.parametrize("is_handed_over", [False, True])
async def test_a_waiter_that_is_cancelled_leaves_nothing_behind(*, is_handed_over: bool) -> None:
    """Also when the connection was handed over in the same moment: the next one gets it."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        connection = await pool.open(deadline=math.inf)
        await exchange(connection)
        async with asyncio.TaskGroup() as group:
            cancelled = group.create_task(pool.open(deadline=math.inf))
            patient = group.create_task(pool.open(deadline=math.inf))
            await turns()
            if is_handed_over:
                pool.give_back(connection)
                cancelled.cancel()
            else:
                cancelled.cancel()
                await turns()
                assert (1, 0, 1) == counts(pool)
                pool.give_back(connection)

        assert cancelled.cancelled()
        assert connection is patient.result()
        assert (1, 0, 0) == counts(pool)


async def test_a_slot_handed_to_a_cancelled_waiter_goes_on() -> None:
    """A slot is never lost between two waiters."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        connection = await pool.open(deadline=math.inf)
        cancelled = asyncio.get_running_loop().create_task(pool.open(deadline=math.inf))
        await turns()
        pool.discard(connection)
        cancelled.cancel()
        await asyncio.wait([cancelled])

        assert (0, 0, 0) == counts(pool)
        pool.give_back(await pool.open(deadline=0.0))


async def test_waiting_for_a_slot_has_a_deadline() -> None:
    """It counts as waiting for the first byte."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        await pool.open(deadline=math.inf)
        with pytest.raises(UpstreamTimeout, match="worker w1: all 1 connections are busy") as timeout:
            await pool.open(deadline=0.02)

        assert "first_byte" == timeout.value.phase
        assert (1, 0, 0) == counts(pool)


async def test_an_idle_connection_makes_room_for_a_fresh_one() -> None:
    """A caller that needs a fresh connection at the limit gets the slot of the oldest idle one."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        idle = await pool.open(deadline=math.inf)
        await exchange(idle)
        pool.give_back(idle)
        fresh = await pool.open(deadline=math.inf)

        assert fresh is not idle
        assert (1, 0, 0) == counts(pool)


async def test_a_failed_connect_gives_its_slot_back() -> None:
    """A worker that refuses does not eat up its own limit."""
    pool = ConnectionPool("w1", Origin.from_url(f"http://127.0.0.1:{free_port()}"), connect_s=5.0, max_connections=1)
    for _ in range(3):
        with pytest.raises(ConnectFailed, match="worker w1: connection failed \\(ConnectionRefusedError\\)"):
            await pool.open(deadline=math.inf)

    assert (0, 0, 0) == counts(pool)


async def test_closing_the_pool_ends_all_calls() -> None:
    """A caller that waits is reported, and nothing can be opened any more."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        connection = await pool.open(deadline=math.inf)
        waiting = asyncio.get_running_loop().create_task(pool.open(deadline=math.inf))
        await turns()
        pool.close()

        with pytest.raises(ConnectFailed, match="closed"):
            await waiting
        with pytest.raises(ConnectFailed, match="closed"):
            await pool.open(deadline=math.inf)
        assert not connection.is_open()
        assert (0, 0, 0) == counts(pool)


async def test_a_retired_pool_keeps_no_connection() -> None:
    """What is idle is closed at once, what is lent goes on and is closed when it is given back."""
    async with serving(answers) as peer, pool_of(peer) as pool:
        idle, lent = await pool.open(deadline=math.inf), await pool.open(deadline=math.inf)
        await exchange(idle)
        pool.give_back(idle)
        pool.retire()

        assert (1, 0, 0) == counts(pool)

        await exchange(lent)
        pool.give_back(lent)

        assert (0, 0, 0) == counts(pool)


async def test_a_retired_pool_still_serves_its_waiters() -> None:
    """They came before it was retired; a request that has it on its list may come even after."""
    async with serving(answers) as peer, pool_of(peer, max_connections=1) as pool:
        first = await pool.open(deadline=math.inf)
        waiting = asyncio.get_running_loop().create_task(pool.open(deadline=math.inf))
        await turns()
        pool.retire()
        await exchange(first)
        pool.give_back(first)
        second = await waiting
        await exchange(second)
        pool.give_back(second)
        third = await pool.open(deadline=math.inf)
        pool.discard(third)

        assert (0, 0, 0) == counts(pool)


async def test_a_sweep_compares_the_streams_of_a_worker() -> None:
    """One that is silent is cut while another goes on; as long as both are silent neither is."""
    clock, go_on = Clock(), asyncio.Event()

    async def streams(_: Request, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await go_on.wait()

    async with serving(streams) as peer, pool_of(peer, clock) as pool:
        silent, lively = [await pool.open(deadline=math.inf) for _ in range(2)]
        for connection in (silent, lively):
            connection.begin(
                b"GET / HTTP/1.1\r\n\r\n",
                b"",
                streams=True,
                is_head_request=False,
                first_byte_deadline=math.inf,
                total_deadline=math.inf,
                idle_s=300.0,
            )
            await connection.first_byte()
            connection.take_body()
            connection.expect_within(1.0)
        waits = [asyncio.ensure_future(each.wait_for_body(0.0)) for each in (silent, lively)]
        await asyncio.sleep(0)
        for tenth in range(0, 30, 2):  # as often as the timer does
            clock.now = tenth / 10
            pool.sweep(clock.now)
        assert [None, None] == [silent.failure, lively.failure]

        for tenth in range(30, 60, 2):
            lively.data_received(b"1\r\nb\r\n")
            clock.now = tenth / 10
            pool.sweep(clock.now)
        go_on.set()
        await asyncio.gather(*waits, return_exceptions=True)

        assert isinstance(silent.failure, UpstreamTimeout)
        assert lively.failure is None


async def test_a_sweep_has_the_engine_of_a_silent_stream_read() -> None:
    clock, asked, go_on = Clock(), [0], asyncio.Event()

    async def streams(_: Request, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await go_on.wait()

    def read() -> None:
        """Three tokens more each time, ten times."""
        asked[0] += 1
        engine.note(3.0 * min(asked[0], 10), asked_at=clock.now, read_at=clock.now)

    engine = EngineProgress(read)
    engine.note(0.0, asked_at=-1.0, read_at=-1.0)
    async with serving(streams) as peer, pool_of(peer, clock, engine=engine) as pool:
        connection = await pool.open(deadline=math.inf)
        connection.begin(
            b"GET / HTTP/1.1\r\n\r\n",
            b"",
            streams=True,
            is_head_request=False,
            first_byte_deadline=math.inf,
            total_deadline=math.inf,
            idle_s=300.0,
        )
        await connection.first_byte()
        connection.take_body()
        connection.expect_within(1.25)
        waiting = asyncio.ensure_future(connection.wait_for_body(0.0))
        await asyncio.sleep(0)
        cut_at = None
        for quarter in range(20):
            clock.now = quarter / 4
            pool.sweep(clock.now)
            if connection.failure is not None:
                cut_at = clock.now
                break
        go_on.set()
        await asyncio.gather(waiting, return_exceptions=True)

    assert 3.75 == cut_at
    assert 15 == asked[0]
