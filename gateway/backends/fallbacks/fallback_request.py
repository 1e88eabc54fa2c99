"""Facts about a request that decide which fallback may have it."""

import msgspec


class FallbackRequest(msgspec.Struct, frozen=True):
    """Facts known before anything is sent. Counts are tokens."""

    prompt_tokens: float
    """Exact where the workers' tokenizer is known, else estimated; a fallback with another tokenizer counts others."""
    max_tokens: int | None
    """The caller's own limit of the output; None if it set none."""
    expected_output_tokens: float
    """Usual length of the model's answers."""
    team: str
    path: str
    """Path of the endpoint, such as ``/v1/chat/completions``."""
