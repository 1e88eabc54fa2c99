"""Bedrock's answers as replies: one that is there whole, one read from the event stream as it comes."""

import contextlib

import httpx

from gateway.backends.backend import Headers
from gateway.backends.bedrock.aws import FrameParser
from gateway.backends.bedrock.endpoint import deadline, translated_errors
from gateway.backends.bedrock.errors import Fault
from gateway.backends.bedrock.frame import read_frame
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.errors import UpstreamTimeout


class WholeReply:
    """A status, headers and a body at hand: a completion, or an error."""

    def __init__(self, *, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = [*headers, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._body = body

    @property
    def ended(self) -> bool:
        return not self._body

    async def read(self) -> bytes:
        body, self._body = self._body, b""
        return body

    async def aclose(self) -> None:
        """Nothing is held."""


class ChunkSource:
    """The answer to ConverseStream, one piece of server-sent events after the other."""

    def __init__(self, response: httpx.Response, *, writer: ChunkWriter, metadata_s: float) -> None:
        """*metadata_s* bounds the wait for the usage, which Bedrock does not always send."""
        self._response = response
        self._bytes = response.aiter_raw()
        self._frames = FrameParser()
        self._writer = writer
        self._metadata_s = metadata_s
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    async def next(self, *, idle_s: float | None) -> bytes | Fault:
        """The next piece, or what Bedrock broke off with; ``b""`` after the last. *idle_s* bounds each network read.

        Raises:
            ReplyBroken: the stream was cut, or damaged.
            UpstreamTimeout: ``idle``.
        """
        while not self._ended:
            frame = self._frames.next()
            if frame is not None:
                read = read_frame(frame)
                piece = read if isinstance(read, Fault) else self._writer.write(read)
                if piece:
                    return piece
            elif data := await self._receive(idle_s):
                self._frames.feed(data)
            else:
                last = self._writer.end(leftover=self._frames.leftover)
                self._ended = True
                return last
        return b""

    async def _receive(self, idle_s: float | None) -> bytes:
        """Bytes from the network; ``b""`` at their end, and when only the usage is missing and does not come."""
        awaits_usage = self._writer.has_stopped and not self._frames.leftover
        try:
            async with deadline(self._metadata_s if awaits_usage else idle_s, phase="idle"):
                with translated_errors():
                    return await anext(self._bytes, b"")
        except UpstreamTimeout:
            if awaits_usage:
                return b""
            raise

    async def aclose(self) -> None:
        """Give the connection back, or cut it if the answer is not over: Bedrock then stops generating."""
        with contextlib.suppress(httpx.HTTPError, OSError, RuntimeError):
            await self._response.aclose()


class StreamReply:
    """A stream whose first piece is at hand."""

    status = 200

    def __init__(self, *, headers: Headers, first: bytes, rest: ChunkSource, idle_s: float) -> None:
        self.headers = [
            *headers,
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-cache"),
        ]
        self._first = first
        self._rest = rest
        self._idle_s = idle_s

    @property
    def ended(self) -> bool:
        return self._rest.ended and not self._first

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        piece = await self._rest.next(idle_s=self._idle_s)
        if isinstance(piece, Fault):
            raise piece.to_error()
        return piece

    async def aclose(self) -> None:
        await self._rest.aclose()
