"""One HTTP/1.1 response as bytes arrive: status, headers, body and end, within limits.

httptools calls the methods `on_...`. They only record what came; the connection decides once per packet what to do.
"""

from dataclasses import dataclass

import httptools

from gateway.protocol.headers import Headers, end_to_end, ends_with_connection, is_plainly_framed


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Memory that one response of a worker may hold."""

    max_headers: int = 128
    """Header fields of one response; Apache and Python's http.client allow 100."""
    max_head_bytes: int = 65_536
    """Names and values of all header fields; also framing (chunk extensions, trailers, 1xx) without any body."""
    high_water_bytes: int = 65_536
    """Unread body above this stops reading from the socket until the reader has taken it (asyncio's own default for
    writing). One receive, at most 256 KiB, can come on top."""


class ResponseParser:
    """The response that a connection receives at present; made once for each connection."""

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
        """Body that the reader has not taken yet."""
        self.on_body = self.pieces.append  # the parser calls list.append itself: no frame of ours per piece
        self._parser = httptools.HttpResponseParser(self)
        self.expect(is_head_request=False)

    def expect(self, *, is_head_request: bool) -> None:
        """Prepare for the response to the next request."""
        self._is_head_request = is_head_request
        self.status = 0
        self.headers: Headers = []
        self.has_head = False
        self.is_complete = False
        self.keep_alive = False
        """Whether both sides want to use the connection again."""
        self.unread_bytes = 0
        self._received: Headers = []
        self._is_interim = False

    def feed(self, data: bytes) -> str | None:
        """Parse *data*; return why the response is not acceptable, or None.

        What follows a complete response is not its fault: it only ends the connection.
        """
        self.unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self.keep_alive = False
            if self.is_complete:
                return None
            where = "in the body" if self.has_head else "in status and headers"
            reason = exc.__context__ if isinstance(exc.__context__, _HeadTooLarge | _UnknownCoding) else "not HTTP/1.1"
            return f"{reason} {where}"
        if not self.pieces and not self.is_complete and self.unread_bytes > self._limits.max_head_bytes:
            return "too many bytes of headers or framing"
        return None

    def must_pause(self) -> bool:
        """Return whether so much body waits for its reader that no more should be received."""
        return self.unread_bytes > self._limits.high_water_bytes and bool(self.pieces) and not self.is_complete

    def take_body(self) -> bytes:
        """Return the body received since the last call."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.unread_bytes = 0
        return data

    def close(self) -> bool:
        """Note that the peer closed the connection; return whether that is a proper end of the response."""
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
            raise _HeadTooLarge("too many header fields")
        if not is_plainly_framed(received):
            raise _UnknownCoding("a transfer coding other than chunked")
        # A head cannot be longer than all that came with it, so most need no counting.
        if self.unread_bytes > self._limits.max_head_bytes and _size(received) > self._limits.max_head_bytes:
            raise _HeadTooLarge("too many bytes")
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
    """Bytes of another response follow the one that was asked for."""


class _UnknownCoding(Exception):  # as above
    """The body is in a transfer coding that was not asked for and that no field downstream would name."""


class _HeadTooLarge(Exception):  # as above
    """The header fields are more than the limits allow."""


def _size(headers: Headers) -> int:
    return sum(len(name) + len(value) for name, value in headers)
