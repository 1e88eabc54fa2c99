"""Body of Anthropic's ``/v1/messages``, converted to a chat in the same way as in vLLM.

In `vllm/entrypoints/anthropic/serving.py`, text parts stay parts, tool results become messages before the rest of their
turn, thinking becomes ``reasoning``, and the billing header of Claude Code is dropped.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.models.tokenizing.asked import AskedChat, JsonObject
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.json_body import decoded, text_or_none
from gateway.models.tokenizing.tools import functions_of

_BILLING = "x-anthropic-billing-header"


def asked_of_messages(raw: bytes) -> AskedChat:
    """Return the chat that the body *raw* represents. O(bytes).

    Raises:
        Unknowable: if *raw* is malformed, sets a reasoning effort (which vLLM handles by its own settings), or has a
            system message among its turns (whose effect depends on the template).
    """
    body = decoded(raw, _decoder)
    if body.output_config is not None and body.output_config.get("effort") is not None:
        raise Unknowable("unsupported")
    if body.thinking is not None and body.thinking.get("type") == "disabled":
        raise Unknowable("unsupported")
    system = _system_text(body.system)
    messages = [{"role": "system", "content": system}] if system else []
    for turn in body.messages:
        messages += _messages_of(turn)
    if not messages:
        raise Unknowable("malformed")
    return AskedChat(
        messages=messages,
        tools=None if body.tools is None else _tools(body.tools),
        tool_choice_none=body.tool_choice is not None and body.tool_choice.get("type") == "none",
        template_kwargs=body.chat_template_kwargs,
    )


class _Turn(msgspec.Struct, gc=False):
    role: str
    content: str | list[JsonObject]


class _Messages(msgspec.Struct, gc=False):
    messages: list[_Turn]
    system: str | list[JsonObject] | None = None
    tools: list[JsonObject] | None = None
    tool_choice: JsonObject | None = None
    thinking: JsonObject | None = None
    output_config: JsonObject | None = None
    chat_template_kwargs: JsonObject | None = None


_decoder = msgspec.json.Decoder(_Messages)


def _system_text(system: str | list[JsonObject] | None) -> str:
    if not isinstance(system, list):
        return system or ""
    texts = [text_or_none(block.get("text")) for block in system if block.get("type") == "text"]
    return "".join([text for text in texts if text and not text.startswith(_BILLING)])


def _tools(tools: list[JsonObject]) -> list[JsonObject] | None:
    if not tools:
        raise Unknowable("unsupported")  # vLLM passes the empty list on, and a template may tell it from none
    functions = []
    for tool in tools:
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):  # Anthropic's own tools have none, and vLLM refuses them
            raise Unknowable("malformed")
        functions.append(
            {
                "name": tool.get("name"),
                "description": tool.get("description"),
                "parameters": schema if "type" in schema else {**schema, "type": "object"},
                "strict": tool.get("strict"),
                "defer_loading": tool.get("defer_loading"),
            }
        )
    return functions_of(functions)


def _messages_of(turn: _Turn) -> Iterator[JsonObject]:
    """Yield the chat messages for the message *turn*: first the tool results, then one with all other parts."""
    if turn.role not in ("user", "assistant"):
        raise Unknowable("unsupported" if turn.role == "system" else "malformed")
    if isinstance(turn.content, str):
        yield {"role": turn.role, "content": turn.content}
        return
    parts: list[JsonObject] = []
    calls: list[JsonObject] = []
    thoughts: list[str] = []
    for block in turn.content:
        match block:
            case {"type": "text", "text": str(text)}:
                parts += [{"type": "text", "text": text}] if text else []
            case {"type": "tool_use"}:
                calls.append(_call(block))
            case {"type": "tool_result"} if turn.role == "user":
                yield _result(block)
            case {"type": "thinking", "thinking": str(thought)}:
                thoughts.append(thought)
            case {"type": "redacted_thinking"}:
                pass
            case {"type": "image"}:
                parts.append({"type": "image_url", "image_url": {"url": ""}})
            case _:
                raise Unknowable("unsupported")
    message = _message(turn.role, parts, calls, thoughts)
    if turn.role != "user" or "content" in message:
        yield message


def _message(role: str, parts: list[JsonObject], calls: list[JsonObject], thoughts: list[str]) -> JsonObject:
    message: JsonObject = {"role": role}
    if thoughts:
        message["reasoning"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    match parts:
        case []:
            pass
        case [{"type": "text", "text": text}]:
            message["content"] = text
        case _:
            message["content"] = parts
    return message


def _call(block: JsonObject) -> JsonObject:
    call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not call_id or not isinstance(call_id, str):  # vLLM makes one up, from the time
        raise Unknowable("unsupported")
    if not isinstance(name, str | None) or not isinstance(arguments, dict | None):
        raise Unknowable("malformed")
    return {
        "id": call_id,
        "function": {"arguments": json.dumps(arguments or {}), "name": name or ""},
        "type": "function",
    }


def _result(block: JsonObject) -> JsonObject:
    content: Any = block.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            raise Unknowable("unsupported")  # images become a message of their own, references yet another
        content = "\n".join([text_or_none(part.get("text", "")) or "" for part in content])
    return {
        "role": "tool",
        "tool_call_id": text_or_none(block.get("tool_use_id")) or "",
        "content": text_or_none(content) or "",
    }
