"""Ledger record of one request in the form for readers and exports. It contains no prompt and no secret."""

from typing import Literal

import msgspec

Outcome = Literal["ok", "aborted", "failed", "lost"]
"""Outcomes of a request. ``lost`` means that the gateway died, so that the record contains the reserved amounts."""


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Fields of a ledger record in exports. Token counts are not weighted."""

    time: str
    """Time when the request ended, in RFC 3339 format, in UTC, to the millisecond. For a lost request, it is the time
    of the reservation.
    """
    request_id: str
    team: str
    project: str | None
    key: str
    """Public id of the API key that the caller used."""
    user: str | None
    """End user whom the caller named in the request."""
    model_asked: str
    model: str
    """Configured name of the model that answered the request."""
    backend: str | None
    """Id of the worker that answered the request, or ``bedrock``."""
    outcome: Outcome
    status: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    """Savings in US dollars because of cached tokens."""
    fell_back: bool
    ttft_ms: float | None
    duration_ms: float


FIELDS = UsageRecord.__struct_fields__
"""Fields of a record in the order of export columns and stored rows. New fields must be added at the end."""
