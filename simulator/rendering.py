"""Chat template in the style of ChatML. It renders first the tools and then the messages, as one text.

`CHAT_TEMPLATE` is the same template in Jinja, for programs that tokenize outside the worker. vLLM normalizes a chat
before it applies a template, and so does `render_chat`: content parts become one text, tool call arguments become an
object, unknown tool fields are dropped, and developers become systems, because the template does not name them
(vllm/renderers/chat_utils.py, hf.py; ChatCompletionToolsParam in vllm/entrypoints/openai/chat_completion/protocol.py).
"""

import json
from collections.abc import Sequence
from typing import Any

from simulator.sse import Json

CHAT_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>tools\\n' }}"
    "{% for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' }}{{ message.role }}{{ '\\n' }}"
    "{% if message.name %}{{ 'name: ' }}{{ message.name }}{{ '\\n' }}{% endif %}"
    "{% if message.tool_call_id %}{{ 'call: ' }}{{ message.tool_call_id }}{{ '\\n' }}{% endif %}"
    "{% if message.reasoning %}{{ '<think>' }}{{ message.reasoning }}{{ '</think>\\n' }}{% endif %}"
    "{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ '\\n<tool_call>' }}{{ call.id }}{{ ' ' }}{{ call.function.name }}"
    "{{ ' ' }}{{ call.function.arguments | tojson }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_TEXT_OF = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking"}


def render_chat(
    messages: Sequence[Json],
    *,
    tools: Sequence[Any] = (),
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
) -> str:
    """Return the text of everything that the model sees of a chat, in order. A changed message changes only the text
    after it.

    Tool calls must be function calls, each an object with the key ``function``.
    """
    parts = []
    if tools:
        listed = "".join(f"{_json(_known(tool))}\n" for tool in tools)
        parts.append(f"<|im_start|>tools\n{listed}<|im_end|>\n")
    for message in _without_developers(messages):
        parts += _upto_content(message), _after_content(message)
    if continue_final_message:
        parts.pop()
    elif add_generation_prompt:
        parts.append("<|im_start|>assistant\n")
    return "".join(parts)


def _without_developers(messages: Sequence[Json]) -> Sequence[Json]:
    """Return *messages* with all developer and system messages merged into one system message, which comes first."""
    if not any(message["role"] == "developer" for message in messages):
        return messages
    systems = [message for message in messages if message["role"] in ("system", "developer")]
    others = [message for message in messages if message["role"] not in ("system", "developer")]
    if len(systems) == 1 and messages[0] is systems[0]:
        return [{**systems[0], "role": "system"}, *others]
    texts = filter(None, (_content_text(message.get("content")) for message in systems))
    return [{"role": "system", "content": "\n\n".join(texts)}, *others]


def _upto_content(message: Json) -> str:
    role, name, reasoning = message["role"], message.get("name"), message.get("reasoning")
    lines = [f"<|im_start|>{role}\n"]
    if name and isinstance(name, str):
        lines.append(f"name: {name}\n")
    if role == "tool" and message.get("tool_call_id"):
        lines.append(f"call: {message['tool_call_id']}\n")
    if role == "assistant" and reasoning:
        lines.append(f"<think>{reasoning}</think>\n")
    return "".join(lines) + _content_text(message.get("content"))


def _after_content(message: Json) -> str:
    calls = message.get("tool_calls") or () if message["role"] == "assistant" else ()
    return "".join(map(_call_text, calls)) + "<|im_end|>\n"


def _call_text(call: Json) -> str:
    function = call["function"]
    arguments = _json(_arguments(function.get("arguments")))
    return f"\n<tool_call>{call.get('id', '')} {function.get('name', '')} {arguments}"


def _content_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = (_part_text(part) for part in content)
    return "\n".join(text for text in texts if text is not None)


def _part_text(part: Any) -> str | None:
    """Return the text of *part* of a message, or a description for other parts, as the model sees no images."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        field = _TEXT_OF.get(str(part.get("type", "text")))
        if field is not None and isinstance(part.get(field), str | None):
            return part.get(field)
    return _json(part)


def _arguments(given: Any) -> Json:
    if isinstance(given, str) and given:
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return given if isinstance(given, dict) else {}


def _known(tool: Any) -> Any:
    if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
        return tool
    given, deferred = tool["function"], tool.get("defer_loading")
    function = {name: given.get(name) for name in ("name", "description", "parameters")}
    function |= _unless_none("strict", given.get("strict"))
    function |= _unless_none("defer_loading", given.get("defer_loading", deferred))
    return {"type": "function", "function": function} | _unless_none("defer_loading", deferred)


def _unless_none(name: str, value: Any) -> Json:
    return {} if value is None else {name: value}


def _json(value: Any) -> str:
    """Return *value* as JSON like the `tojson` filter of chat templates (transformers, chat_template_utils.py)."""
    return json.dumps(value, ensure_ascii=False)
