"""Token usage of a completion."""

from typing import Final

from cache_index.native import mypyc_attr
from cache_index.value import Value
from gateway.protocol.errors import DECODE_ERRORS
from gateway.protocol.json_fields import UsageFields, decode_answer


@mypyc_attr(acyclic=True)
class Usage(Value):
    """Number of tokens that a completion used, as counted by the engine."""

    __match_args__ = ("prompt_tokens", "completion_tokens", "cached_tokens")
    __slots__ = __match_args__

    def __init__(
        self,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int | None = None,
    ) -> None:
        self.prompt_tokens: Final = prompt_tokens
        self.completion_tokens: Final = completion_tokens
        self.cached_tokens: Final = cached_tokens
        """Number of prompt tokens whose KV cache was reused, or None if the engine does not report it (vLLM and SGLang
        need a flag).
        """


def usage_from(fields: UsageFields) -> Usage:
    details = fields.prompt_tokens_details
    return Usage(fields.prompt_tokens, fields.completion_tokens or 0, details.cached_tokens if details else None)


def usage_of(body: bytes) -> Usage | None:
    """Return the usage in an answer that is not a stream, or None if the answer contains no usage.

    Takes O(bytes): 0.6 us for 1 kB, and 25 us for 100 kB. A search for the last ``"usage"`` would take 3 us for any
    size, but may find the key of another object.
    """
    try:
        answer = decode_answer(body)
    except DECODE_ERRORS:
        return None
    return None if answer.usage is None else usage_from(answer.usage)
