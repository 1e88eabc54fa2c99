"""An OpenAI chat body, as the JSON of Converse.

The parts are read where they are at home: messages and turns (message.py, conversation.py), tools (tools.py,
tool_config.py), the answer's format (output_format.py), everything else (parameters.py, reasoning.py). Here they come
together, for one family of models (family.py).
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
    """Request to Bedrock, the fields that were left out, and what to do with the answer."""

    payload: dict[str, Any]
    """The body of Converse and ConverseStream alike; the model id is part of the path."""
    dropped: tuple[str, ...]
    """Names of fields that were left out, or asked for only in words; sorted. ``messages.name`` is a message's."""
    wants_usage: bool
    """``stream_options.include_usage``"""
    names: ToolNames = field(default_factory=ToolNames)
    """``names.original(toolUse.name)`` is the name under which the caller knows the tool."""
    unwraps_tool: str | None = None
    """The name, on the wire, of a tool that stands for the JSON schema: the input of its call is the answer's content,
    and the answer ended with ``stop``, not with ``tool_calls``."""
    replays_stream: bool = False
    """A stream is to be made of Converse's whole answer: the model does not stream tool calls, or JSON is mended."""
    stops: tuple[str, ...] = ()
    """Stop texts that are not in the payload: the gateway ends the answer before the first of them."""
    schema: Schema | None = None
    """Schema of the JSON that the answer must be; None: any, or the answer is text."""
    mends_json: bool = False
    """JSON is only asked for in words: the answer has to be searched for it."""
    inline_reasoning: bool = True
    """The answer's text may begin with reasoning between tags."""

    @property
    def max_tokens(self) -> int:
        """The output limit, which is always sent."""
        return int(self.payload["inferenceConfig"]["maxTokens"])

    def limited(self, max_tokens: int) -> "ConverseRequest | None":
        """Request with a lower output limit; None if its own is not higher, or Claude's reasoning fills it."""
        inference = self.payload["inferenceConfig"]
        budget = self.payload.get("additionalModelRequestFields", {}).get("thinking", {}).get("budget_tokens", 0)
        if not budget < max_tokens < self.max_tokens:
            return None
        return replace(self, payload={**self.payload, "inferenceConfig": {**inference, "maxTokens": max_tokens}})

    def without(self, refused: Unsupported) -> "ConverseRequest | None":
        """Request without the field that Bedrock reports as unsupported; None if the field is required."""
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
    """Return the Converse request for *body*. O(body).

    ``maxTokens`` is always sent: without it Bedrock reserves the model's maximum against the account's quota. It is at
    most *max_tokens_limit* (the model's own cap), and what *context_tokens* leaves beside *prompt_tokens* or a rough
    estimate of them. A prompt that seems to leave nothing is sent as it is: only the model knows.

    Raises:
        MalformedBody: *body* is not a JSON object.
        InvalidField: a field has no equal in Converse, or a value that no model takes.
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
        raise MalformedBody(f"the body is {error}") from error
    if is_deep(fields):
        raise MalformedBody(f"the body is nested deeper than {DEEPEST} levels")
    return fields


def _payload(
    conversation: Conversation, words: list[str], tools: ToolConfig, output_config: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what the model reads."""
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
    """Return what the model does not read. *own* are fields of its family."""
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
    """Model-specific fields, and the names of fields that the model does not support.

    Claude thinks neither when it must call a tool, nor about a call before which it is not shown its reasoning.
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
    """Return the tokens that the prompt leaves of the context; None if not known."""
    if context_tokens is None:
        return None
    return context_tokens - (_estimated_tokens(payload) if prompt_tokens is None else prompt_tokens)


def _estimated_tokens(payload: dict[str, Any]) -> int:
    """Roughly, and rather too few. O(payload)."""
    characters = media = 0
    for name, text in _strings(payload, ""):
        if name == "bytes":
            media += 1
        else:
            characters += len(text)
    return characters // _CHARACTERS_PER_TOKEN + media * _TOKENS_PER_MEDIUM


def _strings(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """All strings in *value*, each with the name under which it stands."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)
