"""Parser for request fields that constrain the answer, in OpenAI's and in vLLM's format."""

import json
from collections.abc import Sequence
from typing import Any

from simulator.errors import ApiError
from simulator.guides import JSON_OBJECT, CallGuide, ChoiceGuide, Function, Guide, JsonGuide, TextGuide
from simulator.schema_values import SchemaUnsupported, value_for
from simulator.sse import Json

_QUOTED = 200  # characters of a tool's result
_MAX_OPTIONS = 1000


def functions_of(tools: Sequence[Any] | None) -> list[Function]:
    """Return the functions in *tools*, which have the format of the chat API."""
    found = []
    for tool in tools or ():
        match tool:
            case {"type": "function", "function": {"name": str(name), **rest}} if name:
                found.append(Function(name, rest.get("parameters")))
    return found


def guide_for_tools(functions: Sequence[Function], choice: Any, messages: Sequence[Json]) -> Guide | None:
    """Return the guide that determines the answer to a chat with tools. *choice* is OpenAI's ``tool_choice``.

    By default the model calls a tool after a user message and reports the result after a tool message, so that every
    agent loop ends.

    Raises:
        ApiError: 400 if *choice* does not match the tools.
    """
    match choice:
        case "none":
            return None
        case {"function": {"name": str(name)}}:
            named = [function for function in functions if function.name == name]
            if not named:
                raise ApiError(400, f"tool_choice: there is no tool {name!r} in tools", param="tool_choice")
            return _calling(named)
        case "required":
            if not functions:
                raise ApiError(400, "When using `tool_choice`, `tools` must be set.", param="tool_choice")
            return _calling(functions)
    if not functions or not messages:
        return None
    last = messages[-1]
    if last.get("role") == "tool":
        return TextGuide(_report(last))
    return _calling_if_possible(functions) if last.get("role") == "user" else None


def guide_for_format(response_format: Any, structured: Any, guided_json: Any, guided_choice: Any) -> Guide | None:
    """Return the guide for ``response_format``, or for vLLM's ``structured_outputs`` and the older fields.

    Raises:
        ApiError: 400 if no answer can satisfy the constraint.
    """
    if isinstance(structured, dict):
        guided_json = structured.get("json", guided_json)
        guided_choice = structured.get("choice", guided_choice)
        if structured.get("json_object"):
            guided_json = JSON_OBJECT
    if guided_choice is not None:
        return _choosing(guided_choice)
    if guided_json is not None:
        return _of_schema(guided_json, "guided_json")
    match response_format:
        case {"type": "json_object"}:
            return JsonGuide(JSON_OBJECT)
        case {"type": "json_schema", "json_schema": {**wrapped}}:
            return _of_schema(wrapped.get("schema", True), "response_format")
        case {"type": "json_schema", "schema": schema}:  # /v1/responses has no wrapping
            return _of_schema(schema, "response_format")
    return None


def _calling(functions: Sequence[Function]) -> Guide:
    guide = CallGuide(functions)
    for function in functions:
        _check_schema(function.parameters, "tools")
    return guide


def _calling_if_possible(functions: Sequence[Function]) -> Guide | None:
    try:
        return _calling(functions)
    except ApiError:
        return None


def _of_schema(schema: Any, field: str) -> Guide:
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError:
            raise ApiError(400, f"{field}: the schema is not JSON", param=field) from None
    if not isinstance(schema, dict | bool):
        raise ApiError(400, f"{field}: the schema must be an object", param=field)
    _check_schema(schema, field)
    return JsonGuide(JSON_OBJECT if schema in (True, {}) else schema)


def _check_schema(schema: Any, field: str) -> None:
    """Raise `ApiError` 400 if the module cannot find a value that satisfies the schema."""
    try:
        value_for(schema, seed=b"", richness=0)
    except SchemaUnsupported as error:
        raise ApiError(400, f"{field}: {error}", param=field) from None


def _choosing(options: Any) -> Guide:
    texts = [option for option in options if isinstance(option, str)] if isinstance(options, list) else []
    if not texts or len(texts) > _MAX_OPTIONS:
        raise ApiError(400, f"choice: must be 1 to {_MAX_OPTIONS} strings", param="structured_outputs")
    return ChoiceGuide(texts)


def _report(message: Json) -> str:
    """Return a tool result as one line without template marks, so that its tokens are the same in later requests."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = " ".join(text for text in texts if isinstance(text, str))
    said = " ".join(str(content or "").replace("<|", "").split())
    quoted = said if len(said) <= _QUOTED else f"{said[:_QUOTED]}..."
    return f"The tool returned: {quoted}" if quoted else "The tool returned nothing."
