"""Requests and responses of OpenAI chat completions, which Bedrock serves for some models under ``/openai/v1``.

The request body is passed on with few changes. The model becomes Bedrock's id and vLLM-specific fields are removed. An
output limit is always set, because Bedrock otherwise reserves the model's maximum against the account's quota. In the
response, the client's model name is restored and gpt-oss's reasoning is moved from the content to its own field.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gateway.backends.backend import Call
from gateway.backends.bedrock.errors import BedrockFault, fault_of_error
from gateway.backends.bedrock.family import OTHER, family_of
from gateway.backends.bedrock.inline_reasoning import ReasoningSplitter
from gateway.backends.bedrock.json_object import read_object
from gateway.backends.bedrock.parameters import read_stops, sent_stops
from gateway.backends.bedrock.reasoning_effort import effort_fields, read_effort
from gateway.backends.bedrock.refusals import Unsupported
from gateway.backends.bedrock.schema import tool_schema
from gateway.backends.bedrock.stops import StopGuard
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import InvalidField, MalformedBody, ReplyBroken

_PATH = "/openai/v1/chat/completions"
_DONE = b"data: [DONE]\n\n"
_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Response fields in which models on Bedrock return their reasoning."""

_PASSED = frozenset(
    (
        "messages",
        "max_completion_tokens",
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
        "response_format",
        "reasoning_effort",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "verbosity",
    )
)
"""OpenAI fields that are passed on to the model. A model's error message names a field that it does not support."""
_SILENT = frozenset(("model", "n", "logprobs", "logit_bias", "user", "service_tier"))
"""Request fields that can be removed or replaced without notice, because the answer does not depend on them."""
_OPTIONAL = frozenset(
    (
        "temperature",
        "top_p",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "parallel_tool_calls",
        "reasoning_effort",
        "verbosity",
        "service_tier",
    )
)
"""Optional request fields that can be removed if the model rejects them."""


def _is_set(value: object) -> bool:
    return value is not None


def _is_truthy(value: object) -> bool:
    return bool(value)


def _is_many(value: object) -> bool:
    return value not in (None, 1)


# Field -> whether its value asks for what no model there serves, and what no answer may lack without a word.
_REFUSED: dict[str, Callable[[object], bool]] = {
    "n": _is_many,
    "best_of": _is_many,
    "logprobs": _is_truthy,
    "top_logprobs": _is_truthy,
    "prompt_logprobs": _is_set,
    "logit_bias": _is_truthy,
    "use_beam_search": _is_truthy,
    "structured_outputs": _is_set,
    "structural_tag": _is_set,
    "guided_json": _is_set,
    "guided_regex": _is_set,
    "guided_choice": _is_set,
    "guided_grammar": _is_set,
    "allowed_token_ids": _is_truthy,
    "bad_words": _is_truthy,
    "logits_processors": _is_truthy,
    "echo": _is_truthy,
    "continue_final_message": _is_truthy,
    "chat_template": _is_set,
    "documents": _is_truthy,
    "return_token_ids": _is_truthy,
    "audio": _is_set,
    "web_search_options": _is_set,
}
_ALLOWED_TIERS = ("default", "flex", "priority")


