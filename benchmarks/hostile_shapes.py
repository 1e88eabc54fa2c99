"""Request bodies of any size that cost far more to read than to send."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
JSON = "application/json"
BOUNDARY = "b"
_USER = b'"messages":[{"role":"user","content":'
FORM = f"multipart/form-data; boundary={BOUNDARY}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Kind of request body, with its endpoint and a function that creates bodies of a given size."""

    path: str
    make: Callable[[int], bytes]
    media: str = JSON


def _filled(head: bytes, piece: bytes, tail: bytes) -> Callable[[int], bytes]:
    return lambda size: head + piece * ((size - len(head) - len(tail)) // len(piece)) + tail


def _chat(piece: bytes, *, before: bytes = b"[", after: bytes = b'"."]') -> Shape:
    """Return a chat whose only message repeats *piece*."""
    head = b'{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":' + before
    return Shape(CHAT, _filled(head, piece, after + b"}]}"))


def _field(path: str, head: bytes, piece: bytes, tail: bytes) -> Shape:
    return Shape(path, _filled(b'{"model":"tiny","max_tokens":1,' + head, piece, tail + b"}"))


def _within(  # noqa: PLR0917  # in the order of the bytes
    path: str, head: bytes, piece: bytes, pieces: int, tail: bytes, before_text: bytes = b""
) -> Shape:
    """Repeat *piece* as often as the default limits allow, and fill the rest with text."""
    head = b'{"model":"tiny","max_tokens":1,' + head

    def make(size: int) -> bytes:
        many = piece * min(pieces, (size // 2) // len(piece)) + before_text
        return head + many + b'"' + b"x" * (size - len(head) - len(many) - len(tail) - 3) + b'"' + tail + b"}"

    return Shape(path, make)


def _deep(size: int) -> bytes:
    levels = (size - 100) // 2
    head = b'{"model":"tiny","messages":[{"role":"user","content":[{"a":'
    return head + b"[" * levels + b"]" * levels + b"}]}]}"


def _fields(size: int) -> bytes:
    many = b",".join([b'"k%09d":1' % number for number in range((size - 100) // 15)])
    return b'{"model":"tiny","messages":[{"role":"user","content":"."}],' + many + b"}"


def _escaped_model(size: int) -> bytes:
    text = json.dumps("x" * (size - 200))
    return b'{"\\u006dodel":"gpt-4o","max_tokens":1,"messages":[{"role":"user","content":%b}]}' % text.encode()


def _form(size: int) -> bytes:
    part = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\ntiny\r\n'
    file = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return part + file + b"\r\n--bx" * ((size - 300) // 6) + b"\r\n--b--\r\n"


def _parts(size: int) -> bytes:
    part = b'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n'
    return part * ((size - 10) // len(part)) + b"--b--\r\n"


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "plain text": _chat(b"hello, world ", before=b'"', after=b'"'),
        "text in escapes": _chat(b"\\u6f22", before=b'"', after=b'"'),
        "text of quotes": _chat(b'\\"', before=b'"', after=b'"'),
        "text of backslashes": _chat(b"\\\\", before=b'"', after=b'"'),
        "text in Chinese": _chat("漢字".encode(), before=b'"', after=b'"'),
        "text of commas": _chat(b",{[", before=b'"', after=b'"'),
        "one image": _chat(
            b"QUJD", before=b'[{"type":"image_url","image_url":{"url":"data:image/png;base64,', after=b'"}}]'
        ),
        "streamed text": _field(CHAT, b'"stream":true,"messages":[{"role":"user","content":"', b"word, ", b'"}]'),
        "an escaped key": Shape(CHAT, _escaped_model),
        "empty parts": _chat(b"{},"),
        "empty parts in one part": _chat(b"{},", before=b'[{"a":[', after=b"{}]}]"),
        "empty lists": _chat(b"[],", before=b'[{"a":[', after=b"[]]}]"),
        "small objects": _chat(b'{"":0},', before=b'[{"a":[', after=b"0]}]"),
        "numbers with a point": _chat(b"1.5,", before=b'[{"a":[', after=b"0]}]"),
        "short texts": _chat(b'"a",'),
        "quotes": _chat(b'"",'),
        "nesting": Shape(CHAT, _deep),
        "fields": Shape(CHAT, _fields),
        "a key again and again": _field(CHAT, b'"messages":[{"role":"user","content":"."}],', b'"a":1,', b'"a":1'),
        "messages": _field(CHAT, b'"messages":[', b'{"role":""},', b'{"role":"user","content":"."}]'),
        "tools": _field(CHAT, b'"messages":[{"role":"user","content":"."}],"tools":[', b"{},", b"{}]"),
        "an unknown field": _field(CHAT, b'"messages":[{"role":"user","content":"."}],"x":[', b"1,", b"1]"),
        "a long user": _field(CHAT, b'"messages":[{"role":"user","content":"."}],"user":"', b"u", b'"'),
        "empty parts that pass": _within(CHAT, _USER + b"[", b"{},", 99_000, b"]}]"),
        "empty objects in one part that pass": _within(CHAT, _USER + b'[{"a":[', b"{},", 99_000, b"]}]}]"),
        "small objects that pass": _within(CHAT, _USER + b'[{"a":[', b'{"":0},', 99_000, b"]}]}]"),
        "numbers that pass": _within(CHAT, _USER + b'[{"a":[', b"1.5,", 199_000, b"]}]}]"),
        "tools that pass": _within(CHAT, _USER + b'"."}],"tools":[', b'{"":0},', 99_000, b"]"),
        "items of a response that pass": _within("/v1/responses", b'"input":[', b"{},", 99_000, b"", b'{}],"x":'),
        "token ids that pass": _within(TEXT, b'"prompt":[', b"999,", 199_000, b"", b'1],"x":'),
        "prompts that pass": _within(TEXT, b'"prompt":[', b'"a",', 199_000, b"]"),
        "token ids": _field(TEXT, b'"prompt":[', b"999,", b"1]"),
        "prompts": _field(TEXT, b'"prompt":[', b'"a",', b'"a"]'),
        "lists of token ids": _field(TEXT, b'"prompt":[', b"[1],", b"[1]]"),
        "items of a response": _field("/v1/responses", b'"input":[', b"{},", b"{}]"),
        "blocks of a message": _field(
            "/v1/messages", b'"messages":[{"role":"user","content":[', b'{"type":"tool_result"},', b"{}]}]"
        ),
        "texts to embed": _field("/v1/embeddings", b'"input":[', b'"a",', b'"a"]'),
        "documents to rank": _field("/v1/rerank", b'"query":"q","documents":[', b"{},", b"{}]"),
        "broken JSON": _field(CHAT, b'"messages":[', b"{", b""),
        "a form of false boundaries": Shape("/v1/audio/transcriptions", _form, FORM),
        "a form of parts": Shape("/v1/audio/transcriptions", _parts, FORM),
    }
)
"""Shapes by name."""
