"""Tools of a chat in the form that chat templates receive.

vLLM parses each tool into its own model and serializes it again. That fixes the order of keys, adds null for missing
fields and drops unknown fields (`vllm/entrypoints/openai/chat_completion/protocol.py`, ChatCompletionToolsParam;
`vllm/entrypoints/generate/base/protocol.py`, FunctionDefinition). Templates write tools as JSON near the start of the
prompt, so each of these changes the tokens.
"""

from collections.abc import Sequence
from typing import Any

from gateway.models.tokenizing.asked import JsonObject
from gateway.models.tokenizing.exactness import Unknowable

_TOOL = frozenset({"type", "function", "defer_loading"})
_FUNCTION = frozenset({"name", "description", "parameters", "strict", "defer_loading"})


def tools_of(tools: Any) -> list[JsonObject] | None:
    """Return the ``tools`` of a chat completion in the form that templates expect.

    Raises:
        Unknowable: if *tools* are malformed, or have keys that only some versions of vLLM keep.
    """
    if tools is None:
        return None
    if not isinstance(tools, list) or not tools:
        raise Unknowable("malformed")
    return [_tool(tool) for tool in tools]


def functions_of(functions: Sequence[JsonObject]) -> list[JsonObject] | None:
    """Return function definitions, without the envelope of the chat API, in the form that templates expect. Raises the
    errors of `tools_of`.
    """
    return [_shell(function) for function in functions] or None


def _tool(tool: Any) -> JsonObject:
    if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
        raise Unknowable("malformed")
    if tool.get("type", "function") != "function" or not tool.keys() <= _TOOL:
        raise Unknowable("unsupported")
    return _shell(tool["function"], defer_loading=tool.get("defer_loading"))


def _shell(function: JsonObject, *, defer_loading: Any = None) -> JsonObject:
    if not function.keys() <= _FUNCTION:
        raise Unknowable("unsupported")
    name, description, parameters = (function.get(key) for key in ("name", "description", "parameters"))
    strict, deferred = function.get("strict"), function.get("defer_loading")
    if (
        not isinstance(name, str)
        or not isinstance(description, str | None)
        or not isinstance(parameters, dict | None)
        or not all(isinstance(flag, bool | None) for flag in (strict, deferred, defer_loading))
    ):
        raise Unknowable("malformed")
    inner: JsonObject = {"name": name, "description": description, "parameters": parameters}
    if strict is not None:
        inner["strict"] = strict
    deferred = defer_loading if deferred is None else deferred
    if deferred is not None:
        inner["defer_loading"] = deferred
    shell: JsonObject = {"type": "function", "function": inner}
    return shell if defer_loading is None else {**shell, "defer_loading": defer_loading}
