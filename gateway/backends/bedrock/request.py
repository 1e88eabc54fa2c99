"""Conversion of an OpenAI chat request to a Converse request, for one model family.

Other modules convert the parts: messages and turns (message.py, conversation.py), tools (tools.py, tool_config.py), the
output format (output_format.py) and all other fields (parameters.py, reasoning_effort.py). This module combines them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.backends.bedrock.conversation import Conversation, converse, tool_names
from gateway.backends.bedrock.family import OTHER, Family
from gateway.backends.bedrock.json_depth import DEEPEST, is_deep
from gateway.backends.bedrock.json_object import read_object
from gateway.backends.bedrock.message import read_messages
from gateway.backends.bedrock.output_format import OutputFormat, read_output_format
from gateway.backends.bedrock.parameters import (
    REASONING,
    Sampling,
    left_out,
    read_max_tokens,
    read_sampling,
    refuse_unservable,
    request_metadata,
    service_tier,
)
from gateway.backends.bedrock.reasoning_effort import effort_fields, read_effort
from gateway.backends.bedrock.refusals import Unsupported
from gateway.backends.bedrock.schema import Schema
from gateway.backends.bedrock.tool_config import ToolConfig, calls_as_text, tool_config
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.backends.bedrock.tools import read_tools
from gateway.backends.bedrock.unsupported_parameters import reduce
from gateway.protocol.errors import MalformedBody

_CHARACTERS_PER_TOKEN = 4  # of English text, as OpenAI counts it; code and other languages have fewer
_TOKENS_PER_MEDIUM = 1600  # an image of Claude's full size; a page of a document has about as many


@dataclass(frozen=True, slots=True)
class ConverseRequest:
    """Request to Converse, with the names of dropped fields and the options for reading the response."""

    payload: dict[str, Any]
    """JSON body for both Converse and ConverseStream. The model id is in the URL path instead."""
    dropped: tuple[str, ...]
    """Sorted names of request fields that were dropped or only mentioned in the prompt. Fields inside messages appear
    as ``messages.name``.
    """
    wants_usage: bool
    """Whether the client asked for the token usage with ``stream_options.include_usage``."""
    names: ToolNames = field(default_factory=ToolNames)
    """Mapping between tool names sent to Bedrock and the client's tool names."""
    unwraps_tool: str | None = None
    """Name of the tool whose input is the JSON answer, or None. Its call becomes the content of the response, with
    finish reason ``stop``.
    """
    replays_stream: bool = False
    """Whether to generate the client's stream from a complete response, because tool calls or extracted JSON cannot be
    streamed.
    """
    stops: tuple[str, ...] = ()
    """Stop strings that are not sent to the model. The gateway ends the answer before the first stop string in it."""
    schema: Schema | None = None
    """JSON schema of the answer, or None if any JSON or text is allowed."""
    mends_json: bool = False
    """Whether only the prompt asks for JSON, so that the JSON must be extracted from the text."""
    inline_reasoning: bool = True
    """Whether the text of the answer can begin with reasoning between tags."""

    @property
    def max_tokens(self) -> int:
        """Return the output limit in tokens, which is part of every request."""
        return int(self.payload["inferenceConfig"]["maxTokens"])

    def limited(self, max_tokens: int) -> "ConverseRequest | None":
        """Return a copy with the output limit *max_tokens*, or None if it is not lower or leaves nothing after the
        reasoning.
        """
        inference = self.payload["inferenceConfig"]
        budget = self.payload.get("additionalModelRequestFields", {}).get("thinking", {}).get("budget_tokens", 0)
        if not budget < max_tokens < self.max_tokens:
            return None
        return replace(self, payload={**self.payload, "inferenceConfig": {**inference, "maxTokens": max_tokens}})

    def without(self, refused: Unsupported) -> "ConverseRequest | None":
        """Return a copy without the field that Bedrock does not support, or None if the field is required."""
        reduced = reduce(self.payload, refused.field, beside=refused.beside)
        if reduced is None:
            return None
        # The choice of the tool that stands for a schema is no choice of the caller's.
        is_format = self.unwraps_tool is not None and reduced.dropped == "tool_choice"
        dropped = {*self.dropped, "response_format" if is_format else reduced.dropped} - {""}
        return replace(
            self,
            payload=reduced.payload,
            dropped=tuple(sorted(dropped)),
            stops=reduced.stops + self.stops,
            mends_json=self.mends_json or "response_format" in dropped - {*self.dropped},
        )