@dataclass(frozen=True, slots=True)
class OpenAIQuestion:
    """Request in OpenAI's format. Implements `gateway.backends.bedrock.wire.Question`."""

    payload: dict[str, Any]
    dropped: tuple[str, ...]
    streams: bool
    stops: tuple[str, ...] = ()
    """Stop strings that are not sent to the model. The gateway ends the answer before the first stop string in it."""
    inline_reasoning: bool = True

    path = _PATH
    content_type = "text/event-stream"

    def answer(self, body: bytes, heading: Heading) -> bytes:
        try:
            answer = read_object(body)
        except ValueError as error:
            raise ReplyBroken(f"Bedrock returned status 200 with a body that is {error}") from error
        match answer:
            case {"choices": [{"message": dict(message)} as choice, *_]}:
                pass
            case _:
                raise ReplyBroken("Bedrock returned status 200 without a message in 'choices'")
        if _tell_apart(message, heading.reasoning_field, self):
            choice["finish_reason"] = "stop"
        return msgspec.json.encode({"id": heading.completion_id, **answer, "model": heading.model})

    def translator(self, heading: Heading) -> "OpenAITranslator":
        return OpenAITranslator(heading, stops=self.stops, inline_reasoning=self.inline_reasoning)

    @property
    def max_tokens(self) -> int:
        return _limit_in(self.payload)

    def without(self, refused: Unsupported) -> "OpenAIQuestion | None":
        field, beside = refused.field, refused.beside
        if beside is not None:
            if not {field, beside} <= self.payload.keys():
                return None
            field = beside if field == "temperature" else field
        if field not in _OPTIONAL | {"stop"} or field not in self.payload:
            return None
        rest = {name: value for name, value in self.payload.items() if name != field}
        if field == "stop":
            return replace(self, payload=rest, stops=(*self.payload["stop"], *self.stops))
        return replace(self, payload=rest, dropped=tuple(sorted({*self.dropped, field})))

    def limited(self, max_tokens: int) -> "OpenAIQuestion | None":
        if not 0 < max_tokens < self.max_tokens:
            return None
        name = "max_completion_tokens" if "max_completion_tokens" in self.payload else "max_tokens"
        return replace(self, payload={**self.payload, name: max_tokens})


class OpenAIWire:
    """Builder of requests to a model through OpenAI's API. Implements `gateway.backends.bedrock.wire.Wire`."""

    def __init__(
        self, model_id: str, *, default_max_tokens: int, max_output_tokens: int | None = None, family: str = "auto"
    ) -> None:
        """Create a builder for *model_id*. *max_output_tokens* is the model's output limit. For *family*, see
        `ConverseWire`.
        """
        if not model_id:
            raise ValueError("The Bedrock model id must not be empty")
        self._model_id = model_id
        self._family = family_of(model_id, family)
        self._default_max_tokens = default_max_tokens
        self._max_output_tokens = max_output_tokens

    def question(self, call: Call) -> OpenAIQuestion:
        try:
            fields = read_object(call.body)
        except ValueError as error:
            raise MalformedBody(f"The request body is {error}") from error
        for name, is_asked_for in _REFUSED.items():
            if is_asked_for(fields.get(name)):
                raise InvalidField(f"'{name}' is not supported by the Bedrock fallback", param=name)
        payload = {name: value for name, value in fields.items() if name in _PASSED and value is not None}
        payload["model"] = self._model_id
        if self._family.keeps_reasoning != "plain":
            payload["messages"] = _without_thoughts(payload.get("messages"))
        if fields.get("service_tier") in _ALLOWED_TIERS:
            payload["service_tier"] = fields["service_tier"]
        self._limit(payload)
        known = _PASSED | _SILENT | _REFUSED.keys()
        dropped = {name for name, value in fields.items() if value is not None and name not in known}
        dropped |= self._think(fields, payload)
        _sanitise_tools(payload)
        if not call.streams:
            payload.pop("stream_options", None)  # which is refused beside an answer that does not stream
        stops = self._stop(payload)
        return OpenAIQuestion(
            payload,
            tuple(sorted(dropped)),
            call.streams,
            stops=stops,
            inline_reasoning=self._family.inline_reasoning,
        )

    def _think(self, fields: dict[str, Any], payload: dict[str, Any]) -> set[str]:
        """Set the reasoning effort in *payload* in the format that the model supports. Return the names of dropped
        fields.

        For an unknown model the client's own value is sent, because the model's error message is more informative.
        """
        level = read_effort(fields)
        said = payload.pop("reasoning_effort", None)
        if level is None:
            return set()
        if self._family.name == OTHER.name:
            payload["reasoning_effort"] = level if said is None else said
            return set()
        own = effort_fields(level, self._family, max_tokens=_limit_in(payload)) or {}
        if "reasoning_effort" in own:
            payload["reasoning_effort"] = own["reasoning_effort"]
            return set()
        return set() if level == "none" else {"chat_template_kwargs" if said is None else "reasoning_effort"}

    def _stop(self, payload: dict[str, Any]) -> tuple[str, ...]:
        """Keep the supported stop strings in *payload* and return the others, which the gateway itself must apply."""
        stops = read_stops(payload.pop("stop", None))
        sent = sent_stops(stops, self._family)
        if sent:
            payload["stop"] = sent
        return tuple(stop for stop in stops if stop not in sent)

    def _limit(self, payload: dict[str, Any]) -> None:
        """Set the output limit in *payload*, in the same field that the client used."""
        name = "max_completion_tokens" if "max_tokens" not in payload else "max_tokens"
        name = "max_completion_tokens" if "max_completion_tokens" in payload else name
        asked = payload.get(name, self._default_max_tokens)
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise InvalidField(f"'{name}' must be an integer of at least 1", param=name)
        payload.pop("max_tokens", None)
        payload[name] = min(asked, self._max_output_tokens or asked)


