"""Headers in HTTP/2: the format HPACK (RFC 7541), as far as a server needs it that keeps no table for its answers."""

from typing import Final

from gateway.picker.http2.huffman import HuffmanError, decoded
from gateway.protocol.headers import Headers

TABLE_BYTES: Final = 4096
"""Size of the table of headers that a peer may refer to, the default of the protocol."""
MAX_LIST_BYTES: Final = 65_536
"""Maximum size of all headers of a request, with 32 bytes for each header, as the protocol counts."""
_ENTRY_BYTES: Final = 32
_MAX_INTEGER: Final = 2**28
_STATIC: Final[Headers] = [
    (b"", b""),  # entries are counted from one
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    *[(b":status", status) for status in (b"200", b"204", b"206", b"304", b"400", b"404", b"500")],
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *[
        (name, b"")
        for name in (
            b"accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control "
            b"content-disposition content-encoding content-language content-length content-location content-range "
            b"content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range "
            b"if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization "
            b"range referer refresh retry-after server set-cookie strict-transport-security transfer-encoding "
            b"user-agent vary via www-authenticate"
        ).split()
    ],
]


class HeaderError(Exception):
    """Raised if a block of headers is malformed or too large. The connection cannot be used any more."""


class HeaderDecoder:
    """Decoder of the headers of one connection, with the table that its peer fills."""

    def __init__(self) -> None:
        self._table: Headers = []  # the newest entry is the last
        self._bytes = 0
        self._max_bytes = TABLE_BYTES
        self._block = b""
        self._at = 0

    def decode(self, block: bytes) -> Headers:
        """Return the headers in *block*.

        Raises:
            HeaderError: if *block* is malformed, or its headers are too large.
        """
        self._block, self._at = block, 0
        found: Headers = []
        size, end = 0, len(block)
        while self._at < end:
            header = self._next(block[self._at])
            if header is None:
                if found:
                    raise HeaderError("the size of the table changes after a header")
            else:
                found.append(header)
                size += len(header[0]) + len(header[1]) + _ENTRY_BYTES
                if size > MAX_LIST_BYTES:
                    raise HeaderError("the headers are too large")
        return found

    def _next(self, first: int) -> tuple[bytes, bytes] | None:
        """Read the next header, which begins with the byte *first*. Return None for a new size of the table."""
        if first & 0x80:
            return self._entry(self._integer(7))
        if first & 0x40:
            header = self._literal(6)
            self._add(header)
            return header
        if first & 0x20:
            self._resize(self._integer(5))
            return None
        return self._literal(4)

    def _literal(self, bits: int) -> tuple[bytes, bytes]:
        index = self._integer(bits)
        name = self._entry(index)[0] if index else self._text()
        return name, self._text()

    def _integer(self, bits: int) -> int:
        """Read an integer whose first part has *bits* bits."""
        block, at = self._block, self._at
        most = (1 << bits) - 1
        value = block[at] & most
        at += 1
        if value == most:
            shift = 0
            while True:
                if at >= len(block) or value > _MAX_INTEGER:
                    raise HeaderError("an integer is cut off or too large")
                byte = block[at]
                at += 1
                value += (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
                if shift > 28:
                    raise HeaderError("an integer is too large")
        self._at = at
        return value

    def _text(self) -> bytes:
        if self._at >= len(self._block):
            raise HeaderError("a header is cut off")
        is_coded = self._block[self._at] & 0x80
        length = self._integer(7)
        end = self._at + length
        if end > len(self._block):
            raise HeaderError("a text is cut off")
        raw = self._block[self._at : end]
        self._at = end
        if not is_coded:
            return raw
        try:
            return decoded(raw)
        except HuffmanError as error:
            raise HeaderError(str(error)) from None

    def _entry(self, index: int) -> tuple[bytes, bytes]:
        if 0 < index < len(_STATIC):
            return _STATIC[index]
        place = index - len(_STATIC)
        if index == 0 or place >= len(self._table):
            raise HeaderError("an entry does not exist")
        return self._table[-1 - place]

    def _resize(self, size: int) -> None:
        if size > TABLE_BYTES:
            raise HeaderError("the table is too large")
        self._max_bytes = size
        self._evict()

    def _add(self, header: tuple[bytes, bytes]) -> None:
        self._table.append(header)
        self._bytes += len(header[0]) + len(header[1]) + _ENTRY_BYTES
        self._evict()

    def _evict(self) -> None:
        while self._bytes > self._max_bytes:
            name, value = self._table.pop(0)
            self._bytes -= len(name) + len(value) + _ENTRY_BYTES


def encoded(headers: Headers) -> bytes:
    """Return *headers* in a form that changes no table. Names and values have fewer than 16,384 bytes."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers)


def _text(value: bytes) -> bytes:
    size = len(value)
    if size < 0x7F:
        return bytes([size]) + value
    rest = size - 0x7F
    if rest < 0x80:
        return bytes([0x7F, rest]) + value
    return bytes([0x7F, rest & 0x7F | 0x80, rest >> 7]) + value
