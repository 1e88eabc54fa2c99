"""Bounds on the shape of a JSON body, checked on its bytes before anything is decoded.

A decoded value takes up to a hundred times the memory of its text, and building it holds the interpreter's lock. So the
number of values and the nesting are bounded first. Two counts exist:

1. Marks: ``,`` ``[`` ``{`` anywhere in the bytes. Every JSON value but the outermost follows one of them, so marks are
   an upper bound on values. Counting them costs half a nanosecond a byte, but text contains commas too.
2. Values: the same outside strings, which is exact. It costs some ten nanoseconds a byte, so it is computed only where
   the marks exceed the bound, and never on the event loop.
"""

from dataclasses import dataclass
from typing import Final

from gateway.errors import MalformedBody

INLINE_BYTES: Final = 4096
"""A body of this size is decoded on the event loop whatever its shape: 1,400 values, a millisecond."""
OFF_LOOP_BYTES: Final = 256 * 1024
"""A larger body is never decoded on the event loop."""
INLINE_MARKS: Final = 2000
"""A body between the two is decoded on the event loop if it has no more marks: 0.6 us each, 3 us in the worst shape."""

MAX_DEPTH: Final = 256
"""Nested objects and lists. Request formats need about ten, JSON schemas of tools some dozens."""
MAX_FIELDS: Final = 256
"""Fields of the outermost object; chat requests have about 60 in the widest engine."""
MAX_OPTIONS_BYTES: Final = 64 * 1024
"""``stream_options`` of a large body, which the gateway edits."""

MAX_EXACT_BYTES: Final = 2**20
MAX_EXACT_MARKS: Final = 50_000
"""Of a body that is decoded again for its exact tokens, in a thread that holds Python's lock for some milliseconds."""

_PLAIN_MARKS = 50_000
_QUOTE, _COMMA = b'",'
_BLOCK_BYTES = 2**18
"""The shape is computed this many bytes at a time, so that it needs a few megabytes at most."""


def marks(raw: bytes) -> int:
    """An upper bound on the JSON values in *raw*, without the outermost. O(bytes), in C."""
    return len(raw) - len(raw.translate(None, b",[{"))  # four times as fast as count() of each


def is_light(raw: bytes) -> bool:
    """Whether *raw* may be decoded on the event loop: that takes no more than some milliseconds."""
    size = len(raw)
    return size <= INLINE_BYTES or (size <= OFF_LOOP_BYTES and marks(raw) <= INLINE_MARKS)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a JSON text holds."""

    values: int
    """Objects, lists, strings but for keys, numbers, true, false and null. An empty object or list counts twice."""
    depth: int
    """The most objects and lists within each other."""
    fields: int
    """Values of the outermost object or list."""


def may_be_tokenized(raw: bytes) -> bool:
    """Whether *raw* may be decoded again, by a thread, to make tokens of it. A longer prompt is routed by its text."""
    size = len(raw)
    return size <= OFF_LOOP_BYTES // 4 or (size <= MAX_EXACT_BYTES and marks(raw) <= MAX_EXACT_MARKS)


def check_shape(raw: bytes, *, max_values: int, setting: str | None = "server.max_body_values") -> None:
    """Check that *raw* is within *max_values*, `MAX_DEPTH` and `MAX_FIELDS`. O(bytes). *setting* has the first.

    Raises:
        MalformedBody: it is not; the message names the bound.
    """
    openers = len(raw) - len(raw.translate(None, b"[{"))
    if marks(raw) < min(max_values, _PLAIN_MARKS) and openers <= MAX_DEPTH:
        return  # a few fields too many do no harm, and are found later
    shape = shape_of(raw)
    if shape.values > max_values:
        named = "" if setting is None else f" ({setting})"
        raise MalformedBody(f"The JSON body has more than {max_values} values{named}. Send fewer, in several requests")
    if shape.depth > MAX_DEPTH:
        raise MalformedBody(f"JSON is nested too deeply: in more than {MAX_DEPTH} levels")
    check_fields(shape.fields)


def check_fields(fields: int) -> None:
    """Raises MalformedBody where the outermost object has more than `MAX_FIELDS`."""
    if fields > MAX_FIELDS:
        raise MalformedBody(f"The JSON body has more than {MAX_FIELDS} fields")


def shape_of(raw: bytes) -> Shape:
    """The shape of *raw*; meaningless if that is not JSON. O(bytes): some 10 ns each."""
    import numpy as np  # noqa: PLC0415  # 20 MB and a tenth of a second, for what few requests need

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
    return Shape(values, deepest, fields)
