import asyncio

from benchmarks.trace_sink import take


async def test_everything_is_taken_one_after_the_other() -> None:
    """On one connection, until it ends."""
    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for body in (b"", b"spans", b"more spans"):
            writer.write(b"POST /v1/traces HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            assert head.startswith(b"HTTP/1.1 200 ")
        writer.write(b"POST /v1/traces HTTP/1.1\r\nContent-Le")
        writer.close()
        await writer.wait_closed()
