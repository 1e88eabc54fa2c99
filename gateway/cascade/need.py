"""What one request asks of a fallback."""

import msgspec


class Need(msgspec.Struct, frozen=True):
    """Known before anything is sent. Counts are tokens."""

    prompt_tokens: float
    """Exact where the workers' tokenizer is known, else estimated; a fallback with another tokenizer counts others."""
    max_tokens: int | None
    """The caller's own limit of the output; None if it set none."""
    expected_output_tokens: float
    """What the model's answers come to, where nobody says."""
    team: str
    path: str
    """Of the endpoint, e.g. ``/v1/chat/completions``."""
