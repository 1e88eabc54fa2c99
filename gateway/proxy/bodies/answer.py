"""Messages between the gateway and the processes that decode request bodies.

A question has a fixed header and three byte strings whose lengths the header contains. An answer has a length and a
MessagePack value.
"""

import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gateway.protocol.body import Body
from gateway.protocol.errors import ClientError, InvalidField, MalformedBody, UnsupportedMedia
from gateway.protocol.splice import Places
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.parts import groups_of

PLACES = b""
"""Type of decoding request that asks only for the positions of the fields. It is sent in place of a URL path."""
TEXTS, ACTING_TEXTS = b"texts", b"acting texts"
"""Types of decoding requests that ask for the texts that guardrails check. They are sent in place of a URL path."""
REDACTED = b"redacted"
"""Type of decoding request that asks for the request body with other texts. It is sent in place of a URL path, and the
texts are a MessagePack list in place of the content type.
"""

_HEAD = struct.Struct("<IIQQ")
_LENGTH = struct.Struct("<Q")
_PIECE_BYTES = 2**18
_CLASSES: Final[dict[str, type[ClientError]]] = {
    kind.__name__: kind for kind in (MalformedBody, InvalidField, UnsupportedMedia)
}


class DecodeResult(msgspec.Struct, array_like=True):
    """Result of decoding one request body: its fields, or an error."""

    body: list[Any] | None = None
    """Values of a `Body`, in the order of its `__match_args__`, or None if there is no body."""
    places: Places | None = None
    kind: str = ""
    """Name of the error class, or an empty string if there was no error."""
    message: str = ""
    param: str | None = None
    texts: list[str] | None = None
    """Texts for guardrails, or None. Two further fields have the indexes of texts that are JSON and of the texts in
    each message.
    """
    json_texts: list[int] = []
    groups: list[list[int]] = []
    redacted: bytes | None = None
    """Request body with replaced texts, or None."""

    @classmethod
    def of_texts(cls, texts: Sequence[Text]) -> "DecodeResult":
        json_texts = [place for place, text in enumerate(texts) if text.is_json]
        return cls(texts=[text.said for text in texts], json_texts=json_texts, groups=groups_of(texts))

    def to_texts(self) -> list[Text]:
        """Return the texts of the decoded request body. Raise the errors of `to_body`."""
        self._check()
        json_texts = frozenset(self.json_texts)
        group_of = {place: number for number, places in enumerate(self.groups, 1) for place in places}
        return [Text(said, place in json_texts, group_of.get(place, 0)) for place, said in enumerate(self.texts or ())]

    def to_redacted(self) -> bytes:
        """Return the request body with replaced texts. Raise the errors of `to_body`."""
        self._check()
        assert self.redacted is not None, "the answer has no body"
        return self.redacted

    def to_body(self) -> Body | None:
        """Return the decoded request body, or None if only the positions of the fields were requested.

        Raises:
            ClientError: if the request body is not valid.
        """
        self._check()
        if self.body is None:
            return None
        # MessagePack has lists, but no tuples.
        values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in self.body]
        return Body(*values).changed(places=self.places)

    def _check(self) -> None:
        if self.kind:
            refusal = _CLASSES.get(self.kind, MalformedBody)(self.message, param=self.param)
            raise refusal


def refusal(error: ClientError) -> DecodeResult:
    return DecodeResult(kind=type(error).__name__, message=error.message, param=error.param)


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(DecodeResult).decode


def send_question(line: socket.socket, path: bytes, content_type: bytes, raw: bytes, *, max_values: int) -> None:
    line.sendall(_HEAD.pack(len(path), len(content_type), len(raw), max_values) + path + content_type)
    line.sendall(raw)


def read_question(line: socket.socket) -> tuple[bytes, bytes, bytes, int] | None:
    """Return the path, content type, body and *max_values* of the next decoding request, or None at the end."""
    head = _exactly(line, _HEAD.size)
    if not head:
        return None
    path, content_type, raw, max_values = _HEAD.unpack(head)
    return _exactly(line, path), _exactly(line, content_type), _exactly(line, raw), max_values


def send_answer(line: socket.socket, answer: DecodeResult) -> None:
    text = encode(answer)
    line.sendall(_LENGTH.pack(len(text)))
    line.sendall(text)


def read_answer(line: socket.socket) -> DecodeResult | None:
    """Return the next answer from the connection, or None if the connection has ended."""
    head = _exactly(line, _LENGTH.size)
    text = _exactly(line, _LENGTH.unpack(head)[0]) if head else b""
    return decode(text) if text else None


def _exactly(line: socket.socket, size: int) -> bytes:
    """Return *size* bytes from the socket, or an empty value if the connection ended early."""
    data = line.recv(size, socket.MSG_WAITALL) if size else b""
    if len(data) == size or not data:
        return data
    pieces = [data]  # a socket with a timeout does not wait for all bytes
    size -= len(data)
    while size:
        data = line.recv(min(size, _PIECE_BYTES), socket.MSG_WAITALL)
        if not data:
            return b""
        pieces.append(data)
        size -= len(data)
    return b"".join(pieces)
