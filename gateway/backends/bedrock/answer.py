"""Conversion of Bedrock Converse responses to OpenAI chat completions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gateway.backends.bedrock.frame import StreamEvent
from gateway.backends.bedrock.inline_reasoning import ReasoningSplitter
from gateway.backends.bedrock.json_answer import json_answer
from gateway.backends.bedrock.json_object import read_object
from gateway.backends.bedrock.stops import StopGuard
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",  # where there is a call it is tool_calls, see finish_reason
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
_UNUSABLE = {"malformed_tool_use", "malformed_model_output"}


def _as_it_is(name: str) -> str:
    return name


@dataclass(frozen=True, slots=True)
class Terms:
    """Options from the client's request that determine how a Bedrock response is converted."""

    original: Callable[[str], str] = _as_it_is
    """Function that maps a tool name sent to Bedrock to the client's name for that tool."""
    unwraps_tool: str | None = None
    """Name of the tool whose input is the JSON answer itself, used for models without structured output, or None."""
    stops: tuple[str, ...] = ()
    """Stop strings that the gateway searches for, because the model does not support them."""
    inline_reasoning: bool = True
    """Whether the model sometimes writes its reasoning between tags at the start of the response text."""

    @property
    def text_stops(self) -> tuple[str, ...]:
        """Return the stop strings for text. JSON from a tool's input must stay complete, so it gets no stop strings."""
        return self.stops if self.unwraps_tool is None else ()


class CallIds:
    """Unique ids for the tool calls of one response, because some models repeat ids."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def unique(self, proposed: object) -> str:
        stem = proposed if isinstance(proposed, str) and proposed else "call"
        unique, repeated = stem, 1
        while unique in self._given:
            repeated += 1
            unique = f"{stem}-{repeated}"
        self._given.add(unique)
        return unique


def finish_reason(stop_reason: object, *, has_calls: bool) -> str:
    """Return OpenAI's ``finish_reason`` for Converse's ``stopReason``. An unknown reason becomes ``stop``.

    A response with tool calls finishes with ``tool_calls`` instead of ``stop``, whatever reason the model gives.

    Raises:
        ReplyBroken: if the reason says that the model's output is malformed.
    """
    if stop_reason in _UNUSABLE:
        raise ReplyBroken(f"The Bedrock model returned malformed output ({stop_reason})")
    reason = _FINISH_REASONS.get(str(stop_reason), "stop")
    return "tool_calls" if has_calls and reason == "stop" else reason


def usage(tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Converse's ``usage`` to OpenAI's, in which the prompt tokens include the tokens read from and written to
    the cache.

    Some models are reported to include cached tokens in ``inputTokens``. Therefore the prompt is the total minus the
    output if Bedrock gives a plausible total, otherwise the sum of the input counts.
    """
    entered, completion = _count(tokens, "inputTokens"), _count(tokens, "outputTokens")
    cached = _count(tokens, "cacheReadInputTokens")
    prompt = _count(tokens, "totalTokens") - completion
    if prompt < max(entered, cached):
        prompt = entered + cached + _count(tokens, "cacheWriteInputTokens")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


@dataclass(frozen=True, slots=True)
class ConverseAnswer:
    """Contents of a response body from Converse."""

    blocks: tuple[dict[str, Any], ...]
    """Content blocks as Bedrock sent them. The only key of each block names its type."""
    stop_reason: object
    usage: Mapping[str, Any] | None


def read_answer(body: bytes) -> ConverseAnswer:
    """Parse the body of a Converse response.

    Raises:
        ReplyBroken: if *body* is not a Converse response. Bedrock sends status 200 with an error body even for unknown
            paths.
    """
    try:
        answer = read_object(body)
    except ValueError as error:
        raise ReplyBroken(f"Bedrock returned status 200 with a body that is {error}") from error
    match answer:
        case {"output": {"message": {"content": list(blocks)}}} if all(isinstance(block, dict) for block in blocks):
            tokens = answer.get("usage")
            return ConverseAnswer(tuple(blocks), answer.get("stopReason"), tokens if isinstance(tokens, dict) else None)
    raise ReplyBroken("Bedrock returned status 200 without a message in 'output'")


def mended(answer: ConverseAnswer, schema: dict[str, Any] | None) -> ConverseAnswer:
    """Return *answer* with the JSON found in its text as the new text. If *schema* is given, the JSON must match it.

    A response that calls tools or was cut off at its token limit is returned unchanged.

    Raises:
        ReplyBroken: if the text contains no matching JSON.
    """
    texts = [block["text"] for block in answer.blocks if isinstance(block.get("text"), str)]
    calls = any("toolUse" in block for block in answer.blocks)
    if calls or answer.stop_reason not in {"end_turn", "stop_sequence"}:
        return answer
    splitter = ReasoningSplitter()
    reasoning, text = ("".join(parts) for parts in zip(splitter.feed("".join(texts)), splitter.rest(), strict=True))
    found = json_answer(text, schema)
    if found is None:
        raise ReplyBroken("The Bedrock model returned no JSON, although 'response_format' requires JSON")
    others = [block for block in answer.blocks if "text" not in block]
    if reasoning:
        others.append({"reasoningContent": {"reasoningText": {"text": reasoning}}})
    return replace(answer, blocks=(*others, {"text": found}))


