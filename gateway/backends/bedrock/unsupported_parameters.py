"""Removal of a request field that a model on Bedrock does not support, according to Bedrock's error.

Bedrock's error names the field: ``This model doesn't support the toolConfig.toolChoice.any field. Remove
toolConfig.toolChoice.any and try again.`` Only optional fields are removed, never messages, system text, tools or the
output limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.backends.bedrock.output_format import schema_words
from gateway.backends.bedrock.tool_config import call_words

Payload = dict[str, Any]

_INFERENCE = {"temperature": "temperature", "topP": "top_p", "stopSequences": "stop"}
_TOP = {"requestMetadata": "metadata", "serviceTier": "service_tier"}
_OWN = {
    "top_k": "top_k",
    "inferenceConfig": "top_k",
    "reasoning_effort": "reasoning_effort",
    "reasoning_config": "reasoning_effort",
    "reasoningConfig": "reasoning_effort",
    "thinking": "reasoning_effort",
    "output_config": "reasoning_effort",
    "tool_choice": "parallel_tool_calls",
}
"""Names that clients use for model-specific request fields."""


_OF_CONVERSE = {
    "top_p": "topP",
    "stop": "stopSequences",
    "stop_sequences": "stopSequences",
    "response_format": "outputConfig",
    "output_format": "outputConfig",
    "service_tier": "serviceTier",
}
"""Converse's names for those request fields for which error messages use the names of the model's own API."""


@dataclass(frozen=True, slots=True)
class Reduced:
    payload: Payload
    dropped: str
    """Client's name of the removed field, or an empty string if the gateway implements the field instead."""
    stops: tuple[str, ...] = ()
    """Stop strings that were removed from the request."""


def without(payload: Payload, field: str) -> Payload | None:
    """Return a copy of *payload* without *field* (in Bedrock's spelling), or None if it is absent or required."""
    found = reduce(payload, field)
    return found.payload if found else None


def reduce(payload: Payload, field: str, *, beside: str | None = None) -> Reduced | None:
    """Return a copy of *payload* without *field* and the effect on the response, or None if it is absent or required.

    *beside* is a field that conflicts with *field*, so that only one of them is removed. Of temperature and top_p,
    top_p is removed.
    """
    if beside is not None:
        inference = payload.get("inferenceConfig", {})
        if not {_OF_CONVERSE.get(name, name) for name in (field, beside)} <= inference.keys():
            return None
        field = beside if field == "temperature" else field
    path = [_OF_CONVERSE.get(part, part) for part in field.replace("[", ".").split(".")]
    if "reasoningContent" in path:
        return _unthinking(payload)
    if path[0] in ("messages", "system"):
        return None
    attempts: tuple[Callable[[Payload, list[str]], Reduced | None], ...] = (
        _inference,
        _own,
        _choice,
        _format,
        _strict,
        _top,
    )
    return next((reduced for attempt in attempts if (reduced := attempt(payload, path))), None)


def _unthinking(payload: Payload) -> Reduced | None:
    """Return *payload* without the reasoning in earlier messages, or None if nothing can be removed."""
    turns = [
        {**turn, "content": [block for block in turn["content"] if "reasoningContent" not in block]}
        for turn in payload.get("messages", [])
    ]
    if turns == payload.get("messages", []) or not all(turn["content"] for turn in turns):
        return None
    return Reduced({**payload, "messages": turns}, dropped="messages.reasoning_content")


def _inference(payload: Payload, path: list[str]) -> Reduced | None:
    inference = payload.get("inferenceConfig", {})
    name = path[-1]
    if name not in _INFERENCE or name not in inference or path[0] == "additionalModelRequestFields":
        return None
    rest = {**payload, "inferenceConfig": _less(inference, name)}
    if name == "stopSequences":
        return Reduced(rest, dropped="", stops=tuple(inference[name]))
    return Reduced(rest, dropped=_INFERENCE[name])


def _own(payload: Payload, path: list[str]) -> Reduced | None:
    own = payload.get("additionalModelRequestFields", {})
    name = next((part for part in path if part in own), None)
    if name is None:
        return None
    rest = _less(own, name)
    reduced = (
        {**payload, "additionalModelRequestFields": rest} if rest else _less(payload, "additionalModelRequestFields")
    )
    return Reduced(reduced, dropped=_OWN.get(name, name))


def _choice(payload: Payload, path: list[str]) -> Reduced | None:
    """Return *payload* with the forced tool choice replaced by an instruction in the prompt."""
    config = payload.get("toolConfig", {})
    choice = config.get("toolChoice")
    if choice is None or "toolChoice" not in path:
        return None
    words = call_words(choice.get("tool", {}).get("name"))
    rest = _saying({**payload, "toolConfig": _less(config, "toolChoice")}, words)
    return Reduced(rest, dropped="tool_choice")


def _format(payload: Payload, path: list[str]) -> Reduced | None:
    """Return *payload* with the output schema moved from ``outputConfig`` to the prompt."""
    if "outputConfig" not in payload or not {"outputConfig", "textFormat"} & set(path):
        return None
    schema = payload["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]
    return Reduced(_saying(_less(payload, "outputConfig"), schema_words(schema)), dropped="response_format")


def _strict(payload: Payload, path: list[str]) -> Reduced | None:
    config = payload.get("toolConfig", {})
    tools = config.get("tools", [])
    if path[-1] != "strict" or not any("strict" in tool["toolSpec"] for tool in tools):
        return None
    loose = [{"toolSpec": _less(tool["toolSpec"], "strict")} for tool in tools]
    return Reduced({**payload, "toolConfig": {**config, "tools": loose}}, dropped="tools.strict")


def _top(payload: Payload, path: list[str]) -> Reduced | None:
    name = path[0]
    if name not in _TOP or name not in payload:
        return None
    return Reduced(_less(payload, name), dropped=_TOP[name])


def _saying(payload: Payload, words: str) -> Payload:
    return {**payload, "system": [*payload.get("system", []), {"text": words}]}


def _less(mapping: Payload, name: str) -> Payload:
    return {key: value for key, value in mapping.items() if key != name}
