"""The ledger record of one request, as readers and exports get it. It contains no prompt and no secret."""

from typing import Literal

import msgspec

Outcome = Literal["ok", "aborted", "failed", "lost"]
"""Outcomes of a request. ``lost`` means that the gateway died and that the record holds the reserved amounts."""


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Fields of an exported ledger record. Token counts are not weighted."""

    time: str
    """Time when the request ended, RFC 3339 in UTC, to the millisecond. For a lost request, the time of its
    reservation.
    """
    request_id: str
    team: str
    project: str | None
    key: str
    """Public id of the API key."""
    user: str | None
    """End user that the caller named in the request."""
    model_asked: str
    model: str
    """Configured name of the model that served the request."""
    backend: str | None
    """Id of the worker that served the request, or ``bedrock``."""
    outcome: Outcome
    status: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    """US dollars that the cached tokens saved."""
    fell_back: bool
    ttft_ms: float | None
    duration_ms: float


FIELDS = UsageRecord.__struct_fields__
"""Record fields in the order of export columns and stored rows. New fields must be added at the end."""
