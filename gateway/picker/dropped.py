"""Requests that were dropped: their status, and the header by which clients of llm-d learn the reason.

The protocol of endpoint pickers has status 429 for a request that is dropped because the workers, or the picker itself,
have too much to do, and status 503 if no worker can answer. Without Envoy, the gateway answers both with 503.
"""

from typing import Final

import msgspec

from gateway.protocol.errors import (
    DECODE_ERRORS,
    AtCapacity,
    GatewayError,
    MemoryShort,
    QueueFull,
    RateLimited,
    Stopping,
)
from gateway.protocol.headers import Headers

HEADER: Final = b"x-llm-d-request-dropped-reason"
_OVERLOAD: Final = (AtCapacity, MemoryShort, QueueFull)
_REASONS: Final[dict[str | None, bytes]] = {
    **dict.fromkeys([error.code for error in _OVERLOAD], b"rejected-saturated"),
    Stopping.code: b"rejected-shutting-down",
}
"""Values of llm-d by the code of the gateway's error. Limits of callers are not among them, because they do not
depend on the workers.
"""
_STATUSES: Final = frozenset({RateLimited.status, Stopping.status})


class _Error(msgspec.Struct):
    code: str | None = None


class _Answer(msgspec.Struct):
    error: _Error


def status_of(error: GatewayError) -> int:
    """Return the status of a request that failed with *error* behind Envoy."""
    return RateLimited.status if isinstance(error, _OVERLOAD) else error.status


def dropped_headers(status: int, body: bytes) -> Headers:
    """Return the header with the reason if the answer *body* with *status* says that the request was dropped."""
    if status not in _STATUSES:
        return []
    try:
        reason = _REASONS.get(msgspec.json.decode(body, type=_Answer).error.code)
    except DECODE_ERRORS:
        return []
    return [] if reason is None else [(HEADER, reason)]
