"""What a completion cost."""

from typing import Final

from cache_index.value import Value


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
