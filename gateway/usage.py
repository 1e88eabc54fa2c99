"""What a completion cost."""

from typing import Final

from cache_index.value import Value
from gateway.unreadable import UNREADABLE
from gateway.usage_fields import UsageFields, decode_answer


class Usage(Value):
    """What a completion cost, as the engine counted it. In tokens."""

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
        """Prompt tokens whose KV was in the cache; None where the engine does not say (vLLM and SGLang need a flag)."""


def usage_told(told: UsageFields) -> Usage:
    details = told.prompt_tokens_details
    return Usage(told.prompt_tokens, told.completion_tokens or 0, details.cached_tokens if details else None)


def usage_of(body: bytes) -> Usage | None:
    """The usage in the answer to a request that did not stream; None if there is none.

    O(bytes): 0.6 us for 1 kB, 25 us for 100 kB. To search for the last ``"usage"`` would take 3 us whatever the size,
    and that one may be a key of something else.
    """
    try:
        answer = decode_answer(body)
    except UNREADABLE:
        return None
    return None if answer.usage is None else usage_told(answer.usage)
