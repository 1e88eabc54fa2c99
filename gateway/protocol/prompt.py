"""Prompt of a request as bytes. Two requests with a common prefix of these bytes can share the KV cache of that prefix.

The exact tokens are unknown without the model's tokenizer. But with every usual chat template, a prefix of the
conversation is a prefix of the tokens. So this rendering has the order of a template (tools, then messages) and leaves
out all other details. It follows three rules:

1. The rendering of a conversation is a byte prefix of the rendering of a longer one. A change affects only the bytes
   after it.
2. The spelling of the JSON (escapes, white space, a string or one text part) does not matter.
3. The separators between the pieces are bytes that UTF-8 never uses, so text cannot contain them.

Parts that templates drop or put at the end (reasoning of earlier turns, the generation prompt) are left out.
"""

import codecs
import hashlib
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.protocol.json_fields import ChatMessage, ContentPart

_HEAD = b"\xf8"
_MESSAGE = b"\xff"
_NAME = b"\xfe"
_CONTENT = b"\xfd"
_PART = b"\xfc"
_TOOL_CALLS = b"\xfb"
_TOOL_CALL_ID = b"\xfa"
_NEXT_PROMPT = b"\xf9"
_NEXT_TOKEN_PROMPT = b"\xff\xff\xff\xff"  # four bytes, like an id; no vocabulary is so large

_MAX_STRING_LENGTH = 256
"""Maximum length in characters of a string in a media part that appears unchanged in the prompt bytes.

A data URL has megabytes but only some hundred tokens. A longer string is replaced by its digest, which identifies it
without making the prompt look long.
"""

_MAX_DEPTH = 256
"""Maximum nesting depth of a media part. The media parts that engines accept have three levels."""

_MAX_PIECES = 4096
"""Maximum number of pieces to join at a time, because ``bytes.join`` needs 80 bytes of memory for each piece."""

