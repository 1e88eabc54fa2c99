"""Read and write the trace headers of the W3C Trace Context standard, https://www.w3.org/TR/trace-context/."""

import re
from collections.abc import Callable, Mapping

import msgspec

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"
HEADERS = frozenset({TRACEPARENT, TRACESTATE})
MAX_STATE_BYTES = 512
"""Maximum length in bytes of a ``tracestate`` header to forward. Section 3.3.1.5 of the standard requires at least this
length. A longer header is dropped.
"""

_SAMPLED = 0x01
_whole = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch


class Context(msgspec.Struct, frozen=True):
    """Trace span of the caller, as given in its request headers."""

    trace_id: int
    span_id: int
    is_sampled: bool
    state: bytes = b""
    """Value of the ``tracestate`` header as received. The gateway does not interpret the value."""


def context_in(fields: Mapping[bytes, bytes], all_of: Callable[[bytes], str | None]) -> Context | None:
    """Return the caller's trace span, or None if the `traceparent` header is missing or malformed.

    The mapping *fields* has the first value of each request header. The function *all_of* returns all values of one
    header, joined with commas.
    """
    said = fields.get(TRACEPARENT)
    if said is None:
        return None
    found = _whole(said.strip())
    # Later versions may have more fields; version ff is invalid, and 00 has nothing after its flags.
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5] is not None):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    state = (all_of(TRACESTATE) or "").encode("latin-1") if TRACESTATE in fields else b""
    return Context(
        trace_id, span_id, bool(int(found[4], 16) & _SAMPLED), state if len(state) <= MAX_STATE_BYTES else b""
    )


def traceparent(trace_id: int, span_id: int, *, is_sampled: bool) -> bytes:
    """Return the value of the `traceparent` header for a call by the span *span_id*."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, _SAMPLED if is_sampled else 0)
