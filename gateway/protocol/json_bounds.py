"""Limits on the structure of a JSON body, checked on the raw bytes before decoding.

A decoded value takes up to a hundred times the memory of its text, and decoding holds the interpreter lock. Therefore
the number of values and the nesting are limited first. Two numbers are used:

1. Marks are the characters ``,`` ``[`` ``{`` anywhere in the bytes. Every JSON value except the outermost follows one
   of them, so the number of marks is an upper bound of the number of values. Counting takes half a nanosecond per
   byte, and less in long bodies, but text contains commas too.
2. Values are the same characters outside strings, which is exact. For a body with few strings, splitting at the quotes
   takes about two nanoseconds per byte. For any body, together with the nesting, it takes about ten nanoseconds per
   byte, so this is computed only if the marks exceed the limit, and never on the event loop.
"""

from dataclasses import dataclass
from typing import Final

from gateway.protocol.errors import MalformedBody

INLINE_BYTES: Final = 4096
"""Maximum size in bytes of a body that is always decoded on the event loop. Its 1,400 values, at most, take a
millisecond.
"""
OFF_LOOP_BYTES: Final = 256 * 1024
"""Minimum size in bytes of a body that is never decoded on the event loop."""
INLINE_MARKS: Final = 2000
"""Maximum number of values in a medium-sized body that is decoded on the event loop. Each takes 0.6 us, or 3 us in the
worst case.
"""
_INLINE_ESCAPES: Final = 60_000
"""Maximum number of quotes and backslashes in a medium-sized body whose values are counted on the event loop, which
takes up to 1.7 ms. Messages of 220 kB with results of tools have 40,000.
"""

MAX_DEPTH: Final = 256
"""Maximum nesting of objects and lists. Request formats need about ten levels, and JSON schemas of tools a
few dozen.
"""
MAX_FIELDS: Final = 256
"""Maximum number of fields in the outermost object. Chat requests have at most about 60."""
MAX_OPTIONS_BYTES: Final = 64 * 1024
"""Maximum size in bytes of ``stream_options`` in a large body, because the gateway edits this field."""

MAX_EXACT_BYTES: Final = 2**20
MAX_EXACT_MARKS: Final = 50_000
"""Maximum number of commas and opening brackets in a body that is decoded again to get its exact tokens. A thread does
this and holds Python's lock for milliseconds.
"""

_PLAIN_MARKS = 50_000
_TRANSLATED_BYTES = 32 * 1024
"""Maximum size in bytes of a body whose marks are counted without numpy, because seven numpy calls cost as much as to
count the marks of 32 kB.
"""
_QUOTE, _COMMA, _BACKSLASH, _BRACKET, _BRACE = b'",\\[{'
_BRACKETS_DIFFER: Final = _BRACKET ^ _BRACE
_BLOCK_BYTES = 2**18
"""Number of bytes that each step of a shape computation processes. This limits the memory to a few megabytes."""


def marks(raw: bytes) -> int:
    """Return an upper bound on the number of JSON values in *raw*, without the outermost. Takes 15 us for 20 kB, and
    40 us for 220 kB.
    """
    if len(raw) <= _TRANSLATED_BYTES:
        return len(raw) - len(raw.translate(None, b",[{"))
    import numpy as np  # noqa: PLC0415  # a decoder process needs it only for a few bodies

    values = np.frombuffer(raw, np.uint8)
    # Both brackets at once: the second is the first with one more bit.
    return int(np.count_nonzero((values == _COMMA) | ((values | _BRACKETS_DIFFER) == _BRACE)))


def is_light(raw: bytes) -> bool:
    """Return whether *raw* can be decoded on the event loop, which takes a few milliseconds at most."""
    if len(raw) <= INLINE_BYTES:
        return True
    if len(raw) > OFF_LOOP_BYTES:
        return False
    if marks(raw) <= INLINE_MARKS:
        return True
    plain = without_escapes(raw)
    return plain is not None and has_few_values(plain)


def without_escapes(raw: bytes) -> bytes | None:
    """Return *raw* without escaped quotes and backslashes, or None if it has too many quotes and backslashes to count
    its values on the event loop. Takes up to 1.2 ms.

    If *raw* is not JSON, only the part before the error is right, which is the part that a decoder reads.
    """
    if _count(raw, _QUOTE) + _count(raw, _BACKSLASH) > _INLINE_ESCAPES:
        return None
    # Within a string backslashes pair up from the left, so after this each quote begins or ends a string.
    return raw.replace(rb"\\", b"").replace(rb"\"", b"")