def to_completion(answer: ConverseAnswer, heading: Heading, terms: Terms) -> bytes:
    """Return *answer* as the JSON body of an OpenAI chat completion.

    Raises:
        ReplyBroken: if the model's output is malformed.
    """
    shown = _Shown(terms)
    for block in answer.blocks:
        shown.add(block)
    message = shown.message(heading.reasoning_field)
    has_calls = "tool_calls" in message
    finish = "stop" if shown.has_stopped else finish_reason(answer.stop_reason, has_calls=has_calls)
    completion: dict[str, Any] = {
        "id": heading.completion_id,
        "object": "chat.completion",
        "created": heading.created,
        "model": heading.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
    }
    if answer.usage is not None:
        completion["usage"] = usage(answer.usage)
    return msgspec.json.encode(completion)


def arguments(value: object) -> str:
    """Serialize a tool's input to compact JSON text, the format of OpenAI's ``arguments``."""
    return msgspec.json.encode({} if value is None else value).decode()


class _Shown:
    """Collector that turns the content blocks of a response into the message for the client."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._guard = StopGuard(terms.text_stops)
        self._splitter = ReasoningSplitter(has_tags=terms.inline_reasoning)
        self._ids = CallIds()
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._unwrapped: str | None = None

    @property
    def has_stopped(self) -> bool:
        return self._guard.has_stopped

    def add(self, block: dict[str, Any]) -> None:
        if self._guard.has_stopped:
            return
        match block:
            case {"text": str(text)}:
                self._add_text(*self._splitter.feed(text))
            case {"reasoningContent": {"reasoningText": {"text": str(reasoning)}}}:
                self._reasoning.append(reasoning)
            case {"toolUse": {"name": str(name)} as call}:
                self._add_call(name, call)
            case _:  # signatures, citations, and whatever Bedrock adds later
                pass

    def _add_text(self, reasoning: str, text: str) -> None:
        self._reasoning.append(reasoning)
        self._texts.append(self._guard.feed(text))

    def _end_text(self) -> None:
        self._add_text(*self._splitter.rest())
        self._texts.append(self._guard.rest())

    def _add_call(self, name: str, call: dict[str, Any]) -> None:
        written = arguments(call.get("input"))
        if name == self._terms.unwraps_tool:
            self._unwrapped = self._unwrapped or written
            return
        self._end_text()
        self._calls.append(
            {
                "id": self._ids.unique(call.get("toolUseId")),
                "type": "function",
                "function": {"name": self._terms.original(name), "arguments": written},
            }
        )

    def message(self, reasoning_field: str) -> dict[str, Any]:
        """Return the assistant message. Its content is null only if there are tool calls and no text."""
        self._end_text()
        text = self._unwrapped or "".join(self._texts)
        message: dict[str, Any] = {"role": "assistant", "content": None if self._calls and not text else text}
        reasoning = "".join(self._reasoning)
        if reasoning:
            message[reasoning_field] = reasoning
        if self._calls:
            message["tool_calls"] = self._calls
        return message


def as_events(answer: ConverseAnswer) -> Iterator[StreamEvent]:
    """Yield the events that ConverseStream would have sent for *answer*."""
    for at, block in enumerate(answer.blocks):
        for name, payload in _events_of(block):
            yield StreamEvent(name, {"contentBlockIndex": at, **payload})
    yield StreamEvent("messageStop", {"stopReason": answer.stop_reason})
    yield StreamEvent("metadata", {} if answer.usage is None else {"usage": answer.usage})


def _events_of(block: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    match block:
        case {"text": str(text)}:
            return [("contentBlockDelta", {"delta": {"text": text}})]
        case {"reasoningContent": {"reasoningText": {"text": str(reasoning)}}}:
            return [("contentBlockDelta", {"delta": {"reasoningContent": {"text": reasoning}}})]
        case {"toolUse": {"name": str()} as call}:
            written = {"toolUse": {"input": arguments(call.get("input"))}}
            return [
                ("contentBlockStart", {"start": {"toolUse": call}}),
                ("contentBlockDelta", {"delta": written}),
                ("contentBlockStop", {}),
            ]
    return []


def _count(tokens: Mapping[str, Any], name: str) -> int:
    value = tokens.get(name)
    return value if isinstance(value, int) else 0