def to_converse(
    body: bytes,
    *,
    default_max_tokens: int,
    max_tokens_limit: int | None = None,
    context_tokens: int | None = None,
    prompt_tokens: int | None = None,
    family: Family = OTHER,
) -> ConverseRequest:
    """Convert the chat request *body* to a request to Converse. O(body).

    ``maxTokens`` is always sent, because Bedrock otherwise reserves the model's maximum against the account's quota. It
    is limited to *max_tokens_limit* and to *context_tokens* minus the prompt. The prompt's size is *prompt_tokens* or a
    rough estimate. If the prompt seems to fill the context it is still sent, because only the model can count it
    exactly.

    Raises:
        MalformedBody: if *body* is not a JSON object.
        InvalidField: if Converse has no equivalent of a field, or no model accepts its value.
    """
    fields = _fields(body)
    refuse_unservable(fields)
    messages = read_messages(fields.get("messages"))
    toolbox, format_ = read_tools(fields), read_output_format(fields)
    as_text, calls = calls_as_text(toolbox, family), tool_names(messages)
    names = ToolNames([*toolbox.names, *calls])
    conversation = converse(messages, family=family, names=names, calls_as_text=as_text)
    output_config = format_.output_config() if format_ and family.native_schema else None
    history, stands_for = [] if as_text else calls, None if output_config else format_
    tools = tool_config(toolbox, history=history, names=names, family=family, stands_for=stands_for)
    words = [tools.words] if tools.words else []
    dropped = left_out(fields) | tools.dropped
    if format_ and not output_config and not tools.unwraps:
        words.append(_format_words(format_, tools))
        dropped.add(format_.param)
    mends_json = format_ is not None and format_.param in dropped
    payload = _payload(conversation, words, tools, output_config)
    room = _room(payload, context_tokens, prompt_tokens)
    max_tokens = _max_tokens(read_max_tokens(fields) or default_max_tokens, max_tokens_limit, room)
    if family.keeps_reasoning is not None:
        dropped -= REASONING
    calls_blindly = conversation.uses_tools and not conversation.shows_reasoning
    effort, undone = _effort(fields, family, max_tokens, has_calls=calls_blindly or tools.forces)
    sampling = read_sampling(fields, family, thinks="thinking" in effort)
    payload |= _controls(fields, max_tokens, sampling, own=sampling.own | effort | tools.own)
    dropped |= sampling.dropped | undone | _dropped_tier(fields)
    options = fields.get("stream_options")
    return ConverseRequest(
        payload=payload,
        dropped=tuple(sorted(dropped)),
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
        names=names,
        unwraps_tool=tools.unwraps,
        replays_stream=mends_json or (bool(tools.specs) and not family.streams_tools),
        schema=None if format_ is None else format_.schema,
        mends_json=mends_json,
        stops=sampling.stops,
        inline_reasoning=family.inline_reasoning,
    )


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = read_object(body)
    except ValueError as error:
        raise MalformedBody(f"The request body is {error}") from error
    if is_deep(fields):
        raise MalformedBody(f"The request body is nested deeper than {DEEPEST} levels")
    return fields


def _payload(
    conversation: Conversation, words: list[str], tools: ToolConfig, output_config: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the parts of the request that form the prompt: messages, system text, tools and output format."""
    payload: dict[str, Any] = {"messages": conversation.turns}
    system = [*conversation.system, *words]
    if system:
        payload["system"] = [{"text": text} for text in system]
    if tools.specs:
        payload["toolConfig"] = tools.payload()
    if output_config:
        payload["outputConfig"] = output_config
    return payload


def _controls(fields: dict[str, Any], max_tokens: int, sampling: Sampling, *, own: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of the request that are not in the prompt. *own* holds model-specific fields."""
    metadata, (tier, _) = request_metadata(fields), service_tier(fields)
    return (
        {"inferenceConfig": {"maxTokens": max_tokens} | sampling.inference}
        | ({"additionalModelRequestFields": own} if own else {})
        | ({"requestMetadata": metadata} if metadata else {})
        | ({"serviceTier": {"type": tier}} if tier else {})
    )


def _dropped_tier(fields: dict[str, Any]) -> set[str]:
    _, has_tier = service_tier(fields)
    return set() if has_tier else {"service_tier"}


def _format_words(format_: OutputFormat, tools: ToolConfig) -> str:
    return f"When you call no tool: {format_.words()}" if tools.specs else format_.words()


def _effort(
    fields: dict[str, Any], family: Family, max_tokens: int, *, has_calls: bool
) -> tuple[dict[str, Any], set[str]]:
    """Return the model-specific fields for reasoning, and the names of the fields that the model does not support.

    Reasoning is not requested from Claude if it is forced to call a tool, or if its reasoning before earlier tool calls
    is missing.
    """
    level = read_effort(fields)
    if level is None:
        return {}, set()
    own = effort_fields(level, family, max_tokens=max_tokens)
    if own is not None and not ("thinking" in own and has_calls):
        return own, set()
    return {}, {"chat_template_kwargs" if fields.get("reasoning_effort") is None else "reasoning_effort"}


def _max_tokens(wanted: int, limit: int | None, room: int | None) -> int:
    limits = [wanted, *(most for most in (limit, room) if most is not None and most > 0)]
    return min(limits)


def _room(payload: dict[str, Any], context_tokens: int | None, prompt_tokens: int | None) -> int | None:
    """Return the number of tokens that the prompt leaves free in the context, or None if the context size is
    unknown.
    """
    if context_tokens is None:
        return None
    return context_tokens - (_estimated_tokens(payload) if prompt_tokens is None else prompt_tokens)


def _estimated_tokens(payload: dict[str, Any]) -> int:
    """Return a low estimate of the prompt's size in tokens. O(payload)."""
    characters = media = 0
    for name, text in _strings(payload, ""):
        if name == "bytes":
            media += 1
        else:
            characters += len(text)
    return characters // _CHARACTERS_PER_TOKEN + media * _TOKENS_PER_MEDIUM


def _strings(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield all strings in *value*, each with the name of the field in which it occurs."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)
