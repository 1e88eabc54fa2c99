"""A Converse answer, as an OpenAI chat completion."""

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
    """Terms that the request sets for its answer."""

    original: Callable[[str], str] = _as_it_is
    """Name of a tool as the caller knows it, from the one that Bedrock knows."""
    unwraps_tool: str | None = None
    """The tool, as Bedrock knows it, whose input is not a call but the answer: how JSON of a schema is had of models
    that know no other way."""
    stops: tuple[str, ...] = ()
    """Stop strings that the gateway finds itself."""
    inline_reasoning: bool = True
    """The text may begin with reasoning between tags."""

    @property
    def text_stops(self) -> tuple[str, ...]:
        """JSON that a tool's input holds is whole, or no JSON."""
        return self.stops if self.unwraps_tool is None else ()


class CallIds:
    """Gives each tool call of one answer an id of its own; some models number theirs, or repeat them."""

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
    """OpenAI's word for Converse's ``stopReason``; a reason not known here counts as an ordinary end.

    Tools that are called make an ordinary end one with ``tool_calls``, whatever the model itself says of it.

    Raises:
        ReplyBroken: the model's output is not an answer to what was asked.
    """
    if stop_reason in _UNUSABLE:
        raise ReplyBroken(f"The Bedrock model returned no usable answer ({stop_reason})")
    reason = _FINISH_REASONS.get(str(stop_reason), "stop")
    return "tool_calls" if has_calls and reason == "stop" else reason


def usage(tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Converse's ``usage`` as OpenAI counts it: the prompt includes what came from or went into the prompt cache.

    Some models are reported to count the cache inside ``inputTokens`` already, so where a total is given the prompt is
    the total less the output, unless that is too little to be true.
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
    """Answer in a body of Converse."""

    blocks: tuple[dict[str, Any], ...]
    """Blocks as Bedrock sent them; the one key of each names its kind."""
    stop_reason: object
    usage: Mapping[str, Any] | None


def read_answer(body: bytes) -> ConverseAnswer:
    """The answer in *body*.

    Raises:
        ReplyBroken: *body* is not an answer. Bedrock says 200 even to an unknown path, with an error for a body.
    """
    try:
        answer = read_object(body)
    except ValueError as error:
        raise ReplyBroken(f"Bedrock answered 200 with a body that is {error}") from error
    match answer:
        case {"output": {"message": {"content": list(blocks)}}} if all(isinstance(block, dict) for block in blocks):
            tokens = answer.get("usage")
            return ConverseAnswer(tuple(blocks), answer.get("stopReason"), tokens if isinstance(tokens, dict) else None)
    raise ReplyBroken("Bedrock answered 200 without an output")


def mended(answer: ConverseAnswer, schema: dict[str, Any] | None) -> ConverseAnswer:
    """*answer*, which was to be JSON, of *schema* or any object, with nothing but that for its text.

    One that calls tools, or was cut at its limit, stays as it is.

    Raises:
        ReplyBroken: there is no such JSON in it.
    """
    texts = [block["text"] for block in answer.blocks if isinstance(block.get("text"), str)]
    calls = any("toolUse" in block for block in answer.blocks)
    if calls or answer.stop_reason not in {"end_turn", "stop_sequence"}:
        return answer
    splitter = ReasoningSplitter()
    reasoning, text = ("".join(parts) for parts in zip(splitter.feed("".join(texts)), splitter.rest(), strict=True))
    found = json_answer(text, schema)
    if found is None:
        raise ReplyBroken("The Bedrock model returned no JSON, although 'response_format' requires it")
    others = [block for block in answer.blocks if "text" not in block]
    if reasoning:
        others.append({"reasoningContent": {"reasoningText": {"text": reasoning}}})
    return replace(answer, blocks=(*others, {"text": found}))


def to_completion(answer: ConverseAnswer, heading: Heading, terms: Terms) -> bytes:
    """The JSON of a chat completion.

    Raises:
        ReplyBroken: the model's output is not an answer to what was asked.
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
    """A tool's input as the compact JSON text that OpenAI's ``arguments`` are."""
    return msgspec.json.encode({} if value is None else value).decode()


class _Shown:
    """Answer as the caller sees it, gathered block by block."""

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
        """Content is null only beside tool calls: an answer may hold nothing but reasoning, and is then empty."""
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
    """The events in which ConverseStream would have sent *answer*."""
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
