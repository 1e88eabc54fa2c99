"""The ways in which another worker can go on with a stream, and the call for each."""

from enum import Enum

import msgspec
from msgspec import Raw

from gateway.backends.backend import Call
from gateway.proxy.continuation.calls import KEPT, by_text, by_tokens
from gateway.proxy.continuation.eligibility import Fields
from gateway.proxy.continuation.transcript import Transcript


class Way(Enum):
    """The way in which a worker begins its part of a stream."""

    AS_ASKED = "as asked"
    """The caller's own request, from the beginning."""
    TOKENS = "tokens"
    TEXT = "text"


class Resumption:
    """Decides whether another worker goes on by tokens, by text or from the beginning, and makes its call."""

    __slots__ = ("_fields", "_least", "_may_by_text", "_may_by_tokens", "call", "max_tokens")

    def __init__(
        self, call: Call, fields: Fields, *, max_tokens: int | None, may_by_tokens: bool, may_by_text: bool
    ) -> None:
        """*max_tokens* is the limit of the answer; None: as many tokens as fit."""
        if not may_by_text:  # an uncopied value keeps the whole body in memory
            fields = {name: value.copy() for name, value in fields.items() if name in KEPT}
        self.call = call
        """The first call, which asks for token ids. Its body is dropped when it is of no use any more."""
        self.max_tokens = max_tokens
        self._fields: Fields = fields
        self._least = _number(fields.get("min_tokens"))
        self._may_by_tokens = may_by_tokens
        self._may_by_text = may_by_text

    def way(self, transcript: Transcript, *, has_content: bool, has_reasoned: bool) -> Way | None:
        """Return how another worker can go on after *transcript*; None if it cannot.

        *has_content* and *has_reasoned* say what the caller has seen of the answer.
        """
        if not has_content:
            return None if has_reasoned else Way.AS_ASKED
        if self.is_full(transcript):
            return None
        if self._may_by_tokens and transcript.has_ids and transcript.prompt is not None:
            return Way.TOKENS
        return Way.TEXT if self._may_by_text and not has_reasoned else None

    def is_full(self, transcript: Transcript) -> bool:
        """Return whether the answer has as many tokens as it may have."""
        return self.max_tokens is not None and transcript.settled_tokens >= self.max_tokens

    def next_call(self, way: Way | None, transcript: Transcript) -> Call | None:
        """Return the call to go on in this *way*; None if it cannot go on. O(tokens)."""
        most = self.max_tokens and self.max_tokens - transcript.settled_tokens
        least = max(0, self._least - transcript.settled_tokens)
        if way is Way.TOKENS:
            return by_tokens(self.call, self._fields, transcript.settled, most=most, least=least)
        if way is Way.TEXT:
            return by_text(self.call, self._fields, transcript.text, most=most, least=least)
        return self.call if way is Way.AS_ASKED else None

    def forget_body(self) -> None:
        """Drop the body of the first call unless text needs it: the answer does not begin again."""
        if not self._may_by_text:
            self.call = self.call.changed(body=b"")


def _number(value: Raw | None) -> int:
    """Return *value*, or 0 if it is not a number; the engine refuses such a request."""
    number = None if value is None else msgspec.json.decode(value)
    return int(number) if isinstance(number, int | float) else 0
