"""What the ledger keeps of one request, as it is read and exported. Never a prompt, never a secret."""

from typing import Literal

import msgspec

Outcome = Literal["ok", "aborted", "failed", "lost"]
"""lost: the gateway died, and this is what had been reserved."""


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Fields as they are exported. Tokens are counted, not weighted."""

    time: str
    """When the request ended, RFC 3339 in UTC, to the millisecond. Of a lost one: when it was reserved."""
    request_id: str
    team: str
    project: str | None
    key: str
    """Public id."""
    user: str | None
    """The end user that the caller named."""
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
    """What the cached tokens would have cost more."""
    fell_back: bool
    ttft_ms: float | None
    duration_ms: float


FIELDS = UsageRecord.__struct_fields__
"""In the order of columns and stored rows; new ones are added at the end."""