_BILLING = "x-anthropic-billing-header"
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_CACHE_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Keys with which callers of Anthropic's and OpenAI's APIs mark the end of a reusable prefix. The marks move from turn
to turn, so they must not change the prompt bytes.
"""
_UNRENDERED = frozenset({"id", "status"}) | _CACHE_MARKS
"""Keys of Responses items and content blocks that do not affect the prompt bytes, because a server sets them or because
they control a cache.
"""

_SEPARATORS = re.compile(rb"([\xf8-\xff])")
_WITHOUT_WORDS = frozenset({_MESSAGE, _NAME, _TOOL_CALL_ID, _PART})
"""Separators before pieces that are not text of the conversation."""

_encoded = msgspec.json.Encoder().encode

Item = dict[str, Any]
"""Input item of the Responses API, or content block of the Messages API."""


def chat_prompt(messages: Iterable[ChatMessage], *, head: Mapping[str, Any] | None = None) -> bytes:
    """Render a conversation as bytes. *head* has the fields that templates put before the messages, such as tools."""
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


def responses_prompt(
    instructions: str | None, items: str | Iterable[Item], *, head: Mapping[str, Any] | None = None
) -> bytes:
    """Render the *instructions* and the input items *items* of the Responses API as bytes.

    Callers send the items of earlier responses back with ids and states, which no template renders. So only the parts
    that a chat would have are rendered. Reasoning is left out, as in `chat_prompt`.
    """
    messages = [ChatMessage(role="system", content=instructions)] if instructions else []
    if isinstance(items, str):
        messages.append(ChatMessage(role="user", content=items))
    else:
        messages += [_message_of(item) for item in items if item.get("type") != "reasoning"]
    return chat_prompt(messages, head=head)


def messages_prompt(
    system: str | Sequence[Item] | None, turns: Iterable[ChatMessage], *, head: Mapping[str, Any] | None = None
) -> bytes:
    """Render a conversation of Anthropic's Messages API as bytes.

    Two parts are left out because no template renders them. These are the marks for Anthropic's own cache
    (``cache_control``), which move from turn to turn, and the billing header of Claude Code. vLLM drops that header
    because its hash differs in every request (vllm#36829).
    """
    messages: list[ChatMessage] = []
    if text := system if isinstance(system, str) else _system_text(system or ()):
        messages.append(ChatMessage(role="system", content=text))
    for turn in turns:
        messages += _messages_of(turn)
    return chat_prompt(messages, head=head)


def without_cache_marks(value: Any) -> Any:
    """Return the JSON value *value*, which can be a list, without the cache marks of its objects."""
    if isinstance(value, list):
        return [without_cache_marks(inner) for inner in value]
    if isinstance(value, dict) and not _CACHE_MARKS.isdisjoint(value):
        return {key: inner for key, inner in value.items() if key not in _CACHE_MARKS}
    return value


def text_prompt(prompts: Sequence[str]) -> bytes:
    """Render the prompts of a text completion as bytes, one after another.

    An engine treats several prompts as several sequences. In this rendering, the first prompt decides the match, and
    every prompt counts as work. A repeated batch matches completely, and batches with the same first prompt share a
    worker.
    """
    if len(prompts) <= _MAX_PIECES:
        return joined([prompt.encode() for prompt in prompts])
    starts = range(0, len(prompts), _MAX_PIECES)
    return joined([text_prompt(prompts[start : start + _MAX_PIECES]) for start in starts])


def joined(prompts: Sequence[bytes]) -> bytes:
    """Join the rendered *prompts* of one request, as in `text_prompt`."""
    return _NEXT_PROMPT.join(prompts)


def token_prompt(prompts: Sequence[Sequence[int]]) -> bytes:
    """Render prompts of token ids as bytes, four little-endian bytes per id, joined as in `text_prompt`.

    Raises:
        ValueError: if an id is negative or does not fit into four bytes.
    """
    try:
        return _NEXT_TOKEN_PROMPT.join([struct.pack(f"<{len(prompt)}I", *prompt) for prompt in prompts])
    except struct.error as error:
        raise ValueError("a token id must be between 0 and 4294967295") from error


def embeds_prompt(embeds: Any) -> bytes:
    """Render prompt embeddings as a digest, so that only equal embeddings match."""
    return _PART + hashlib.sha256(_encoded(embeds)).digest()


def first_words(beginning: bytes, *, max_bytes: int) -> str:
    """Return the readable text at the *beginning* of a rendered prompt on one line, with at most *max_bytes* bytes.

    The text contains no roles, names and control characters. It is empty if the prompt consists of token ids or
    embeddings.
    """
    pieces = _SEPARATORS.split(_CONTENT + beginning)
    texts = [text for mark, text in zip(pieces[1::2], pieces[2::2], strict=True) if mark not in _WITHOUT_WORDS]
    found = b" ".join(texts)
    if b"\0" in found:
        return ""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(found)
    except UnicodeDecodeError:
        return ""
    words = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return words.encode()[:max_bytes].decode(errors="ignore").rstrip()


def _add_parts(pieces: list[bytes], parts: list[ContentPart]) -> None:
    mark = _CONTENT
    first = len(pieces)
    for part in parts:
        text = part if isinstance(part, str) else _text_of(part)
        if text is None:
            pieces += (_PART, _encoded(_identity(without_cache_marks(part))))
        else:
            pieces += (mark, text.encode())
        mark = _PART + _CONTENT
        if len(pieces) - first >= _MAX_PIECES:
            pieces[first:] = (b"".join(pieces[first:]),)
            first += 1


def _text_of(part: dict[str, Any]) -> str | None:
    """Return the text of a text part without its cache marks, or None for any other part."""
    text = part.get("text")
    return text if isinstance(text, str) and part.get("type", "text") == "text" else None


def _message_of(item: Item) -> ChatMessage:
    """Return the input item *item* of the Responses API as a chat message."""
    kind = item.get("type", "message")
    match kind:
        case "message":
            return ChatMessage(role=_string(item.get("role")), content=_content(item.get("content")))
        case "function_call" | "custom_tool_call":
            call = {key: item.get(key) for key in ("call_id", "name", "arguments", "input")}
            return ChatMessage(role="assistant", tool_calls=call)
        case "function_call_output" | "custom_tool_call_output":
            return ChatMessage(
                role="tool", content=_content(item.get("output")), tool_call_id=_string(item.get("call_id"))
            )
        case _:
            return ChatMessage(role=_string(kind), content=[_rendered_of(item)])


def _messages_of(turn: ChatMessage) -> list[ChatMessage]:
    """Return the message *turn* as chat messages. Tool results come first, because they are separate messages."""
    if not isinstance(turn.content, list):
        return [turn]
    results: list[ChatMessage] = []
    parts: list[ContentPart] = []
    calls: list[Item] = []
    for block in turn.content:
        match {} if isinstance(block, str) else block:
            case {"type": "tool_result", **result}:
                called = _string(result.get("tool_use_id"))
                results.append(ChatMessage(role="tool", content=_content(result.get("content")), tool_call_id=called))
            case {"type": "tool_use", **call}:
                calls.append({key: call.get(key) for key in ("id", "name", "input")})
            case {"type": "thinking" | "redacted_thinking"}:
                pass
            case _:
                parts.append(_part(block))
    if parts or calls or not results:
        results.append(ChatMessage(role=turn.role, content=parts, tool_calls=calls))
    return results


def _system_text(blocks: Iterable[Item]) -> str:
    """Join the texts of a system prompt that is given in blocks, in the same way as vLLM."""
    texts = [_string(block.get("text")) for block in blocks if block.get("type", "text") == "text"]
    return "".join([text for text in texts if not text.startswith(_BILLING)])


def _content(content: Any) -> str | list[ContentPart] | None:
    return [_part(part) for part in content] if isinstance(content, list) else _string(content)


def _part(part: Any) -> ContentPart:
    """Return the text of a text part, or any other part without the keys that templates ignore."""
    if not isinstance(part, dict):
        return _string(part)
    match part:
        case {"text": str(text), "type": str(kind)} if kind in _TEXT_PARTS:
            return text
        case {"text": str(text)} if "type" not in part:
            return text
    return _rendered_of(part)


def _rendered_of(item: Item) -> Item:
    return {key: value for key, value in item.items() if key not in _UNRENDERED}


def _string(value: Any) -> str:
    """Return *value* if it is a string, or otherwise its JSON text. The engine will report the wrong type."""
    if isinstance(value, str):
        return value
    return "" if value is None else _encoded(value).decode()


def _identity(value: Any, depth: int = 0) -> Any:
    """Return the JSON value *value* with digests in place of long strings. A value without long strings is not copied.

    Raises:
        RecursionError: if *value* is nested more deeply than `_MAX_DEPTH`. Compiled code has no other limit.
    """
    if isinstance(value, str):
        return value if len(value) <= _MAX_STRING_LENGTH else hashlib.sha256(value.encode()).hexdigest()
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        pairs = _identities(value.items(), depth + 1)
        changed = {key: inner for key, inner in pairs if inner is not value[key]}
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        pairs = _identities(enumerate(value), depth + 1)
        changed = {place: inner for place, inner in pairs if inner is not value[place]}
        return [changed.get(place, inner) for place, inner in enumerate(value)] if changed else value
    return value


def _identities(pairs: Iterable[tuple[Any, Any]], depth: int) -> Iterable[tuple[Any, Any]]:
    return ((place, _identity(inner, depth)) for place, inner in pairs)
