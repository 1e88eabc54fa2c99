import asyncio

from benchmarks.picker.callers import waits
from benchmarks.stub_worker import serve, write_script


async def test_callers_wait_for_the_first_byte() -> None:
    """Two callers with one connection each, who send requests until the time has passed."""
    server = await serve(write_script("tiny"))
    async with server:
        host, port = server.sockets[0].getsockname()
        found = await waits(f"{host}:{port}", [b'{"model":"tiny"}'], 2, seconds=0.2)

    assert 0 == found.failed
    assert found.first_byte_s
    assert all(0 < each < 60 for each in found.first_byte_s)


async def test_answers_in_chunks_are_whole_with_the_last_chunk() -> None:
    """A refusal is a failure, and its caller does not go on."""
    answers = [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
    ]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in answers:
            await reader.readuntil(b"{}")
            writer.write(each)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        found = await waits(f"{host}:{port}", [b"{}"], 1, seconds=0.2)

    assert (1, 1) == (len(found.first_byte_s), found.failed)
