"""Bedrock's answers as replies: one that is there whole, one read from the network as it comes."""

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
    """A status, headers and a body at hand: a completion, an error, or a stream that was made of a whole answer."""

    def __init__(self, *, status: int, headers: Headers, body: bytes, streams: bool = False) -> None:
        """*streams*: the body is server-sent events, not JSON."""
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
        """Do nothing: the reply never waits."""

    def interrupt(self, error: UpstreamError) -> None:
        self._interruption = error

    async def aclose(self) -> None:
        """Drop the interruption, whose traceback keeps frames alive."""
        self._interruption = None


class ChunkSource:
    """A streamed answer, one piece of server-sent events after the other."""

    def __init__(self, response: httpx.Response, translator: Translator, *, metadata_s: float) -> None:
        """*metadata_s* bounds the wait for the usage, which Bedrock does not always send."""
        self._response = response
        self._bytes = response.aiter_raw()
        self._translator = translator
        self._metadata_s = metadata_s
        self._idle_s: float | None = None
        self._usage_until: float | None = None
        """Deadline on the loop's clock."""
        self._pause: asyncio.Timeout | None = None
        """The wait under way."""
        self._interruption: UpstreamError | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def expect_within(self, idle_s: float) -> None:
        """Bound each wait for the network, also the one under way, counted from this moment. At first none is bound."""
        self._idle_s = idle_s
        if self._usage_until is None:
            self._end_pause_in(idle_s)

    def interrupt(self, error: UpstreamError) -> None:
        """Let the `next` under way, or else the next one, raise *error*."""
        self._interruption = error
        self._end_pause_in(0)

    async def next(self) -> bytes | BedrockFault:
        """The next piece, or what Bedrock broke off with; ``b""`` after the last.

        Raises:
            ReplyBroken: the stream was cut, or damaged.
            UpstreamTimeout: ``idle``.
            UpstreamError: the one of `interrupt`.
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
        """Bytes from the network; ``b""`` at their end, and when only the usage is missing and does not come."""
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
        """Return the connection to the pool, or close it if the answer is incomplete: Bedrock then stops generating."""
        self._interruption = None
        with contextlib.suppress(httpx.HTTPError, OSError, RuntimeError):
            await self._response.aclose()


class StreamReply:
    """A stream whose first piece is at hand."""

    status = 200

    def __init__(self, *, headers: Headers, first: bytes, rest: ChunkSource, idle_s: float) -> None:
        """*idle_s* bounds each wait for the network."""
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
        """Timeout, never longer than the backend's own."""
        self._rest.expect_within(min(idle_s, self._longest_idle_s))

    def interrupt(self, error: UpstreamError) -> None:
        self._interruption = error
        self._rest.interrupt(error)

    async def aclose(self) -> None:
        self._interruption = None
        await self._rest.aclose()
