"""Messages between the gateway and the process that decodes bodies for it.

Each direction is one connected socket. A question is a fixed head, then the three byte strings whose lengths the head
gives; an answer is its length, then MessagePack.
"""

import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gateway.body import Body
from gateway.errors import ClientError, InvalidField, MalformedBody, UnsupportedMedia
from gateway.guardrails.filter import Text
from gateway.guardrails.parts import groups_of
from gateway.splice import Places

PLACES = b""
"""In place of a path: only the places of the fields are wanted, of a body that the gateway made itself."""
TEXTS, ACTING_TEXTS = b"texts", b"acting texts"
"""In place of a path: the texts that guardrails look at, of a body that was read before."""
TOLD = b"told"
"""In place of a path: such a body with other texts, a list in MessagePack, which comes in place of the content type."""

_HEAD = struct.Struct("<IIQQ")
_LENGTH = struct.Struct("<Q")
_PIECE_BYTES = 2**18
_CLASSES: Final[dict[str, type[ClientError]]] = {
    kind.__name__: kind for kind in (MalformedBody, InvalidField, UnsupportedMedia)
}


class Answer(msgspec.Struct, array_like=True):
    """What became of one body: its fields, or why it is refused."""

    body: list[Any] | None = None
    """The values of `Body`, in the order of its ``__match_args__``."""
    places: Places | None = None
    kind: str = ""
    """The class of the refusal."""
    message: str = ""
    param: str | None = None
    texts: list[str] | None = None
    """For guardrails, with the places of those that are JSON, and of those that are parts of one message."""
    json_texts: list[int] = []
    groups: list[list[int]] = []
    told: bytes | None = None
    """The body with other texts."""

    @classmethod
    def of_texts(cls, texts: Sequence[Text]) -> "Answer":
        json_texts = [place for place, text in enumerate(texts) if text.is_json]
        return cls(texts=[text.said for text in texts], json_texts=json_texts, groups=groups_of(texts))

    def to_texts(self) -> list[Text]:
        """The texts. Raises as `to_body`."""
        self._check()
        json_texts = frozenset(self.json_texts)
        group_of = {place: number for number, places in enumerate(self.groups, 1) for place in places}
        return [Text(said, place in json_texts, group_of.get(place, 0)) for place, said in enumerate(self.texts or ())]

    def to_told(self) -> bytes:
        """The body with other texts. Raises as `to_body`."""
        self._check()
        assert self.told is not None, "it was asked for"
        return self.told

    def to_body(self) -> Body | None:
        """The body, None where only places were asked for.

        Raises:
            ClientError: it is refused.
        """
        self._check()
        if self.body is None:
            return None
        # MessagePack knows lists only.
        values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in self.body]
        return Body(*values).changed(places=self.places)

    def _check(self) -> None:
        if self.kind:
            refusal = _CLASSES.get(self.kind, MalformedBody)(self.message, param=self.param)
            raise refusal


def refusal(error: ClientError) -> Answer:
    return Answer(kind=type(error).__name__, message=error.message, param=error.param)


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Answer).decode


def send_question(line: socket.socket, path: bytes, content_type: bytes, raw: bytes, *, max_values: int) -> None:
    line.sendall(_HEAD.pack(len(path), len(content_type), len(raw), max_values) + path + content_type)
    line.sendall(raw)


def read_question(line: socket.socket) -> tuple[bytes, bytes, bytes, int] | None:
    """Path, content type, body and *max_values*; None at the end of the line."""
    head = _exactly(line, _HEAD.size)
    if not head:
        return None
    path, content_type, raw, max_values = _HEAD.unpack(head)
    return _exactly(line, path), _exactly(line, content_type), _exactly(line, raw), max_values


def send_answer(line: socket.socket, answer: Answer) -> None:
    text = encode(answer)
    line.sendall(_LENGTH.pack(len(text)))
    line.sendall(text)


def read_answer(line: socket.socket) -> Answer | None:
    """None at the end of the line."""
    head = _exactly(line, _LENGTH.size)
    text = _exactly(line, _LENGTH.unpack(head)[0]) if head else b""
    return decode(text) if text else None


def _exactly(line: socket.socket, size: int) -> bytes:
    """*size* bytes; ``b""`` if the line ended before."""
    data = line.recv(size, socket.MSG_WAITALL) if size else b""
    if len(data) == size or not data:
        return data
    pieces = [data]  # a line with a timeout does not wait for all
    size -= len(data)
    while size:
        data = line.recv(min(size, _PIECE_BYTES), socket.MSG_WAITALL)
        if not data:
            return b""
        pieces.append(data)
        size -= len(data)
    return b"".join(pieces)
