"""Serialization of a request's HTTP/1.1 head, which is the request line and the header fields."""

from gateway.backends.backend import Call
from gateway.backends.upstream.origin import Origin
from gateway.protocol.headers import Headers


class RequestHead:
    """Serializer of the request heads for one worker. The parts that all requests share are prepared once."""

    __slots__ = ("_base_path", "_fixed", "_key")

    def __init__(self, origin: Origin, *, api_key: str | None = None) -> None:
        """Create a serializer for *origin*. *api_key* is sent as ``authorization: Bearer``.

        Raises:
            ValueError: if *api_key* contains characters that are not allowed in a header.
        """
        self._base_path = b" " + origin.base_path
        self._fixed = b" HTTP/1.1\r\nhost: " + origin.host_header
        self._key: Headers = []
        if api_key is not None:
            if not api_key.isascii() or not api_key.isprintable():
                raise ValueError("api_key contains a character that is not allowed in a header")
            self._key = [(b"authorization", b"Bearer " + api_key.encode("ascii"))]
            self._fixed += b"\r\nauthorization: " + self._key[0][1]

    def addressed(self, call: Call) -> Call:
        """Return *call* with the base path and the API key of the worker. All other parts are unchanged."""
        return call.changed(path=self._base_path[1:] + call.path, headers=call.headers + self._key)

    def encode(self, call: Call) -> bytes:
        """Return the request line and header fields of *call*, including the final empty line."""
        lines = [call.method + self._base_path + call.path + self._fixed]
        lines += [name + b": " + value for name, value in call.headers]
        if call.body or call.method not in {b"GET", b"HEAD"}:
            lines.append(b"content-length: %d" % len(call.body))
        lines.append(b"\r\n")
        return b"\r\n".join(lines)