def has_few_values(plain: bytes) -> bool:
    """Return whether a body has at most `INLINE_MARKS` values. *plain* is the result of `without_escapes`. A prompt of
    220 kB has more commas than that. Takes up to 0.5 ms.
    """
    if _count(plain, _QUOTE) > 4 * INLINE_MARKS:  # a value has at most a key and a text
        return False
    return marks(b"".join(plain.split(b'"')[::2])) <= INLINE_MARKS


def _count(raw: bytes, value: int) -> int:
    """Return the number of bytes *value* in *raw*. `bytes.count` takes eight times as long in CPython 3.11."""
    import numpy as np  # noqa: PLC0415

    return int(np.count_nonzero(np.frombuffer(raw, np.uint8) == value))


@dataclass(frozen=True, slots=True)
class JsonShape:
    """Number of values and nesting depth of a JSON text."""

    values: int
    """Number of JSON values. Keys do not count, and an empty object or list counts as two."""
    depth: int
    """Maximum nesting depth of objects and lists."""
    fields: int
    """Number of values in the outermost object or list."""


def may_be_tokenized(raw: bytes) -> bool:
    """Return whether a thread can decode *raw* again to get its tokens. A longer prompt is routed by its text."""
    size = len(raw)
    return size <= OFF_LOOP_BYTES // 4 or (size <= MAX_EXACT_BYTES and marks(raw) <= MAX_EXACT_MARKS)


def check_bounds(raw: bytes, *, max_values: int, setting: str | None = "server.max_body_values") -> None:
    """Raise an error if *raw* exceeds *max_values* (from the setting *setting*), `MAX_DEPTH` or `MAX_FIELDS`. Takes
    O(bytes).

    Raises:
        MalformedBody: if a limit is exceeded. The message names the limit.
    """
    # Without numpy, which would take a decoder process 20 MB and a tenth of a second.
    without_openers = raw.translate(None, b"[{")
    openers, commas = len(raw) - len(without_openers), without_openers.count(b",")
    if openers + commas < min(max_values, _PLAIN_MARKS) and openers <= MAX_DEPTH:
        return  # a few fields too many are harmless and found later
    shape = shape_of(raw)
    if shape.values > max_values:
        suffix = "" if setting is None else f" ({setting})"
        raise MalformedBody(f"The JSON body has more than {max_values} values{suffix}. Split it into several requests")
    if shape.depth > MAX_DEPTH:
        raise MalformedBody(f"The JSON body is nested deeper than {MAX_DEPTH} levels. Use fewer levels")
    check_fields(shape.fields)


def check_fields(fields: int) -> None:
    """Raise MalformedBody if *fields*, the number of fields in the outermost object, exceeds `MAX_FIELDS`."""
    if fields > MAX_FIELDS:
        raise MalformedBody(f"The JSON body has more than {MAX_FIELDS} fields. Send fewer fields")


def shape_of(raw: bytes) -> JsonShape:
    """Return the shape of the JSON text *raw*. The result is meaningless if *raw* is not JSON. Takes about 10 ns per
    byte.
    """
    import numpy as np  # noqa: PLC0415  # 20 MB and a tenth of a second, and few requests need it

    # Within a string backslashes pair up from the left, so after this each quote begins or ends a string.
    text = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    is_mark = np.zeros(256, np.uint8)
    is_mark[list(b",[{")] = 1
    steps = np.zeros(256, np.int8)
    steps[list(b"[{")] = 1
    steps[list(b"]}")] = -1
    values, depth, deepest, fields, inside = 1, 0, 0, 1, 0
    for start in range(0, len(text), _BLOCK_BYTES):
        block = np.frombuffer(text, np.uint8, min(_BLOCK_BYTES, len(text) - start), start)
        within = np.bitwise_xor.accumulate((block == _QUOTE).view(np.uint8)) ^ np.uint8(inside)
        structure = np.where(within == 0, block, np.uint8(0))
        values += int(is_mark[structure].sum(dtype=np.int64))
        levels = np.cumsum(steps[structure], dtype=np.int32)
        deepest = max(deepest, depth + int(levels.max()))
        fields += int(np.count_nonzero((structure == _COMMA) & (levels == 1 - depth)))
        depth += int(levels[-1])
        inside = int(within[-1])
    return JsonShape(values, deepest, fields)
