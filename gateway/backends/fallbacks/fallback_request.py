"""The properties of a request that decide which fallback can serve it."""

import msgspec


class FallbackRequest(msgspec.Struct, frozen=True):
    """Request properties known before sending. Token counts may be fractional estimates."""

    prompt_tokens: float
    """Prompt length in tokens. It is exact if the workers' tokenizer is known, and other tokenizers may count
    differently.
    """
    max_tokens: int | None
    """Output limit that the client set, in tokens, or None."""
    expected_output_tokens: float
    """Typical output length of the model in tokens."""
    team: str
    path: str
    """Path of the API endpoint, such as ``/v1/chat/completions``."""
