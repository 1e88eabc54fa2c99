"""The ledger record of one request, as it is read and exported. It contains no prompt and no secret."""

from typing import Literal

import msgspec

Outcome = Literal["ok", "aborted", "failed", "lost"]
"""lost: the gateway died, and the record has what was reserved."""


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Fields of an export. Tokens are counted, not weighted."""

    time: str
    """Time when the request ended, RFC 3339 in UTC, to the millisecond. lost: when it was reserved."""
    request_id: str
    team: str
    project: str | None
    key: str
    """Public id."""
    user: str | None
    """End user that the caller named."""
    model_asked: str
    model: str
    """Configured name."""
    backend: str | None
    """Id of the worker, or ``bedrock``."""
    outcome: Outcome
    status: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    saved_usd: float
    """Price difference of the cached tokens."""
    fell_back: bool
    ttft_ms: float | None
    duration_ms: float


FIELDS = UsageRecord.__struct_fields__
"""Fields in the order of columns and stored rows. New ones are added at the end."""
