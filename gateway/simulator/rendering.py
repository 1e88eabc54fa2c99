"""The chat template: messages and tools as one text, in the manner of ChatML. Tools come first."""

from collections.abc import Sequence
from typing import Any

import msgspec

_STABLE_JSON = msgspec.json.Encoder(order="deterministic")


def render_chat(
    messages: Sequence[dict[str, Any]],
    *,
    tools: Sequence[Any] = (),
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
) -> str:
    """Everything of a message that a model would see, in order: a change in one changes the text from there on."""
    parts = []
    if tools:
        parts.append("<|im_start|>tools\n" + "\n".join(_json(tool) for tool in tools) + "<|im_end|>\n")
    parts.extend(f"<|im_start|>{message['role']}\n{_message_text(message)}<|im_end|>\n" for message in messages)
    if continue_final_message:
        parts[-1] = parts[-1].removesuffix("<|im_end|>\n")
    elif add_generation_prompt:
        parts.append("<|im_start|>assistant\n")
    return "".join(parts)


def _message_text(message: dict[str, Any]) -> str:
    text = _content_text(message.get("content"))
    extras = {name: value for name, value in message.items() if name not in ("role", "content") and value is not None}
    return f"{text}\n{_json(extras)}" if extras else text


def _content_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(
        part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else _json(part)
        for part in content
    )


def _json(value: Any) -> str:
    return _STABLE_JSON.encode(value).decode()
