"""`python -m benchmarks.trace_sink`: receiver of traces that acknowledges all data and stores nothing."""

import asyncio
import re

_length = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)").search
_TAKEN = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"


async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read and answer all requests of one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = _length(head)
            await reader.readexactly(int(found[1]) if found else 0)
            writer.write(_TAKEN)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(take, "127.0.0.1", 0)
    print(f"ready: http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
