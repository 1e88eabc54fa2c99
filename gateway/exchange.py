"""One request on its way through: what is known of it so far, for its headers, its log line and its metrics."""

import msgspec

from gateway.sse import Usage
from routing.candidate import Source
from routing.reason import Reason


class Exchange(msgspec.Struct, eq=False):
    """Filled in as the request proceeds; times are monotonic seconds. It never holds the prompt or a key."""

    request_id: bytes
    path: str
    started: float
    model: str | None = None
    """The configured name; None until it is known that there is one."""
    strategy: str | None = None
    reason: Reason | None = None
    streams: bool = False
    backend: str | None = None
    """Who answers, or was tried last."""
    fell_back: bool = False
    """Bedrock answered."""
    hit_blocks: int = 0
    hit_tokens: float = 0.0
    """Of the prompt, that the chosen worker was believed to hold."""
    hit_source: Source | None = None
    prompt_blocks: int = 0
    attempts: int = 0
    status: int = 0
    """What the caller was told; 499 if it went away before anything was said."""
    error: str | None = None
    """Name of the fault: a class of gateway.errors, or Refused (4xx of a worker), or CallerGone."""
    first_byte: float | None = None
    usage: Usage | None = None
