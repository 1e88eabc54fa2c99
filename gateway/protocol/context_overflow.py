"""Detection of errors that say that a prompt and its requested output are too long for a model.

The texts come from vLLM, SGLang, Bedrock's models, Anthropic and OpenAI, from their sources and from user reports.
After such an error, a model with a longer context may still serve the request.
"""

import re

_TOO_LONG = re.compile(
    r"input is too long|prompt is too long|too many (?:input|total) (?:tokens|text bytes)|input tokens exceeded"
    r"|exceeds? (?:the )?(?:context limit|model maximum|maximum (?:context|input|sequence) length|context window)"
    r"|exceeds? (?:the )?(?:model.s )?max(?:imum)? (?:context|input|number of (?:input )?tokens|model length)"
    r"|maximum context length (?:is|of)|longer than the (?:maximum model|model.s context) length"
    r"|reduce the length of the (?:messages|input|prompt)|context_length_exceeded",
    re.IGNORECASE,
).search

MAX_READ_BYTES = 2**14
"""Maximum number of bytes to search in an error body. Some engines quote the prompt after the reason."""


def is_overflow(message: str) -> bool:
    """Return whether *message* says that the prompt and its output do not fit into the context."""
    return _TOO_LONG(message) is not None


def says_overflow(status: int, body: bytes) -> bool:
    """Return whether an answer with *status* and *body* is an error about the context length. Only statuses 400, 413
    and 422 can be such errors.
    """
    if status == 413:
        return True
    return status in {400, 422} and is_overflow(body[:MAX_READ_BYTES].decode("utf-8", "ignore"))
