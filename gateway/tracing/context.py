"""W3C Trace Context, https://www.w3.org/TR/trace-context/: which trace a request belongs to, told from hop to hop."""

import re
from collections.abc import Callable, Mapping

import msgspec

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"
HEADERS = frozenset({TRACEPARENT, TRACESTATE})
MOST_STATE_BYTES = 512
"""Of ``tracestate`` that are passed on: as much as everybody has to (section 3.3.1.5); longer ones are left out."""

_SAMPLED = 0x01
_whole = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch


class Context(msgspec.Struct, frozen=True):
    """A span of somebody else, as its headers tell of it."""

    trace_id: int
    span_id: int
    is_sampled: bool
    state: bytes = b""
    """``tracestate`` as it came: each hop's own words, which mean nothing here."""


def context_in(fields: Mapping[bytes, bytes], all_of: Callable[[bytes], str | None]) -> Context | None:
    """The caller's span; None where it names none, or in a way that is none.

    *fields* are the first values of headers; *all_of* joins those of a header that came more than once.
    """
    said = fields.get(TRACEPARENT)
    if said is None:
        return None
    found = _whole(said.strip())
    # Of a later version what is known of it counts; ff is none, and 00 has nothing behind its flags.
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5] is not None):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    state = (all_of(TRACESTATE) or "").encode("latin-1") if TRACESTATE in fields else b""
    return Context(
        trace_id, span_id, bool(int(found[4], 16) & _SAMPLED), state if len(state) <= MOST_STATE_BYTES else b""
    )


def traceparent(trace_id: int, span_id: int, *, is_sampled: bool) -> bytes:
    """The value of the header for a call made by this span."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, _SAMPLED if is_sampled else 0)
