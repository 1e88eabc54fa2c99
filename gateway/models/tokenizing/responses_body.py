"""Body of ``/v1/responses``, converted to a chat in the same way as in vLLM.

In `vllm/entrypoints/openai/responses/utils.py`, construct_input_messages, instructions come first. Adjacent reasoning,
text and tool calls become one assistant message.
"""

from typing import Any

import msgspec

from gateway.models.tokenizing.asked import AskedChat, JsonObject
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.json_body import decoded, text_or_none
from gateway.models.tokenizing.tools import functions_of


def asked_of_responses(raw: bytes) -> AskedChat:
    """Return the chat that the body *raw* represents. O(bytes).

    Raises:
        Unknowable: if *raw* is malformed, continues a stored response, or has an item or a tool that only some versions
            of vLLM support.
    """
    body = decoded(raw, _decoder)
    if body.previous_response_id:
        raise Unknowable("elsewhere")
    if body.truncation not in (None, "disabled"):
        raise Unknowable("truncated")
    messages: list[JsonObject] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        messages.append({"role": "user", "content": body.input})
    else:
        _add_items(messages, body.input)
    if not messages:
        raise Unknowable("malformed")
    effort = None if body.reasoning is None else text_or_none(body.reasoning.get("effort"))
    return AskedChat(
        messages=messages,
        tools=_tools(body.tools or []),
        tool_choice_none=body.tool_choice == "none",
        template_kwargs=body.chat_template_kwargs,
        reasoning_effort=effort,
    )


class _Responses(msgspec.Struct, gc=False):
    input: str | list[JsonObject]
    instructions: str | None = None
    tools: list[JsonObject] | None = None
    tool_choice: Any = None
    reasoning: JsonObject | None = None
    chat_template_kwargs: JsonObject | None = None
    truncation: Any = None
    previous_response_id: str | None = None


_decoder = msgspec.json.Decoder(_Responses)


def _tools(tools: list[JsonObject]) -> list[JsonObject] | None:
    if any(tool.get("type") != "function" for tool in tools):
        raise Unknowable("unsupported")
    return functions_of([{key: value for key, value in tool.items() if key != "type"} for tool in tools])


def _add_items(messages: list[JsonObject], items: list[JsonObject]) -> None:
    for item in items:
        if item.get("status") in ("in_progress", "incomplete"):  # of the last one, that means to go on with it
            raise Unknowable("unsupported")
        match item.get("type", "message"):
            case "message":
                _add_message(messages, item)
            case "function_call":
                _add_call(messages, item)
            case "function_call_output":
                messages.append({"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")})
            case "reasoning":
                _fill_or_add(messages, "reasoning", _reasoning(item))
            case _:
                raise Unknowable("unsupported")


def _add_message(messages: list[JsonObject], item: JsonObject) -> None:
    role, content = item.get("role"), item.get("content")
    if role != "assistant":
        messages.append({"role": role, "content": content})
        return
    if isinstance(content, list):
        if len(content) != 1 or not isinstance(content[0], dict):
            raise Unknowable("unsupported")  # vLLM takes the first and no other
        content = content[0].get("text")
    if not isinstance(content, str):
        raise Unknowable("unsupported")
    _fill_or_add(messages, "content", content)


def _add_call(messages: list[JsonObject], item: JsonObject) -> None:
    if item.get("namespace") is not None:
        raise Unknowable("unsupported")
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    call = {"id": item.get("call_id"), "function": function, "type": "function"}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "tool_calls": [call]})


def _reasoning(item: JsonObject) -> str:
    if item.get("encrypted_content"):
        raise Unknowable("unsupported")
    match item:
        case {"content": [{"text": str(text)}, *_]}:
            return text
        case {"summary": [{"text": str(text)}, *_]}:
            return text
        case _:
            return ""


def _fill_or_add(messages: list[JsonObject], key: str, text: str) -> None:
    """Set *key* of the last assistant message to *text*. If it is already set, begin another message instead."""
    if messages and messages[-1]["role"] == "assistant" and messages[-1].get(key) is None:
        messages[-1][key] = text
    else:
        messages.append({"role": "assistant", key: text})
