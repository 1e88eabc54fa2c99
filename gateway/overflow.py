"""How engines and APIs say that a prompt is too long for a model, or for the output that was asked for.

The words are those of vLLM and SGLang, of Bedrock's models, of Anthropic and of OpenAI, as seen in their sources and in
reports of their users. A refusal of one model for its length is no reason not to ask one with more room.
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
"""Of an error body that are searched: some engines quote the prompt behind the reason."""


def is_overflow(message: str) -> bool:
    """Whether *message* says that the prompt, or the prompt and the output together, do not fit into the context."""
    return _TOO_LONG(message) is not None


def says_overflow(status: int, body: bytes) -> bool:
    """Whether an answer with *status* and *body* is such a refusal. Statuses other than 400, 413 and 422 are not."""
    if status == 413:
        return True
    return status in {400, 422} and is_overflow(body[:MAX_READ_BYTES].decode("utf-8", "ignore"))
