"""Limits on the shape of a JSON body, checked on its bytes before decoding.

A decoded value takes up to a hundred times the memory of its text, and decoding holds the interpreter's lock. So the
number of values and the nesting are limited first. There are two counts:

1. Marks: ``,`` ``[`` ``{`` anywhere in the bytes. Every JSON value except the outermost follows one of them, so marks
   are an upper bound of values. Counting takes half a nanosecond per byte, but text contains commas too.
2. Values: the same marks outside strings, which is exact. It takes about ten nanoseconds per byte, so it is computed
   only if the marks exceed the limit, and never on the event loop.
"""

from dataclasses import dataclass
from typing import Final

from gateway.protocol.errors import MalformedBody

INLINE_BYTES: Final = 4096
"""Bodies up to this size are decoded on the event loop with any shape: 1,400 values take a millisecond."""
OFF_LOOP_BYTES: Final = 256 * 1024
"""Larger bodies are never decoded on the event loop."""
INLINE_MARKS: Final = 2000
"""Bodies in between are decoded on the event loop if they have no more marks: 0.6 us each, 3 us in the worst case."""

MAX_DEPTH: Final = 256
"""Nesting of objects and lists. Request formats need about ten, JSON schemas of tools a few dozen."""
MAX_FIELDS: Final = 256
"""Fields of the outermost object; chat requests have up to about 60."""
MAX_OPTIONS_BYTES: Final = 64 * 1024
"""Size of ``stream_options`` in a large body, which the gateway edits."""

MAX_EXACT_BYTES: Final = 2**20
MAX_EXACT_MARKS: Final = 50_000
"""Marks of a body that is decoded again for its exact tokens, in a thread that holds Python's lock for milliseconds."""

_PLAIN_MARKS = 50_000
_QUOTE, _COMMA = b'",'
_BLOCK_BYTES = 2**18
"""Bytes per step of the computation of a shape, which then needs a few megabytes of memory at most."""


def marks(raw: bytes) -> int:
    """Return an upper bound of the JSON values in *raw*, without the outermost. O(bytes), in C."""
    return len(raw) - len(raw.translate(None, b",[{"))  # four times as fast as count() of each


def is_light(raw: bytes) -> bool:
    """Return whether *raw* may be decoded on the event loop, which then takes a few milliseconds at most."""
    size = len(raw)
    return size <= INLINE_BYTES or (size <= OFF_LOOP_BYTES and marks(raw) <= INLINE_MARKS)


@dataclass(frozen=True, slots=True)
class JsonShape:
    """Size and nesting of a JSON text."""

    values: int
    """Number of values; keys do not count, and an empty object or list counts twice."""
    depth: int
    """Deepest nesting of objects and lists."""
    fields: int
    """Values in the outermost object or list."""


def may_be_tokenized(raw: bytes) -> bool:
    """Return whether a thread may decode *raw* again for its tokens. A longer prompt is routed by its text."""
    size = len(raw)
    return size <= OFF_LOOP_BYTES // 4 or (size <= MAX_EXACT_BYTES and marks(raw) <= MAX_EXACT_MARKS)


def check_bounds(raw: bytes, *, max_values: int, setting: str | None = "server.max_body_values") -> None:
    """Check *raw* against *max_values*, which *setting* defines, `MAX_DEPTH` and `MAX_FIELDS`. O(bytes).

    Raises:
        MalformedBody: a limit is exceeded; the message names it.
    """
    openers = len(raw) - len(raw.translate(None, b"[{"))
    if marks(raw) < min(max_values, _PLAIN_MARKS) and openers <= MAX_DEPTH:
        return  # a few fields too many are harmless and found later
    shape = shape_of(raw)
    if shape.values > max_values:
        suffix = "" if setting is None else f" ({setting})"
        raise MalformedBody(f"The JSON body has more than {max_values} values{suffix}. Send fewer, in several requests")
    if shape.depth > MAX_DEPTH:
        raise MalformedBody(f"The JSON body is nested deeper than {MAX_DEPTH} levels. Use fewer")
    check_fields(shape.fields)


def check_fields(fields: int) -> None:
    """Raise MalformedBody if the outermost object has more than `MAX_FIELDS` *fields*."""
    if fields > MAX_FIELDS:
        raise MalformedBody(f"The JSON body has more than {MAX_FIELDS} fields. Send fewer")


def shape_of(raw: bytes) -> JsonShape:
    """Return the shape of *raw*, which is meaningless if that is not JSON. O(bytes): about 10 ns each."""
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
