"""Incremental parser for an HTTP/1.1 response (status, headers and body) with size limits.

httptools calls the `on_...` methods, which only record data. The connection decides once per packet what to do.
"""

from dataclasses import dataclass

import httptools

from gateway.protocol.headers import Headers, end_to_end, ends_with_connection, is_plainly_framed


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Limits on the memory that one response of a worker can use."""

    max_headers: int = 128
    """Maximum number of header fields in a response. Apache and Python's http.client allow 100."""
    max_head_bytes: int = 65_536
    """Maximum size in bytes of all header fields, and of all framing without body data (chunk extensions, trailers,
    1xx).
    """
    high_water_bytes: int = 65_536
    """Size of unread body data in bytes above which no more data is received from the socket. It equals asyncio's
    default for writing. One more receive of at most 256 KiB can follow.
    """


class ResponseParser:
    """Parser for the consecutive responses of one connection."""

    __slots__ = (
        "_is_head_request",
        "_is_interim",
        "_limits",
        "_parser",
        "_received",
        "has_head",
        "headers",
        "is_complete",
        "keep_alive",
        "on_body",
        "pieces",
        "status",
        "unread_bytes",
    )

    def __init__(self, limits: ResponseLimits) -> None:
        self._limits = limits
        self.pieces: list[bytes] = []
        """Body data that was received but not yet read."""
        self.on_body = self.pieces.append  # the parser calls list.append itself: no frame of ours per piece
        self._parser = httptools.HttpResponseParser(self)
        self.expect(is_head_request=False)

    def expect(self, *, is_head_request: bool) -> None:
        """Reset the parser for the response to the next request."""
        self._is_head_request = is_head_request
        self.status = 0
        self.headers: Headers = []
        self.has_head = False
        self.is_complete = False
        self.keep_alive = False
        """Whether both sides will keep the connection open after the response."""
        self.unread_bytes = 0
        self._received: Headers = []
        self._is_interim = False

    def feed(self, data: bytes) -> str | None:
        """Parse the response data *data*. Return the reason why the response is unacceptable, or None.

        Data after a complete response is not an error of that response, but ends the connection.
        """
        self.unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self.keep_alive = False
            if self.is_complete:
                return None
            where = "in the response body" if self.has_head else "in the response head"
            reason = (
                exc.__context__ if isinstance(exc.__context__, _HeadTooLarge | _UnknownCoding) else "invalid HTTP/1.1"
            )
            return f"{reason} {where}"
        if not self.pieces and not self.is_complete and self.unread_bytes > self._limits.max_head_bytes:
            return "too many bytes in headers or framing"
        return None

    def must_pause(self) -> bool:
        """Return whether so much body data is unread that receiving must pause."""
        return self.unread_bytes > self._limits.high_water_bytes and bool(self.pieces) and not self.is_complete

    def take_body(self) -> bytes:
        """Return the body data that was received since the last call."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.unread_bytes = 0
        return data

    def close(self) -> bool:
        """Record that the worker closed the connection. Return whether this completes the response."""
        if self.has_head and ends_with_connection(self._received):
            self.is_complete = True
        return self.is_complete

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise _SecondAnswer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._received.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        received = self._received
        self._is_interim = status < 200
        if len(received) > self._limits.max_headers:
            raise _HeadTooLarge("the worker sent too many header fields")
        if not is_plainly_framed(received):
            raise _UnknownCoding("the worker used an unsupported transfer coding (only chunked is allowed)")
        # A head cannot be longer than all that came with it, so most need no counting.
        if self.unread_bytes > self._limits.max_head_bytes and _size(received) > self._limits.max_head_bytes:
            raise _HeadTooLarge("the worker sent too many header bytes")
        if self._is_interim:
            received.clear()
            return
        self.status = status
        self.headers = end_to_end(received)
        self.has_head = True
        if self._is_head_request:
            self.is_complete = True  # and not kept alive: the parser cannot know that no body follows

    def on_message_complete(self) -> None:
        if not self._is_interim and not self.is_complete:
            self.is_complete = True
            self.keep_alive = self._parser.should_keep_alive()  # at the end: a trailer may say close


class _SecondAnswer(Exception):  # stops the parser; never leaves this module
    """The data after the end of the expected response looks like another response."""


class _UnknownCoding(Exception):  # as above
    """The response uses a transfer coding that the gateway did not request and cannot pass on."""


class _HeadTooLarge(Exception):  # as above
    """The header fields exceed the size limits."""


def _size(headers: Headers) -> int:
    return sum(len(name) + len(value) for name, value in headers)
