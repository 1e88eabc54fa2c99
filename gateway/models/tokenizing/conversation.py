"""The messages of a chat as a chat template gets them.

vLLM puts them in one form first (`vllm/renderers/chat_utils.py`, parse_chat_messages; 0.32): a template sees only the
fields that it can know, content is text or parts according to what the template walks over, empty texts are dropped,
and the arguments of tool calls are objects. `vllm/renderers/hf.py` then turns developers into systems for templates
that know no developers.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gateway.models.tokenizing.asked import JsonObject
from gateway.models.tokenizing.exactness import Unknowable

ContentFormat = Literal["string", "openai"]
"""Form of a message's content for a template: one string, or a list of parts."""

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
"""Kinds of content parts that are no text, by what templates call them."""

_PART_FIELDS = frozenset(
    {
        *("audio_embeds", "audio_url", "closed", "data", "file", "image_embeds", "image_pil", "image_url"),
        *("input_audio", "name", "prompt_cache_breakpoint", "refusal", "text", "thinking", "type", "uuid"),
        *("video_embeds", "video_url"),
    }
)
"""Fields of parts that vLLM knows, and so keeps from templates; others it passes on."""

_BILLING = "x-anthropic-billing-header"


@dataclass(frozen=True, slots=True)
class TemplateMessages:
    """Value of ``messages`` for a template."""

    messages: Sequence[JsonObject]
    has_media: bool = False


@dataclass(frozen=True, slots=True)
class TemplateForm:
    """Form in which a template takes its messages."""

    content: ContentFormat
    knows_developer: bool


def conversation_of(
    messages: Iterable[JsonObject], form: TemplateForm, *, media_mark: str | None = None
) -> TemplateMessages:
    """*messages* as a template of *form* gets them. They are left as they are. O(their size).

    *media_mark* stands as text for every image, clip or video; without it they are what they are to the template. To
    one that takes strings that is the engine's placeholder in front of the text, which is not known here and left out.

    Raises:
        Unknowable: a message is malformed, or has something that is not known here.
    """
    reader = _Reader(form, media_mark)
    read = [reader.message(message) for message in messages]
    if not form.knows_developer and any(message["role"] == "developer" for message in read):
        read = _with_one_system([_as_system(message) for message in read])
    return TemplateMessages(read, reader.has_media)


class _Reader:
    """Reads the messages of one conversation, and remembers whether there was media in it."""

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
        """Texts that are not empty, a line break between them; what stands for media is in front."""
        texts = [part["text"] for part in parts if part.get("text")]
        if len(texts) < len(parts) and any(part["type"] != "text" for part in parts):
            texts.insert(0, self._media_mark or "")
        return "\n".join(texts)

    def _part(self, part: Any) -> JsonObject | None:
        """*part* as ``{"type", "text"}``, or ``{"type"}`` of media, each with the fields that vLLM does not know."""
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
    """A system prompt without the line in which Claude Code says something else with every request."""
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
    """A tool call with its arguments as an object; its keys stay in their order, which a template may show."""
    if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(call.get("id"), str):
        raise Unknowable("malformed")
    function = call.get("function")
    if not isinstance(function, dict) or not all(isinstance(function.get(key), str) for key in ("name", "arguments")):
        raise Unknowable("malformed")
    return {**call, "function": {**function, "arguments": _arguments(function["arguments"])}}


def _arguments(written: str) -> JsonObject:
    """Return the arguments of a call; anything but an object is empty, as in vLLM: old turns must not end a
    conversation.
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
    """All system messages as one, in front; as they are where the only one stands there already."""
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
