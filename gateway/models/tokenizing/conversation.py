"""Messages of a chat in the form that chat templates receive.

vLLM first converts messages to one form (`vllm/renderers/chat_utils.py`, parse_chat_messages, 0.32). Templates get only
known fields. Content is text or parts, depending on the template. Empty texts are dropped, and arguments of tool calls
are objects. Then `vllm/renderers/hf.py` turns developer messages into system messages for templates without a developer
role.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gateway.models.tokenizing.asked import JsonObject
from gateway.models.tokenizing.exactness import Unknowable

ContentFormat = Literal["string", "openai"]
"""Form of message content for a template: "string" for one string, or "openai" for a list of parts."""

_TEXT_KEYS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_MEDIA = {
    "image_url": "image",
    "input_image": "image",
    "image_pil": "image",
    "image_embeds": "image",
    "audio_url": "audio",
    "input_audio": "audio",
    "audio_embeds": "audio",
    "video_url": "video",
    "video_embeds": "video",
}
"""Names in templates for the content part types that are not text."""

_PART_FIELDS = frozenset(
    {
        *("audio_embeds", "audio_url", "closed", "data", "file", "image_embeds", "image_pil", "image_url"),
        *("input_audio", "name", "prompt_cache_breakpoint", "refusal", "text", "thinking", "type", "uuid"),
        *("video_embeds", "video_url"),
    }
)
"""Fields of content parts that vLLM uses itself and hides from templates. Templates receive all other fields."""

_BILLING = "x-anthropic-billing-header"


@dataclass(frozen=True, slots=True)
class TemplateMessages:
    """Messages in the form of the template variable ``messages``."""

    messages: Sequence[JsonObject]
    has_media: bool = False


@dataclass(frozen=True, slots=True)
class TemplateForm:
    """Form in which a chat template expects its messages."""

    content: ContentFormat
    knows_developer: bool


def conversation_of(
    messages: Iterable[JsonObject], form: TemplateForm, *, media_mark: str | None = None
) -> TemplateMessages:
    """Return *messages* in the form that a template of *form* expects. The originals stay unchanged. O(size).

    *media_mark* is a text that replaces every image, audio clip or video. Without it, templates that take parts get
    media parts. Templates that take strings get only the text, because the placeholder of the engine is unknown.

    Raises:
        Unknowable: if a message is malformed, or has content that the gateway does not support.
    """
    reader = _Reader(form, media_mark)
    read = [reader.message(message) for message in messages]
    if not form.knows_developer and any(message["role"] == "developer" for message in read):
        read = _with_one_system([_as_system(message) for message in read])
    return TemplateMessages(read, reader.has_media)


class _Reader:
    """Reader of the messages of one conversation, which records whether they contain media."""

    def __init__(self, form: TemplateForm, media_mark: str | None) -> None:
        self._takes_parts = form.content == "openai"
        self._media_mark = media_mark
        self.has_media = False

    def message(self, message: JsonObject) -> JsonObject:
        role = message.get("role")
        if not isinstance(role, str):
            raise Unknowable("malformed")
        read: JsonObject = {"role": role, "content": self._content(role, message.get("content"))}
        if role == "assistant":
            _add_calls_and_reasoning(read, message)
        elif role == "tool" and "tool_call_id" in message:
            read["tool_call_id"] = message["tool_call_id"]
        for key in ("name", "task"):
            if isinstance(message.get(key), str):
                read[key] = message[key]
        if role == "developer":
            if message.get("tools") is not None:
                raise Unknowable("unsupported")
            read["tools"] = None
        return read

    def _content(self, role: str, content: Any) -> str | list[JsonObject]:
        if isinstance(content, str):
            if not self._takes_parts and not (role == "system" and content.startswith(_BILLING)):
                return content
            content = [content]
        elif content is None:
            content = []
        elif not isinstance(content, list):
            raise Unknowable("malformed")
        if role == "system":
            content = _without_billing(content)
        parts = [read for part in content if (read := self._part(part)) is not None]
        if not self._takes_parts:
            return self._joined(parts)
        if role == "tool" and all(part["type"] == "text" for part in parts):
            return "\n".join([part["text"] for part in parts])
        return parts

    def _joined(self, parts: list[JsonObject]) -> str:
        """Return the nonempty texts of *parts*, one per line. A marker for media comes first if there are any."""
        texts = [part["text"] for part in parts if part.get("text")]
        if len(texts) < len(parts) and any(part["type"] != "text" for part in parts):
            texts.insert(0, self._media_mark or "")
        return "\n".join(texts)

    def _part(self, part: Any) -> JsonObject | None:
        """Return a content part as ``{"type", "text"}``, or ``{"type"}`` for media, with the fields that vLLM does not
        know.
        """
        if isinstance(part, str):
            return {"type": "text", "text": part}
        if not isinstance(part, dict):
            raise Unknowable("malformed")
        kind = part.get("type")
        extras = {key: value for key, value in part.items() if key not in _PART_FIELDS}
        if isinstance(kind, str) and kind in _TEXT_KEYS and part.get("uuid") is None:
            text = part.get(_TEXT_KEYS[kind])
            if text is None:
                return None
            if not isinstance(text, str):
                raise Unknowable("malformed")
            return {"type": "text", "text": text, **extras}
        return self._media(part, extras)

    def _media(self, part: JsonObject, extras: JsonObject) -> JsonObject:
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in _MEDIA:
            kind = next((key for key in _MEDIA if key in part), None)
        if kind is None:
            raise Unknowable("unsupported")
        self.has_media = True
        if self._takes_parts and self._media_mark is not None:
            return {"type": "text", "text": self._media_mark}
        return {"type": _MEDIA[kind], **extras}


def _without_billing(content: list[Any]) -> list[Any]:
    """Return a system prompt without Claude Code's billing line, which is different in every request."""
    kept: list[Any] = []
    for part in content:
        is_text = isinstance(part, dict) and part.get("type") == "text"
        text = part if isinstance(part, str) else part.get("text") if is_text else None
        if not (isinstance(text, str) and text.startswith(_BILLING)):
            kept.append(part)
        elif rest := text.partition("\n")[2]:
            kept.append(rest if isinstance(part, str) else {**part, "text": rest})
    return kept


