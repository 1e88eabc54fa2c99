"""Reader for the request line and headers of a request, which also limits their size."""

from typing import Any, Final, NoReturn

from gateway.protocol.errors import GatewayError, HeadTooLarge, MalformedBody
from gateway.server.request_rules import check_head, check_host, check_line
from gateway.server.scope import ScopeBuilder
from gateway.server.shared_state import HeaderNames

_MAX_FIELDS: Final = 100  # headers of one request; same as Apache's LimitRequestFields and nginx in practice
_FRAMING: Final = frozenset({b"content-length", b"expect", b"host", b"transfer-encoding"})


class ParsingStopped(Exception):
    """Exception that stops the HTTP parser. `HeadReader.fault` stores the reason, because a traceback would keep the
    connection in memory.
    """


class HeadReader:
    """Reader for the request line and headers. The HTTP parser calls the methods whose names begin with ``on_``.

    The parser is passed as an argument, because it already holds references to these methods.
    """

    __slots__ = (
        "_begun",
        "_fields",
        "_host",
        "_hosts",
        "_max_bytes",
        "_names",
        "_scopes",
        "_target",
        "content_length",
        "expects_continue",
        "fault",
        "is_chunked",
        "is_open",
        "piece",
        "read_bytes",
    )

    def __init__(self, scopes: ScopeBuilder, names: HeaderNames, max_bytes: int) -> None:
        self._scopes = scopes
        self._names = names
        self._max_bytes = max_bytes
        self._begun = b""  # earlier pieces, from the start of the request to the end of its line
        self._target = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._hosts = 0  # `host` headers
        self._host: bytes | None = None  # the last one that was valid
        self.is_open = False
        """Whether a request line or headers have begun but are not complete."""
        self.piece = b""
        """Part of the request head that is being parsed."""
        self.read_bytes = 0
        """Number of bytes of the request head that were parsed before the current part."""
        self.content_length = 0
        self.is_chunked = False
        self.expects_continue = False
        self.fault: GatewayError | None = None
        """Error that stopped the parsing and that the client will receive, or None."""

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self.is_open = True
        self.read_bytes = 0
        self.content_length = 0
        self.is_chunked = False
        self.expects_continue = False
        self._begun = b""
        self._target = b""
        self._fields = []
        self._hosts = 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = self._names.lower(name)
        if name in _FRAMING:  # fast, as the object from the cache knows its hash
            self._interpret(name, value)
        self._fields.append((name, value))

    # Steps of the connection

    def complete(self, parser: Any) -> dict[str, Any] | None:
        """Return the ASGI scope for a complete request head, or None if the request asks for a protocol upgrade.

        Raises:
            ParsingStopped: if the head is too large or not valid. The attribute `fault` has the error for the client.
        """
        self.is_open = False
        # The sum is computed only if the bytes read could be too many, which is rare.
        if self.read_bytes + len(self.piece) > self._max_bytes and self._size() > self._max_bytes:
            self.stop(self.too_large())
        if len(self._fields) > _MAX_FIELDS:
            self.stop(HeadTooLarge(f"The request has more than {_MAX_FIELDS} header fields. Send fewer."))
        if self._hosts != 1 or self.is_chunked:
            self._check(check_head(parser.get_http_version(), hosts=self._hosts, is_coded=self.is_chunked))
        if parser.should_upgrade():
            self._check_line(parser.get_method(), parser.get_http_version())
            return None
        scope = None if self._begun else self._scopes.repeated(self.piece)
        if scope is None:
            scope = self._new_scope(parser.get_method(), parser.get_http_version())
        self._scopes.complete(scope, self._fields)
        self._begun = b""
        self._fields = []  # for trailers, which are ignored: the scope has the other list
        return scope

    def keep(self, piece: bytes) -> bool:
        """Add *piece* to the kept part of an incomplete request head. Return whether the head is still small enough."""
        if b"\n" not in self._begun:
            self._begun += piece
        self.read_bytes += len(piece)
        return self.read_bytes <= self._max_bytes

    def without_upgrade(self, parser: Any) -> bytes | None:
        """Return the request head without its `upgrade` header. For the method CONNECT, return None."""
        method = parser.get_method()
        if method == b"CONNECT":
            return None
        fields = b"".join([name + b": " + value + b"\r\n" for name, value in self._fields if name != b"upgrade"])
        version = parser.get_http_version().encode("ascii")
        head: bytes = method + b" " + self._target + b" HTTP/" + version + b"\r\n" + fields + b"\r\n"
        self.piece = head
        return head

    def stop(self, fault: GatewayError) -> NoReturn:
        """Stop the HTTP parser and keep *fault* as the error for the client."""
        self.fault = fault
        raise ParsingStopped

    def too_large(self) -> HeadTooLarge:
        return HeadTooLarge(
            f"The request line and headers are larger than {self._max_bytes} bytes (server.max_header_bytes). "
            "Send fewer or shorter headers."
        )

    def _interpret(self, name: bytes, value: bytes) -> None:
        # The parser leaves the space behind a value.
        if name == b"host":
            self._hosts += 1
            if value != self._host:
                self._check(check_host(value.strip().lower()))
                self._host = value
        elif name == b"content-length":
            self.content_length = int(value)  # checked by the parser
        elif name == b"expect":
            self.expects_continue = value.strip().lower() == b"100-continue"
        else:
            self.is_chunked = True
            if value.strip().lower() != b"chunked":  # the application would receive an encoded body
                self.stop(MalformedBody("The 'transfer-encoding' header must be 'chunked'. Send no other encoding."))

    def _new_scope(self, method: bytes, version: str) -> dict[str, Any]:
        self._check_line(method, version)
        built = self._scopes.build(method, self._target, version)
        if built is None:
            self.stop(MalformedBody("The request target must be a path, or an http:// or https:// URL without a user."))
        scope, authority = built
        if authority is not None:  # it overrides the header (RFC 9112, 3.2.2)
            self._fields = [(b"host", authority), *[each for each in self._fields if each[0] != b"host"]]
        return scope

    def _check_line(self, method: bytes, version: str) -> None:
        self._check(check_line(method, self._target, version, self._begun + self.piece))

    def _check(self, message: str | None) -> None:
        if message is not None:
            self.stop(MalformedBody(message))

    def _size(self) -> int:
        return len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._fields)  # ": " and CRLF
