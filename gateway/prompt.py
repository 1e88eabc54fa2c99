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

from gateway.body_fields import Message, Part

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

_DEEPEST = 256
"""Lists and objects within each other, in a media part; those that engines know have three."""

_MAX_PIECES = 4096
"""Pieces, of a message or of texts, that are joined at once: ``bytes.join`` takes 80 bytes of memory for each."""

_BILLING = "x-anthropic-billing-header"
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_UNRENDERED = frozenset({"id", "status", "cache_control"})
"""Of an item of the Responses API, or of a content block: what the server, or the caller for its cache, put there."""

_encoded = msgspec.json.Encoder().encode

Item = dict[str, Any]
"""Of the Responses API's input, or a content block of the Messages API."""


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


def responses_prompt(
    instructions: str | None, items: str | Iterable[Item], *, head: Mapping[str, Any] | None = None
) -> bytes:
    """The rendering of what the Responses API has as *instructions* and input *items*.

    The items that a response gave are given back by the caller with ids and states that no template renders, so only
    what a chat would have of them shows. Reasoning is left out, as in `chat_prompt`.
    """
    messages = [Message(role="system", content=instructions)] if instructions else []
    if isinstance(items, str):
        messages.append(Message(role="user", content=items))
    else:
        messages += [_message_of(item) for item in items if item.get("type") != "reasoning"]
    return chat_prompt(messages, head=head)


def messages_prompt(
    system: str | Sequence[Item] | None, turns: Iterable[Message], *, head: Mapping[str, Any] | None = None
) -> bytes:
    """The rendering of a conversation of Anthropic's Messages API.

    Marks for Anthropic's own cache (``cache_control``) wander from turn to turn and reach no template; neither does the
    billing header of Claude Code, which vLLM drops since its hash differs in every request (vllm#36829).
    """
    messages: list[Message] = []
    if text := system if isinstance(system, str) else _system_text(system or ()):
        messages.append(Message(role="system", content=text))
    for turn in turns:
        messages += _messages_of(turn)
    return chat_prompt(messages, head=head)


def without_cache_marks(value: Any) -> Any:
    """The JSON *value*, which may be a list, without ``cache_control`` on its objects."""
    if isinstance(value, list):
        return [without_cache_marks(inner) for inner in value]
    if isinstance(value, dict) and "cache_control" in value:
        return {key: inner for key, inner in value.items() if key != "cache_control"}
    return value


def text_prompt(prompts: Sequence[str]) -> bytes:
    """The prompts of a text completion, one after the other.

    Several prompts are several sequences to the engine. In order, the first decides the match and every one counts as
    work: a batch that comes again finds all of itself, and batches with the same first prompt meet on one worker.
    """
    if len(prompts) <= _MAX_PIECES:
        return joined([prompt.encode() for prompt in prompts])
    starts = range(0, len(prompts), _MAX_PIECES)
    return joined([text_prompt(prompts[start : start + _MAX_PIECES]) for start in starts])


def joined(prompts: Sequence[bytes]) -> bytes:
    """Rendered *prompts* of one request, one after the other as in `text_prompt`."""
    return _NEXT_PROMPT.join(prompts)


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
    first = len(pieces)
    for part in parts:
        text = part if isinstance(part, str) else _text_of(part)
        if text is None:
            pieces += (_PART, _encoded(_identity(part)))
        else:
            pieces += (mark, text.encode())
        mark = _PART + _CONTENT
        if len(pieces) - first >= _MAX_PIECES:
            pieces[first:] = (b"".join(pieces[first:]),)
            first += 1


def _text_of(part: dict[str, Any]) -> str | None:
    """The text of a text part, alone: a ``cache_control`` that wanders from turn to turn must not change the prefix."""
    text = part.get("text")
    return text if isinstance(text, str) and part.get("type", "text") == "text" else None


def _message_of(item: Item) -> Message:
    """The message that a chat would have for an *item* of the Responses API."""
    kind = item.get("type", "message")
    match kind:
        case "message":
            return Message(role=_string(item.get("role")), content=_content(item.get("content")))
        case "function_call" | "custom_tool_call":
            call = {key: item.get(key) for key in ("call_id", "name", "arguments", "input")}
            return Message(role="assistant", tool_calls=call)
        case "function_call_output" | "custom_tool_call_output":
            return Message(role="tool", content=_content(item.get("output")), tool_call_id=_string(item.get("call_id")))
        case _:
            return Message(role=_string(kind), content=[_rendered_of(item)])


def _messages_of(turn: Message) -> list[Message]:
    """The messages that a chat would have for one *turn*: first the results of tools, which are messages there."""
    if not isinstance(turn.content, list):
        return [turn]
    results: list[Message] = []
    parts: list[Part] = []
    calls: list[Item] = []
    for block in turn.content:
        match {} if isinstance(block, str) else block:
            case {"type": "tool_result", **result}:
                called = _string(result.get("tool_use_id"))
                results.append(Message(role="tool", content=_content(result.get("content")), tool_call_id=called))
            case {"type": "tool_use", **call}:
                calls.append({key: call.get(key) for key in ("id", "name", "input")})
            case {"type": "thinking" | "redacted_thinking"}:
                pass
            case _:
                parts.append(_part(block))
    if parts or calls or not results:
        results.append(Message(role=turn.role, content=parts, tool_calls=calls))
    return results


def _system_text(blocks: Iterable[Item]) -> str:
    """The texts of a system prompt in blocks, put together as vLLM does."""
    texts = [_string(block.get("text")) for block in blocks if block.get("type", "text") == "text"]
    return "".join([text for text in texts if not text.startswith(_BILLING)])


def _content(content: Any) -> str | list[Part] | None:
    return [_part(part) for part in content] if isinstance(content, list) else _string(content)


def _part(part: Any) -> Part:
    """A content part with its text alone if it is one, else without what no template renders."""
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
    """*value* if it is a string, else its JSON: what is wrong is for the engine to say."""
    if isinstance(value, str):
        return value
    return "" if value is None else _encoded(value).decode()


def _identity(value: Any, depth: int = 0) -> Any:
    """The JSON *value* with every long string in it replaced by its digest; itself, and no copy, where it has none.

    Raises:
        RecursionError: it is nested more deeply than `_DEEPEST`. Compiled, nothing else would count.
    """
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_WHOLE else hashlib.sha256(value.encode()).hexdigest()
    if depth > _DEEPEST:
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