class OpenAITranslator:
    """Translator from OpenAI's server-sent events to the client's chunks. Implements
    `gateway.backends.bedrock.wire.Translator`.
    """

    def __init__(self, heading: Heading, *, stops: tuple[str, ...] = (), inline_reasoning: bool = True) -> None:
        """Create a translator. *stops* are the stop strings that were not sent to the model."""
        self._heading = heading
        self._splitter = ReasoningSplitter(has_tags=inline_reasoning)
        self._guard = StopGuard(stops)
        self._buffer = bytearray()
        self._looked_at = 0
        """Number of bytes at the start of the buffer in which no event ends."""
        self._announced = b""
        """Chunk with only the role, held back until the first content, so that an earlier failure can be retried
        elsewhere.
        """
        self._has_finish = False
        self._is_over = False

    @property
    def awaits_usage(self) -> bool:
        return self._has_finish

    @property
    def is_over(self) -> bool:
        """Return whether the ``[DONE]`` event has arrived."""
        return self._is_over

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> bytes | BedrockFault | None:
        end = _END_OF_EVENT.search(self._buffer, max(self._looked_at - 3, 0))
        if end is None:
            self._looked_at = len(self._buffer)
            return None
        data = _data_of(bytes(self._buffer[: end.start()]))
        del self._buffer[: end.end()]
        self._looked_at = 0
        if data == b"[DONE]":
            self._is_over = self._has_finish
            if not self._has_finish:
                raise ReplyBroken("Bedrock's stream ended without a finish reason")
            return b""
        return self._translated(data) if data else b""

    def end(self) -> bytes:
        was_cut = not self._has_finish or (self._buffer and not self._guard.has_stopped)
        if not self._is_over and was_cut:
            raise ReplyBroken("Bedrock's stream was cut off before its end")
        return _DONE

    def _translated(self, data: bytes) -> bytes | BedrockFault:
        try:
            chunk = read_object(data)
        except ValueError as error:
            raise ReplyBroken(f"Bedrock sent an event that is {error}") from error
        if self._guard.has_stopped and chunk.get("choices") != []:
            return b""  # the answer is complete; only its usage is still of interest
        match chunk:
            case {"error": dict(fault)}:
                return fault_of_error(fault)
            case {"choices": [{"delta": dict(delta)} as choice, *_]}:
                return self._split(chunk, choice, delta)
            case {"choices": []}:
                return self._chunk(chunk)
        raise ReplyBroken("Bedrock sent an event that is not a completion chunk")

    def _split(self, chunk: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any]) -> bytes:
        """Return *chunk* with the text that is certain so far, split into reasoning and answer, or ``b""`` if there is
        no such text.
        """
        field = self._heading.reasoning_field
        reasoning, answer = "", ""
        if isinstance(delta.get("content"), str) and delta["content"]:
            reasoning, answer = self._splitter.feed(delta.pop("content"))
        field_text = _take_reasoning(delta)
        is_last = choice.get("finish_reason") is not None
        if is_last:
            self._has_finish = True
            last_reasoning, last_answer = self._splitter.rest()
            reasoning, answer = reasoning + last_reasoning, answer + last_answer
        answer = self._guard.feed(answer) + (self._guard.rest() if is_last else "")
        if self._guard.has_stopped:
            choice["finish_reason"], self._has_finish, is_last = "stop", True, True
            delta.pop("tool_calls", None)
        if answer:
            delta["content"] = answer
        if field_text + reasoning:
            delta[field] = field_text + reasoning
        if not is_last and not any(value for name, value in delta.items() if name != "role"):
            self._announced = self._announced or self._chunk(chunk)
            return b""
        announced, self._announced = self._announced, b""
        return announced + self._chunk(chunk)

    def _chunk(self, chunk: dict[str, Any]) -> bytes:
        body = msgspec.json.encode({"id": self._heading.completion_id, **chunk, "model": self._heading.model})
        return b"data: " + body + b"\n\n"


