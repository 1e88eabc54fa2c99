"""The prompt as bytes: what two requests must share from the front so that one can use the other's KV cache.

Without the model's tokenizer nobody can know the exact tokens, but a prefix of the conversation is a prefix of the
tokens under every usual chat template. So the rendering here follows a template in what comes first (tools, then the
messages in order) and in nothing else. Three rules:

1. More messages at the end leave the rendering of those before as a byte prefix; a change shows from its place on.
2. How the client spelled its JSON (escapes, white space, a string or one text part) does not show.
3. The marks between the pieces are bytes that UTF-8 never uses, so no text can imitate them.

What templates drop or put at the very end (reasoning of earlier turns, the generation prompt) is left out.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

_HEAD = b"\xf8"
_MESSAGE = b"\xff"
_NAME = b"\xfe"
_CONTENT = b"\xfd"
_PART = b"\xfc"
_TOOL_CALLS = b"\xfb"
_TOOL_CALL_ID = b"\xfa"
_NEXT_PROMPT = b"\xf9"
_NEXT_TOKEN_PROMPT = b"\xff\xff\xff\xff"  # keeps the four-byte step; no vocabulary reaches this id

_LONGEST_WHOLE = 256
"""Characters of a string in a media part that stay as they are.

A data URL is megabytes long but worth some hundred tokens: a longer string stands as its digest, so that it keeps its
identity and does not pose as a long prompt.
"""

_encoded = msgspec.json.Encoder().encode

Part = str | dict[str, Any]


class Message(msgspec.Struct, gc=False):
    """What a chat template reads of one message; other keys are ignored."""

    role: str
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    tool_call_id: str | None = None


def chat_prompt(messages: Iterable[Message], *, head: Mapping[str, Any] | None = None) -> bytes:
    """The rendering of a conversation. *head* holds what templates put before the messages: tools and the like."""
    pieces: list[bytes] = [_HEAD, _encoded(head)] if head else []
    for message in messages:
        pieces += (_MESSAGE, message.role.encode())
        if message.name is not None:
            pieces += (_NAME, message.name.encode())
        content = message.content
        if isinstance(content, str):
            pieces += (_CONTENT, content.encode())
        elif content:
            _add_parts(pieces, content)
        if message.tool_call_id is not None:
            pieces += (_TOOL_CALL_ID, message.tool_call_id.encode())
        if message.tool_calls:
            pieces += (_TOOL_CALLS, _encoded(message.tool_calls))
        if message.function_call:
            pieces += (_TOOL_CALLS, _encoded(message.function_call))
    return b"".join(pieces)


def text_prompt(prompts: Sequence[str]) -> bytes:
    """The prompts of a text completion, one after the other.

    Several prompts are several sequences to the engine. In order, the first decides the match and every one counts as
    work: a batch that comes again finds all of itself, and batches with the same first prompt meet on one worker.
    """
    return _NEXT_PROMPT.join([prompt.encode() for prompt in prompts])


def token_prompt(prompts: Sequence[Sequence[int]]) -> bytes:
    """Prompts given as token ids: four bytes each, little-endian, one prompt after the other as in `text_prompt`.

    Raises:
        ValueError: an id is negative or does not fit.
    """
    try:
        return _NEXT_TOKEN_PROMPT.join([struct.pack(f"<{len(prompt)}I", *prompt) for prompt in prompts])
    except struct.error as error:
        raise ValueError("a token id must be between 0 and 4294967295") from error


def embeds_prompt(embeds: Any) -> bytes:
    """Prompt embeddings by their digest: equal ones meet, nothing is shared between different ones."""
    return _PART + hashlib.sha256(_encoded(embeds)).digest()


def _add_parts(pieces: list[bytes], parts: list[Part]) -> None:
    mark = _CONTENT
    for part in parts:
        text = part if isinstance(part, str) else _text_of(part)
        if text is None:
            pieces += (_PART, _encoded(_identity(part)))
        else:
            pieces += (mark, text.encode())
        mark = _PART + _CONTENT


def _text_of(part: dict[str, Any]) -> str | None:
    """The text of a text part, alone: a ``cache_control`` that wanders from turn to turn must not change the prefix."""
    text = part.get("text")
    return text if isinstance(text, str) and part.get("type", "text") == "text" else None


def _identity(value: Any) -> Any:
    """The JSON *value* with every long string in it replaced by its digest."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_WHOLE else hashlib.sha256(value.encode()).hexdigest()
    if isinstance(value, dict):
        return {key: _identity(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_identity(inner) for inner in value]
    return value
