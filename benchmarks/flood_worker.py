"""Stub worker that streams as fast as its client reads, and reports how many bytes it sent.

A stream repeats one event of the stub worker, each in a separate HTTP chunk, until it has the requested size. Other
requests get the stub worker's answers, except ``GET /sent``, which returns the bytes that the kernel accepted for every
stream so far, in the order of their start.
"""

import argparse
import asyncio
import json
from contextlib import suppress

import uvloop

from benchmarks.stub_worker import CONTENT_LENGTH, INCLUDE_USAGE, STREAM, Script, write_script

PIECE_BYTES = 65_536  # about what is written at once


class Flood:
    """State that the connections of the worker share."""

    def __init__(self, script: Script, *, stream_bytes: int) -> None:
        self._script = script
        event = script.events[1]
        self._events_per_piece = PIECE_BYTES // len(event)
        self._piece = event * self._events_per_piece
        self._pieces = max(1, stream_bytes // len(self._piece))
        self.sent: list[int] = []

    @property
    def events(self) -> int:
        """Number of events in one stream, before usage and ``[DONE]``."""
        return self._pieces * self._events_per_piece

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one keep-alive connection until it ends."""
        writer.transport.set_write_buffer_limits(high=0)  # a drain ends when the kernel has everything
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = CONTENT_LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                if STREAM.search(body):
                    await self._stream(writer, self._tail(body))
                else:
                    writer.write(self._page(head))
                    await writer.drain()
        writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, tail: bytes) -> None:
        place = len(self.sent)
        self.sent.append(0)
        writer.write(self._script.stream_head)
        for piece in (*[self._piece] * self._pieces, tail):
            writer.write(piece)
            await writer.drain()
            self.sent[place] += len(piece)

    def _tail(self, body: bytes) -> bytes:
        return self._script.usage + self._script.done if INCLUDE_USAGE.search(body) else self._script.done

    def _page(self, head: bytes) -> bytes:
        method, path = head.split(b" ", 2)[:2]
        if method == b"POST":
            return self._script.chat
        if path == b"/sent":
            sent = json.dumps(self.sent).encode()
            return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent) + sent
        return self._script.pages.get(path, self._script.not_found)


async def _serve_for_ever(arguments: argparse.Namespace) -> None:
    flood = Flood(write_script(arguments.model), stream_bytes=arguments.stream_bytes)
    server = await asyncio.start_server(flood.serve, "127.0.0.1", arguments.port)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"ready: http://{host}:{port}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flood_worker", description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 (the default) is any free one; the ready line names it")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--stream-bytes", type=int, default=64 * 2**20, help="about the size of a stream")
    uvloop.run(_serve_for_ever(parser.parse_args()))


if __name__ == "__main__":
    main()
