"""Body of ``/v1/chat/completions`` with the fields that determine the prompt.

The fields are those of vLLM's ChatCompletionRequest (`vllm/entrypoints/openai/chat_completion/protocol.py`), and
SGLang's ``input_ids``.
"""

from typing import Any

import msgspec

from gateway.models.tokenizing.asked import AskedChat, JsonObject
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.json_body import decoded
from gateway.models.tokenizing.tools import tools_of


def asked_of_chat(raw: bytes) -> AskedChat:
    """Return the chat in the body *raw*. O(bytes).

    Raises:
        Unknowable: if *raw* is malformed, or if its tokens depend on more than the model's template.
    """
    body = decoded(raw, _decoder)
    if not body.messages:
        raise Unknowable("malformed")
    if body.chat_template is not None:
        raise Unknowable("own_template")
    if body.truncate_prompt_tokens is not None:
        raise Unknowable("truncated")
    if body.input_ids is not None or _gives_ids(body.kv_transfer_params):
        raise Unknowable("unsupported")
    return AskedChat(
        messages=[_ordered(message) for message in body.messages],
        tools=tools_of(body.tools),
        tool_choice_none=body.tool_choice == "none",
        documents=body.documents,
        template_kwargs=body.chat_template_kwargs,
        reasoning_effort=body.reasoning_effort,
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=body.continue_final_message,
        add_special_tokens=body.add_special_tokens,
    )


class _Chat(msgspec.Struct, gc=False):
    messages: list[JsonObject]
    tools: Any = None
    tool_choice: Any = None
    documents: list[dict[str, str]] | None = None
    chat_template: Any = None
    chat_template_kwargs: JsonObject | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    truncate_prompt_tokens: Any = None
    kv_transfer_params: Any = None
    input_ids: Any = None


_decoder = msgspec.json.Decoder(_Chat)
_CALL = ("id", "function", "type")
_FUNCTION = ("arguments", "name")


def _ordered(message: JsonObject) -> JsonObject:
    """Return *message* with the keys of its tool calls in the order of OpenAI's types, which is also vLLM's order."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_ordered_call(call) for call in calls]}


def _ordered_call(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    ordered = _in_order(call, _CALL)
    function = call.get("function")
    return {**ordered, "function": _in_order(function, _FUNCTION)} if isinstance(function, dict) else ordered


def _in_order(fields: JsonObject, first: tuple[str, ...]) -> JsonObject:
    return {**{key: fields[key] for key in first if key in fields}, **fields}


def _gives_ids(kv_transfer_params: Any) -> bool:
    """Return whether the parameters contain token ids. Since 0.32, vLLM uses them instead of the messages
    (`vllm/renderers/online_renderer.py`).
    """
    return isinstance(kv_transfer_params, dict) and kv_transfer_params.get("prompt_token_ids") is not None
