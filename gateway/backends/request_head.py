"""A call as HTTP/1.1 bytes."""

from gateway.backends.backend import Call
from gateway.backends.upstream.origin import Origin


class RequestHead:
    """Writes the head of each request to one worker; what is the same for all of them is put together once."""

    __slots__ = ("_base_path", "_fixed")

    def __init__(self, origin: Origin, *, api_key: str | None = None) -> None:
        """*api_key* travels as ``authorization: Bearer``.

        Raises:
            ValueError: the key cannot stand in a header field.
        """
        self._base_path = b" " + origin.base_path
        self._fixed = b" HTTP/1.1\r\nhost: " + origin.host_header
        if api_key is not None:
            if not api_key.isascii() or not api_key.isprintable():
                raise ValueError("api_key contains a character that is not allowed in a header")
            self._fixed += b"\r\nauthorization: Bearer " + api_key.encode("ascii")

    def encode(self, call: Call) -> bytes:
        """Request line and header fields, up to and with the empty line."""
        lines = [call.method + self._base_path + call.path + self._fixed]
        lines += [name + b": " + value for name, value in call.headers]
        if call.body or call.method not in {b"GET", b"HEAD"}:
            lines.append(b"content-length: %d" % len(call.body))
        lines.append(b"\r\n")
        return b"\r\n".join(lines)