_END_OF_EVENT = re.compile(rb"\r?\n\r?\n")


def _data_of(event: bytes) -> bytes:
    """Return the data of a server-sent event, or ``b""`` for a comment."""
    lines = [line.removeprefix(b"data:").strip() for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines)


def _without_thoughts(messages: object) -> object:
    """Return *messages* without reasoning fields, which most models on Bedrock do not accept."""
    if not isinstance(messages, list):
        return messages
    return [
        {name: value for name, value in message.items() if name not in _REASONING_FIELDS}
        if isinstance(message, dict)
        else message
        for message in messages
    ]


def _take_reasoning(part: dict[str, Any]) -> str:
    """Remove the reasoning from a message or delta and return it, from whichever field has it."""
    found = [part.pop(name, None) for name in _REASONING_FIELDS]
    return next((text for text in found if isinstance(text, str)), "")


def _tell_apart(message: dict[str, Any], reasoning_field: str, question: OpenAIQuestion) -> bool:
    """Move the reasoning in *message* to *reasoning_field* and apply the stop strings. Only a message with tool calls
    can have null content.

    Return True if a stop string of *question* has ended the answer.
    """
    reasoning = _take_reasoning(message)
    splitter, guard = ReasoningSplitter(has_tags=question.inline_reasoning), StopGuard(question.stops)
    content = message.get("content")
    if isinstance(content, str):
        parts = [splitter.feed(content), splitter.rest()]
        reasoning += "".join(each for each, _ in parts)
        content = "".join([guard.feed(answer) for _, answer in parts]) + guard.rest()
    if guard.has_stopped:
        message.pop("tool_calls", None)
    message["content"] = content or (None if message.get("tool_calls") else "")
    if reasoning:
        message[reasoning_field] = reasoning
    return guard.has_stopped


def _limit_in(payload: dict[str, Any]) -> int:
    return int(payload.get("max_completion_tokens") or payload["max_tokens"])


def _sanitise_tools(payload: dict[str, Any]) -> None:
    """Remove empty tool lists and the fields that depend on tools, because Bedrock rejects them. Clean the schemas of
    the tools.

    Raises:
        InvalidField: if a tool call is required but there are no tools, or a tool's schema is not an object schema.
    """
    for name, choice in (("tools", "tool_choice"), ("functions", "function_call")):
        if payload.get(name):
            continue
        payload.pop(name, None)
        if payload.pop(choice, None) not in (None, "none", "auto"):
            raise InvalidField(f"'{choice}' requires a tool call, but the request defines no tools", param=choice)
    if "tools" not in payload:
        payload.pop("parallel_tool_calls", None)
        return
    payload["tools"] = [_sanitised(tool, f"tools[{at}]") for at, tool in enumerate(payload["tools"])]


def _sanitised(tool: Any, where: str) -> Any:
    match tool:
        case {"type": "function", "function": dict(function)} if "parameters" in function:
            schema = tool_schema(function["parameters"], f"{where}.function.parameters")
            return {**tool, "function": {**function, "parameters": schema}}
    return tool
