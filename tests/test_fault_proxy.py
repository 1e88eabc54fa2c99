"""The proxy itself, before a server that sends back what it gets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tests.fault_proxy import BOTH, FREE, Direction, FaultProxy, Passage, fault_proxy

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[FaultProxy], Awaitable[Connection]]
NEVER_S = 0.05  # for what must not come; a busy machine makes it no wronger
DATA = b"0123456789"


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, fault_proxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as between:
        yield between


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens connections, which are closed after the test."""
    opened: list[asyncio.StreamWriter] = []

    async def open_one(proxy: FaultProxy) -> Connection:
        place = urlsplit(proxy.url)
        connection = await asyncio.open_connection(place.hostname, place.port)
        opened.append(connection[1])
        return connection

    yield open_one
    for writer in opened:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def send(connection: Connection, data: bytes = DATA) -> None:
    connection[1].write(data)
    await connection[1].drain()


async def comes(connection: Connection, count: int = len(DATA)) -> bytes:
    return await asyncio.wait_for(connection[0].readexactly(count), 10)


async def nothing_comes(connection: Connection) -> bool:
    try:
        return not await asyncio.wait_for(connection[0].read(1), NEVER_S)
    except TimeoutError:
        return True


async def test_bytes_pass(proxy: FaultProxy, connect: Connect) -> None:
    """Both ways, and the end of the connection too."""
    connection = await connect(proxy)
    await send(connection)

    assert DATA == await comes(connection)
    assert (1, 1) == (proxy.accepted, proxy.open)
    connection[1].close()
    async with asyncio.timeout(10):
        while proxy.open:
            await asyncio.sleep(0.01)


async def test_a_connection_is_cut_at_a_byte(proxy: FaultProxy, connect: Connect) -> None:
    proxy.set(Passage(cut_after=4))
    for _ in range(2):
        connection = await connect(proxy)
        await send(connection)
        assert b"0123" == await asyncio.wait_for(connection[0].read(-1), 10)


async def test_bytes_are_counted_from_the_change(proxy: FaultProxy, connect: Connect) -> None:
    """Not from the beginning of the connection."""
    connection = await connect(proxy)
    await send(connection)
    assert DATA == await comes(connection)
    proxy.set(Passage(cut_after=3))
    await send(connection)

    assert b"012" == await asyncio.wait_for(connection[0].read(-1), 10)


async def test_a_connection_is_reset_at_a_byte(proxy: FaultProxy, connect: Connect) -> None:
    proxy.set(Passage(cut_after=4, with_reset=True))
    connection = await connect(proxy)
    await send(connection)

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(connection[0].readexactly(5), 10)


async def test_all_connections_are_reset(proxy: FaultProxy, connect: Connect) -> None:
    """The open ones at once, and the new ones as they come; afterwards all is well."""
    connection = await connect(proxy)
    await send(connection)
    assert DATA == await comes(connection)
    proxy.set(Passage(resets=True))
    with pytest.raises(ConnectionResetError):
        await comes(connection)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await comes(await connect(proxy))

    proxy.set(FREE)
    connection = await connect(proxy)
    await send(connection)
    assert DATA == await comes(connection)


async def test_no_one_listens(proxy: FaultProxy, connect: Connect) -> None:
    """Open connections end, new ones are refused, until it listens again at the same place."""
    url, connection = proxy.url, await connect(proxy)
    await send(connection)
    assert DATA == await comes(connection)
    await proxy.refuse()
    await proxy.refuse()
    assert b"" == await asyncio.wait_for(connection[0].read(-1), 10)
    with pytest.raises(ConnectionRefusedError):
        await connect(proxy)

    await proxy.listen()
    await proxy.listen()
    assert url == proxy.url
    connection = await connect(proxy)
    await send(connection)
    assert DATA == await comes(connection)


@pytest.mark.parametrize("held", [BOTH, frozenset(("up",)), frozenset(("down",))])
async def test_a_half_open_connection(proxy: FaultProxy, connect: Connect, held: frozenset[Direction]) -> None:
    """It is taken, and nothing passes until it may; nothing is lost."""
    proxy.set(Passage(held=held))
    connection = await connect(proxy)
    await send(connection)

    assert await nothing_comes(connection)
    proxy.set(FREE)
    assert DATA == await comes(connection)


async def test_a_held_connection_does_not_end(proxy: FaultProxy, connect: Connect) -> None:
    """Its end is not passed on either."""
    connection = await connect(proxy)
    await send(connection)
    assert DATA == await comes(connection)
    proxy.set(Passage(held=BOTH))
    connection[1].write_eof()

    assert await nothing_comes(connection)
    proxy.set(FREE)
    assert b"" == await asyncio.wait_for(connection[0].read(-1), 10)


@pytest.mark.e2e
async def test_a_slow_drip(proxy: FaultProxy, connect: Connect) -> None:
    """Each piece takes a delay each way: ten of one byte cannot come sooner than ten delays."""
    loop = asyncio.get_running_loop()
    proxy.set(Passage(delay_s=0.01, piece_bytes=1))
    connection = await connect(proxy)
    begun = loop.time()
    await send(connection)

    assert DATA == await comes(connection)
    assert 0.1 <= loop.time() - begun


async def test_a_change_ends_a_delay(proxy: FaultProxy, connect: Connect) -> None:
    """However long it would have been."""
    proxy.set(Passage(delay_s=3600))
    connection = await connect(proxy)
    await send(connection)
    assert await nothing_comes(connection)
    proxy.set(FREE)

    assert DATA == await comes(connection)


async def test_a_target_that_is_not_there(proxy: FaultProxy, connect: Connect) -> None:
    """A connection is taken and reset; a proxy cannot refuse what it has taken."""
    async with fault_proxy(proxy.url) as before:
        await proxy.refuse()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await comes(await connect(before))
