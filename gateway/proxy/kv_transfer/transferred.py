"""Correct the number of cached tokens for a prompt that another worker computed.

A decode worker reports all tokens that it fetched as cached. Only the tokens that the prefill worker had cached were
saved. Therefore the prefill worker's count replaces the decode worker's count in answers and in the ledger.
"""

import re
from collections.abc import Callable

from gateway.protocol.sse import ChunkObserver
from gateway.protocol.usage import Usage

MAX_HELD = 64 * 1024
"""Maximum size in bytes of an incomplete event to hold, which is also the limit for other streams."""

_cached = re.compile(rb'("cached_tokens"\s*:\s*)(\d+)').sub
"""Pattern for the `cached_tokens` key. It never matches text in a JSON string, because quotation marks in the string
are escaped.
"""


def replace_cached_tokens(data: bytes, cached_tokens: int | None) -> bytes:
    """Return *data*, which is JSON or events, with *cached_tokens* as the number of cached tokens, or unchanged if it
    is None. O(bytes).
    """
    if cached_tokens is None or b'"cached_tokens"' not in data:
        return data
    return _cached(rb"\g<1>%d" % cached_tokens, data)


class TransferredObserver(ChunkObserver):
    """Observer for a stream whose prompt another worker computed.

    The function *cached_tokens* returns the prefill worker's count of cached tokens, or None until it is known.
    """

    __slots__ = ("_cached_tokens",)

    def __init__(self, cached_tokens: Callable[[], int | None], *, strip_usage: bool, max_held: int) -> None:
        super().__init__(strip_usage=strip_usage, max_held=max_held)
        self._cached_tokens = cached_tokens

    def _visible(self, whole: bytes) -> bytes:
        passes = super()._visible(whole)
        return replace_cached_tokens(passes, self._cached_tokens()) if b'"cached_tokens"' in passes else passes

    def _may_data_pass(self, data: bytes, event: bytes) -> bool:
        passes = super()._may_data_pass(data, event)
        self.usage = with_cached_tokens(self.usage, self._cached_tokens())
        return passes

    def finish(self) -> bytes:
        return replace_cached_tokens(super().finish(), self._cached_tokens())


def with_cached_tokens(usage: Usage | None, cached_tokens: int | None) -> Usage | None:
    """Return the decode worker's *usage* with the prefill worker's number *cached_tokens*, or unchanged if either
    number is unknown.
    """
    if usage is None or cached_tokens is None or usage.cached_tokens is None:
        return usage
    return usage.changed(cached_tokens=min(cached_tokens, usage.prompt_tokens))