def _add_calls_and_reasoning(read: JsonObject, message: JsonObject) -> None:
    calls = message.get("tool_calls")
    if calls is not None:
        if not isinstance(calls, list):
            raise Unknowable("malformed")
        if calls:
            read["tool_calls"] = [_call(call) for call in calls]
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    if reasoning is not None:
        if not isinstance(reasoning, str):
            raise Unknowable("malformed")
        read["reasoning"] = read["reasoning_content"] = reasoning


def _call(call: Any) -> JsonObject:
    """Return a tool call with its arguments as an object. Keys keep their order, because templates can show it."""
    if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(call.get("id"), str):
        raise Unknowable("malformed")
    function = call.get("function")
    if not isinstance(function, dict) or not all(isinstance(function.get(key), str) for key in ("name", "arguments")):
        raise Unknowable("malformed")
    return {**call, "function": {**function, "arguments": _arguments(function["arguments"])}}


def _arguments(written: str) -> JsonObject:
    """Return the arguments of a tool call, or an empty object if they are not an object. vLLM does the same, so that an
    old message does not end a conversation.
    """
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _as_system(message: JsonObject) -> JsonObject:
    if message["role"] != "developer":
        return message
    return {**{key: value for key, value in message.items() if key != "tools"}, "role": "system"}


def _with_one_system(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the messages with all system messages merged into the first. If the only system message is already first,
    nothing changes.
    """
    systems = [message for message in messages if message["role"] == "system"]
    if len(systems) == 1 and messages[0] is systems[0]:
        return messages
    texts = [text for message in systems if (text := _text(message["content"]))]
    merged: JsonObject = {"role": "system", "content": "\n\n".join(texts)}
    return [merged, *(message for message in messages if message["role"] != "system")]


def _text(content: str | list[JsonObject]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join([part["text"] for part in content if "text" in part])
