"""Choose how another worker continues a stream, and build the call to that worker."""

from enum import Enum

import msgspec
from msgspec import Raw

from gateway.backends.backend import Call
from gateway.proxy.continuation.calls import KEPT, by_text, by_tokens
from gateway.proxy.continuation.eligibility import Fields
from gateway.proxy.continuation.transcript import Transcript


class Way(Enum):
    """Ways in which another worker can begin its part of a stream."""

    AS_ASKED = "as asked"
    """The worker answers the caller's own request from the beginning."""
    TOKENS = "tokens"
    TEXT = "text"


class Resumption:
    """Choice whether another worker continues by token ids, by text or from the beginning, and the call to it."""

    __slots__ = ("_fields", "_least", "_may_by_text", "_may_by_tokens", "call", "max_tokens")

    def __init__(
        self, call: Call, fields: Fields, *, max_tokens: int | None, may_by_tokens: bool, may_by_text: bool
    ) -> None:
        """Prepare to continue an answer of at most *max_tokens* tokens, or as many as fit if it is None."""
        if not may_by_text:  # an uncopied value keeps the whole body in memory
            fields = {name: value.copy() for name, value in fields.items() if name in KEPT}
        self.call = call
        """Call to the first worker, which requests token ids. Its body is dropped when it is no longer needed."""
        self.max_tokens = max_tokens
        self._fields: Fields = fields
        self._least = _number(fields.get("min_tokens"))
        self._may_by_tokens = may_by_tokens
        self._may_by_text = may_by_text

    def way(self, transcript: Transcript, *, has_content: bool, has_reasoned: bool) -> Way | None:
        """Return how another worker can continue the answer after *transcript*, or None if no worker can.

        The flags *has_content* and *has_reasoned* report whether the caller has already received text or reasoning of
        the answer.
        """
        if not has_content:
            return None if has_reasoned else Way.AS_ASKED
        if self.is_full(transcript):
            return None
        if self._may_by_tokens and transcript.has_ids and transcript.prompt is not None:
            return Way.TOKENS
        return Way.TEXT if self._may_by_text and not has_reasoned else None

    def is_full(self, transcript: Transcript) -> bool:
        """Return whether the answer has reached its token limit."""
        return self.max_tokens is not None and transcript.settled_tokens >= self.max_tokens

    def next_call(self, way: Way | None, transcript: Transcript) -> Call | None:
        """Return the call that continues the answer in the way *way*, or None if *way* is None. O(tokens)."""
        most = self.max_tokens and self.max_tokens - transcript.settled_tokens
        least = max(0, self._least - transcript.settled_tokens)
        if way is Way.TOKENS:
            return by_tokens(self.call, self._fields, transcript.settled, most=most, least=least)
        if way is Way.TEXT:
            return by_text(self.call, self._fields, transcript.text, most=most, least=least)
        return self.call if way is Way.AS_ASKED else None

    def forget_body(self) -> None:
        """Drop the body of the first call when the answer can no longer start again. A continuation by text still needs
        the body.
        """
        if not self._may_by_text:
            self.call = self.call.changed(body=b"")


def _number(value: Raw | None) -> int:
    """Return the number in *value*, or 0 if *value* is not a number. The engine rejects a request with such a value."""
    number = None if value is None else msgspec.json.decode(value)
    return int(number) if isinstance(number, int | float) else 0
