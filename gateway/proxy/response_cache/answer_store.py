"""Complete answers in memory, with limits on their bytes and their age."""

import re
from collections import OrderedDict
from typing import Final

from gateway.protocol.usage import Usage
from gateway.proxy.response_cache.request_key import COMPUTED

ENTRY_BYTES: Final = 600
"""Approximate memory in bytes of an answer besides its body: the key, the objects and the places in the tables."""
RECORDED_SHARE: Final = 0.25
"""Maximum size of all streams that are being recorded, as a share of the size of all kept answers."""

_finish_reasons = re.compile(rb'"finish_reason"\s*:\s*"([a-z_]*)"').findall
_is_error = re.compile(rb'\s*\{\s*"(?:error"|object"\s*:\s*"error")').match


class KeptAnswer:
    """Complete answer as it was sent to the first caller."""

    __slots__ = ("body", "kept_at", "media", "usage")

    def __init__(self, body: bytes, media: bytes, usage: Usage | None, kept_at: float) -> None:
        self.body = body
        self.media = media
        """Value of the header ``content-type``."""
        self.usage = usage
        """Usage that the engine reported when it computed the answer, or None."""
        self.kept_at = kept_at
        """Monotonic time in seconds at which the answer was complete."""

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES + len(self.body) + len(self.media)


def is_complete(path: str, body: bytes) -> bool:
    """Return whether *body*, the answer or the whole stream of a request to *path*, is neither cut nor an error.

    Takes O(bytes). Quotes inside texts are escaped, so only real fields match.
    """
    if path in COMPUTED:
        return _is_error(body) is None
    return set(_finish_reasons(body)) == {b"stop"}


class AnswerStore:
    """Answers by key. The answer that was not used for the longest time is removed first."""

    def __init__(self, *, max_bytes: int, max_answer_bytes: int, expire_s: float) -> None:
        self.max_bytes = max_bytes
        self.max_answer_bytes = max_answer_bytes
        self._expire_s = expire_s
        self._answers: OrderedDict[bytes, KeptAnswer] = OrderedDict()
        self._recorded_bytes = 0
        self.size_bytes = 0
        """Memory of all kept answers in bytes."""
        self.evicted = 0
        """Number of answers that were removed to make room for others."""

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, key: bytes, now: float) -> KeptAnswer | None:
        """Return the answer for *key*, or None if there is no answer or it is too old at the monotonic time *now*."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        if now - answer.kept_at >= self._expire_s:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return answer

    def keep(self, key: bytes, answer: KeptAnswer) -> None:
        """Keep *answer* for *key*, unless it is too large."""
        self._drop(key)
        if len(answer.body) > self.max_answer_bytes or answer.size_bytes > self.max_bytes:
            return
        self._answers[key] = answer
        self.size_bytes += answer.size_bytes
        while self.size_bytes > self.max_bytes:
            self._drop(next(iter(self._answers)))
            self.evicted += 1

    def may_record(self, size: int, added: int) -> bool:
        """Count *added* bytes of a stream that is being recorded, of which *size* bytes are recorded already. Return
        False, and count nothing, if the stream or all streams together become too large.
        """
        if size + added > self.max_answer_bytes:
            return False
        if self._recorded_bytes + added > self.max_bytes * RECORDED_SHARE:
            return False
        self._recorded_bytes += added
        return True

    def recorded(self, size: int) -> None:
        """Stop counting the *size* bytes of a recording that ended."""
        self._recorded_bytes -= size

    def _drop(self, key: bytes) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            self.size_bytes -= answer.size_bytes
