"""Properties of a request that determine which fallback can answer it."""

import msgspec


class FallbackRequest(msgspec.Struct, frozen=True):
    """Request properties that are known before sending. Token counts can be fractional estimates."""

    prompt_tokens: float
    """Prompt length in tokens. It is exact if the workers' tokenizer is known, but other tokenizers can count
    differently.
    """
    max_tokens: int | None
    """Output limit in tokens that the client set, or None."""
    expected_output_tokens: float
    """Typical output length of the model in tokens."""
    team: str
    path: str
    """Path of the API endpoint, such as ``/v1/chat/completions``."""
