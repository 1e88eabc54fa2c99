"""What the caller is told of cached tokens where a prompt was computed elsewhere.

A decode worker finds all that it fetched in its own cache, and says so. Nothing of that was saved: what was is what the
prefill worker found. So its number stands in for the other wherever it goes, in bytes and in the ledger.
"""

import re
from collections.abc import Callable

from gateway.sse import StreamTail
from gateway.usage import Usage

MAX_HELD = 64 * 1024
"""Bytes of an unfinished event, as of any stream."""

_cached = re.compile(rb'("cached_tokens"\s*:\s*)(\d+)').sub
"""A key. In a text, quotes of JSON stand behind backslashes, so that none looks the same."""


def told(data: bytes, cached_tokens: int | None) -> bytes:
    """*data*, JSON or events, with *cached_tokens* where the decode worker tells its own; None: as it is. O(bytes)."""
    if cached_tokens is None or b'"cached_tokens"' not in data:
        return data
    return _cached(rb"\g<1>%d" % cached_tokens, data)


class TransferredTail(StreamTail):
    """As `StreamTail`, of a stream whose prompt was computed elsewhere.

    *cached_tokens* gives what the prefill worker found in its cache, once that is known.
    """

    __slots__ = ("_cached_tokens",)

    def __init__(self, cached_tokens: Callable[[], int | None], *, strip_usage: bool, max_held: int) -> None:
        super().__init__(strip_usage=strip_usage, max_held=max_held)
        self._cached_tokens = cached_tokens

    def _watched(self, whole: bytes) -> bytes:
        passes = super()._watched(whole)
        return told(passes, self._cached_tokens()) if b'"cached_tokens"' in passes else passes

    def _may_data_pass(self, data: bytes, event: bytes) -> bool:
        passes = super()._may_data_pass(data, event)
        self.usage = usage_told(self.usage, self._cached_tokens())
        return passes

    def finish(self) -> bytes:
        return told(super().finish(), self._cached_tokens())


def usage_told(usage: Usage | None, cached_tokens: int | None) -> Usage | None:
    """*usage* of a decode worker, with the *cached_tokens* of the prefill worker where both tell any."""
    if usage is None or cached_tokens is None or usage.cached_tokens is None:
        return usage
    return usage.changed(cached_tokens=min(cached_tokens, usage.prompt_tokens))
