"""Messages of Envoy's external processing (ext_proc), written and read without generated code.

The client of the benchmark does not use the code of the picker, so that an error in one of them shows. The numbers are
those of ``envoy/service/ext_proc/v3/external_processor.proto``.
"""

from collections.abc import Iterator, Sequence
from typing import Final

FULL_DUPLEX_STREAMED: Final = 4

REQUEST_HEADERS: Final = 2
RESPONSE_HEADERS: Final = 3
REQUEST_BODY: Final = 4
RESPONSE_BODY: Final = 5
"""Fields of ``ProcessingRequest``, of which a message has one."""
HEADERS_OF_REQUEST: Final = 1
HEADERS_OF_ANSWER: Final = 2
BODY_OF_REQUEST: Final = 3
BODY_OF_ANSWER: Final = 4
IMMEDIATE: Final = 7
"""Fields of ``ProcessingResponse``, of which a message has one."""

_BYTES: Final = 2
"""Wire type of texts, bytes and messages. All other fields that are read here are numbers."""


def number(value: int) -> bytes:
    """Return *value* as a varint."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def field(key: int, data: bytes) -> bytes:
    """Return field *key* with the text, bytes or message *data*."""
    return number(key << 3 | _BYTES) + number(len(data)) + data


def numeric_field(key: int, value: int) -> bytes:
    """Return field *key* with a number or a truth value."""
    return number(key << 3) + number(value)


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a message in their order, each with its number and its value.

    Raises:
        ValueError: if a field has neither bytes nor a varint.
    """
    at = 0
    while at < len(data):
        tag, at = _number_at(data, at)
        value, at = _number_at(data, at)
        match tag & 7:
            case 0:
                yield tag >> 3, value
            case 2:
                yield tag >> 3, data[at : at + value]
                at += value
            case kind:
                raise ValueError(f"a field of the wire type {kind}")


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at *at* and the position behind it."""
    value, shift = 0, 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def headers_message(kind: int, headers: Sequence[tuple[str, str]], *, mode: int | None = None) -> bytes:
    """Return a ``ProcessingRequest`` with *headers*. The first message of a stream names the body *mode*."""
    values = b"".join(
        field(1, field(1, name.encode("ascii")) + field(3, value.encode("ascii"))) for name, value in headers
    )
    message = field(kind, field(1, values))
    if mode is not None:
        message += field(11, numeric_field(1, mode) + numeric_field(2, mode))
    return message


def body_message(kind: int, piece: bytes, *, is_last: bool) -> bytes:
    """Return a ``ProcessingRequest`` with a piece of a body."""
    return field(kind, field(1, piece) + (numeric_field(2, 1) if is_last else b""))


def streamed_answer(kind: int, piece: bytes, *, is_last: bool) -> bytes:
    """Return a ``ProcessingResponse`` with a piece of a body."""
    streamed = field(1, piece) + (numeric_field(2, 1) if is_last else b"")
    return field(kind, field(1, field(3, field(3, streamed))))


def piece_in(data: bytes) -> tuple[bytes, bool]:
    """Return the bytes of a body in the ``HttpBody`` or ``StreamedBodyResponse`` *data*, and whether they are last."""
    found = dict(fields(data))
    piece = found.get(1, b"")
    assert isinstance(piece, bytes), "a body consists of bytes"
    return piece, found.get(2) == 1


def streamed_piece_in(data: bytes) -> tuple[bytes, bool]:
    """Return the bytes of a body in the ``BodyResponse`` *data*, and whether they are last.

    Raises:
        ValueError: if *data* has no piece of a streamed body.
    """
    for key in (1, 3, 3):
        inner = dict(fields(data)).get(key)
        if not isinstance(inner, bytes):
            raise ValueError("a body that is not streamed")  # noqa: TRY004  # the message is wrong, not its type
        data = inner
    return piece_in(data)


def kind_and_content(message: bytes) -> tuple[int, bytes]:
    """Return which message *message* is, a ``ProcessingRequest`` or a ``ProcessingResponse``, and its content."""
    for key, value in fields(message):
        if key <= IMMEDIATE and isinstance(value, bytes):
            return key, value
    raise ValueError("a message without content")
