"""How much of a worker's answer is held in memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    max_headers: int = 128
    """Header fields of one answer; Apache and Python's http.client allow 100."""
    max_head_bytes: int = 65_536
    """Names and values of all header fields; also framing (chunk extensions, trailers, 1xx) without any body."""
    high_water_bytes: int = 65_536
    """Unread body above this stops the reading from the socket until the reader has taken it (asyncio's own default for
    writing). One receive, at most 256 KiB, can come on top."""
