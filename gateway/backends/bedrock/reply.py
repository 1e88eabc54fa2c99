"""Bedrock's responses as replies, either complete or read from the network as they arrive."""

import asyncio
import contextlib

import httpx

from gateway.backends.bedrock.endpoint import deadline, translated_errors
from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.wire import Translator
from gateway.protocol.errors import UpstreamError, UpstreamTimeout
from gateway.protocol.headers import Headers

EVENT_HEADERS: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


class WholeReply:
    """Complete response: a completion, an error, or a stream that was generated from a complete answer."""

    def __init__(self, *, status: int, headers: Headers, body: bytes, streams: bool = False) -> None:
        """Create a reply. *streams* marks *body* as server-sent events instead of JSON."""
        self.status = status
        own = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self.headers = [*headers, *(EVENT_HEADERS if streams else own)]
        self._body = body
        self._interruption: UpstreamError | None = None

    @property
    def ended(self) -> bool:
        return not self._body

    async def read(self) -> bytes:
        if self._interruption is not None and self._body:
            raise self._interruption
        body, self._body = self._body, b""
        return body

    def expect_within(self, idle_s: float) -> None:
        """Do nothing, because a complete reply never waits for data."""

    def interrupt(self, error: UpstreamError) -> None:
        self._interruption = error

    async def aclose(self) -> None:
        """Release the pending error, because the error's traceback keeps stack frames in memory."""
        self._interruption = None


class ChunkSource:
    """Reader of a streamed Bedrock response, which returns pieces of server-sent events."""

    def __init__(self, response: httpx.Response, translator: Translator, *, metadata_s: float) -> None:
        """Read *response* through *translator*. *metadata_s* limits the wait for the usage in seconds, as Bedrock does
        not always send it.
        """
        self._response = response
        self._bytes = response.aiter_raw()
        self._translator = translator
        self._metadata_s = metadata_s
        self._idle_s: float | None = None
        self._usage_until: float | None = None
        """Deadline for the usage, in seconds on the event loop's clock."""
        self._pause: asyncio.Timeout | None = None
        """Timeout of the read that is waiting for network data, or None if no read is waiting."""
        self._interruption: UpstreamError | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def expect_within(self, idle_s: float) -> None:
        """Limit waits for network data to *idle_s* seconds, including a current wait from this moment. Initially, there
        is no limit.
        """
        self._idle_s = idle_s
        if self._usage_until is None:
            self._end_pause_in(idle_s)

    def interrupt(self, error: UpstreamError) -> None:
        """Make the current call of `next` raise *error*, or the next call if none is waiting."""
        self._interruption = error
        self._end_pause_in(0)

    async def next(self) -> bytes | BedrockFault:
        """Return the next piece of the stream, an error from Bedrock, or ``b""`` after the last piece.

        Raises:
            ReplyBroken: if the stream is truncated or corrupt.
            UpstreamTimeout: with phase ``idle``, if no data arrives in time.
            UpstreamError: the error passed to `interrupt`.
        """
        while not self._ended:
            if self._interruption is not None:
                raise self._interruption
            piece = b"" if self._translator.is_over else self._translator.next()
            if piece:
                return piece
            if piece is None and (data := await self._receive()):
                self._translator.feed(data)
            elif piece is None or self._translator.is_over:
                last = self._translator.end()
                self._ended = True
                return last
        return b""

    async def _receive(self) -> bytes:
        """Return network data, or ``b""`` at the end of the data or if only the usage is missing and does not arrive in
        time.
        """
        limit_s = self._idle_s
        if self._translator.awaits_usage:
            now = asyncio.get_running_loop().time()
            if self._usage_until is None:
                self._usage_until = now + self._metadata_s
            limit_s = max(self._usage_until - now, 0.0)
        try:
            async with deadline(limit_s, phase="idle") as self._pause:
                with translated_errors():
                    return await anext(self._bytes, b"")
        except UpstreamError as error:
            if self._interruption is not None:
                raise self._interruption from None
            if isinstance(error, UpstreamTimeout) and self._translator.awaits_usage:
                return b""
            raise
        finally:
            self._pause = None

    def _end_pause_in(self, wait_s: float) -> None:
        if self._pause is not None and not self._pause.expired():
            self._pause.reschedule(asyncio.get_running_loop().time() + wait_s)

    async def aclose(self) -> None:
        """Close the response. If it is incomplete, its connection is closed, so that Bedrock stops generating."""
        self._interruption = None
        with contextlib.suppress(httpx.HTTPError, OSError, RuntimeError):
            await self._response.aclose()


class StreamReply:
    """Streamed reply whose first piece has already been received."""

    status = 200

    def __init__(self, *, headers: Headers, first: bytes, rest: ChunkSource, idle_s: float) -> None:
        """Create a reply from its first piece *first* and the remaining pieces *rest*. *idle_s* is the longest wait for
        network data in seconds.
        """
        self.headers = [*headers, *EVENT_HEADERS]
        self._first = first
        self._rest = rest
        self._longest_idle_s = idle_s
        self._interruption: UpstreamError | None = None
        rest.expect_within(idle_s)

    @property
    def ended(self) -> bool:
        return self._rest.ended and not self._first

    async def read(self) -> bytes:
        if self._interruption is not None and not self.ended:
            raise self._interruption
        if self._first:
            first, self._first = self._first, b""
            return first
        piece = await self._rest.next()
        if isinstance(piece, BedrockFault):
            raise piece.to_error()
        return piece

    def expect_within(self, idle_s: float) -> None:
        """Set the longest wait for data, but not above the limit configured for the backend."""
        self._rest.expect_within(min(idle_s, self._longest_idle_s))

    def interrupt(self, error: UpstreamError) -> None:
        self._interruption = error
        self._rest.interrupt(error)

    async def aclose(self) -> None:
        self._interruption = None
        await self._rest.aclose()
