"""Header by which clients of llm-d learn why a request was dropped."""

from typing import Final

import msgspec

from gateway.protocol.errors import (
    DECODE_ERRORS,
    AtCapacity,
    MemoryShort,
    QueueFull,
    Stopping,
)
from gateway.protocol.headers import Headers

HEADER: Final = b"x-llm-d-request-dropped-reason"
_SATURATED: Final = b"rejected-saturated"
_REASONS: Final[dict[str | None, bytes]] = {
    AtCapacity.code: _SATURATED,
    MemoryShort.code: _SATURATED,
    QueueFull.code: _SATURATED,
    Stopping.code: b"rejected-shutting-down",
}
"""Values of llm-d by the code of the gateway's error. Limits of callers are not among them, because they do not
depend on the workers.
"""


class _Error(msgspec.Struct):
    code: str | None = None


class _Answer(msgspec.Struct):
    error: _Error


def dropped_headers(status: int, body: bytes) -> Headers:
    """Return the header with the reason if the answer *body* with *status* says that the request was dropped."""
    if status != Stopping.status:
        return []
    try:
        reason = _REASONS.get(msgspec.json.decode(body, type=_Answer).error.code)
    except DECODE_ERRORS:
        return []
    return [] if reason is None else [(HEADER, reason)]
