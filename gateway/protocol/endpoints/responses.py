"""Responses API of OpenAI: its request body, its stream of named events, and its usage."""

import re
from typing import Any

import msgspec
from msgspec import Raw

from gateway.protocol.body import Body, count, named, parsed
from gateway.protocol.engine_fields import EngineFields, engine_fields_of
from gateway.protocol.errors import DECODE_ERRORS
from gateway.protocol.prompt import Item, responses_prompt
from gateway.protocol.session_field import has_session_field, session_field_of
from gateway.protocol.sse import NO_ERROR, NamedEventObserver
from gateway.protocol.usage import Usage


def parse_responses(raw: bytes) -> Body:
    """Parse the body of ``/v1/responses``. Takes O(bytes). Raises the same errors as
    `gateway.protocol.body.parse_chat`.
    """
    return parsed(raw, _read)


class ResponsesObserver(NamedEventObserver):
    """Observer of the events of a response up to ``response.completed``, ``.incomplete`` or ``.failed``.

    The first and the last event contain the whole response with the caller's instructions and tools. They may be long,
    so *max_held* is larger than for chat chunks.
    """

    __slots__ = ()

    PRELUDE = frozenset({"response.created", "response.in_progress", "response.queued"})
    ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
    FAILURES = frozenset({"response.failed", "error"})

    def __init__(self, *, strip_usage: bool = False, max_held: int = 2**20) -> None:  # noqa: ARG002  # never alone
        super().__init__(max_held=max_held)

    def feed(self, data: bytes) -> bytes:
        passes = super().feed(data)
        at = passes.rfind(b'"sequence_number"')  # quotes in text are escaped, so this is a key
        if at >= 0 and (number := _sequence_number(passes, at)):
            self.next_sequence_number = int(number[1]) + 1
        return passes

    def _may_matter(self, events: bytes) -> bool:
        if self.response_id is None or b"error" in events or b"[DONE]" in events:
            return True
        return b"response.completed" in events or b"response.incomplete" in events or b"response.failed" in events

    def _note(self, name: str, data: bytes) -> None:
        try:
            event = _decode_event(data)
        except DECODE_ERRORS:
            event = _ResponsesEvent()
        response = event.response
        if response is not None:
            self.response_id = self.response_id or _kept(response.id)
            self.usage = _usage_in(response.usage) or self.usage
        if self.failed is not None:
            return
        error = bytes(event.error)
        if name == "response.failed":
            error = bytes(response.error) if response is not None else b""
            self.failed = b"{}" if error in NO_ERROR else error
        elif name == "error":
            self.failed = data if error in NO_ERROR else error
        elif error not in NO_ERROR:
            self.failed = error


def usage_of_response(body: bytes) -> Usage | None:
    """Return the usage in a complete response, or None if the response contains no usage. Takes O(bytes)."""
    try:
        return _usage_in(_decode_response(body).usage)
    except DECODE_ERRORS:
        return None


def response_id_of(body: bytes) -> str | None:
    """Return the id of a stored response, or None if *body* is not a response. Takes O(bytes)."""
    try:
        return _kept(_decode_response(body).id)
    except DECODE_ERRORS:
        return None


_NOT_IN_BACKGROUND = (None, False)
"""Values of ``background`` that count as false. Engines accept some values other than ``true`` as true, such as
``"yes"`` and 1.
"""
_MAX_ID_LENGTH = 256
"""Maximum length in characters of a response id that the gateway remembers. Ids of vLLM have 37 characters."""


class _Responses(EngineFields, gc=False):
    model: str | None = None
    input: str | list[Item] | None = None
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | float | None = None
    tools: Any = None
    reasoning: Any = None
    chat_template_kwargs: Any = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    cache_salt: str | None = None
    background: Any = None


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _InputDetails | None = None


class _Response(msgspec.Struct, gc=False):
    id: str | None = None
    usage: Raw = Raw()
    error: Raw = Raw()


class _ResponsesEvent(msgspec.Struct, gc=False):
    response: _Response | None = None
    error: Raw = Raw()


_decode = msgspec.json.Decoder(_Responses, float_hook=Raw).decode
_decode_event = msgspec.json.Decoder(_ResponsesEvent).decode
_decode_response = msgspec.json.Decoder(_Response).decode
_decode_usage = msgspec.json.Decoder(_Usage).decode
_sequence_number = re.compile(rb'"sequence_number"[ ]*:[ ]*([0-9]{1,18})').match


def _read(raw: bytes) -> Body:
    body = _decode(raw)
    is_whole = not body.previous_response_id  # otherwise the prompt begins with text that only the worker has
    return Body(
        model=named(body.model),
        streams=bool(body.stream),
        max_tokens=count(body.max_output_tokens, "max_output_tokens", minimum=0) or None,
        asks_usage=True,
        has_stream_options=False,
        prompt=responses_prompt(body.instructions, body.input or (), head=_head(body)),
        session=session_field_of(body) or body.prompt_cache_key or body.user or None,
        cache_salt=body.cache_salt,
        n=1,
        reads_cache=is_whole,
        writes_cache=is_whole,
        previous_response_id=body.previous_response_id or None,
        user=body.safety_identifier or body.user or None,
        engine_fields=engine_fields_of(body),
        hides_session_id=has_session_field(body),
        background=body.background not in _NOT_IN_BACKGROUND,
    )


def _head(body: _Responses) -> dict[str, Any]:
    head = {"tools": body.tools, "chat_template_kwargs": body.chat_template_kwargs, "reasoning_effort": _effort(body)}
    return {name: value for name, value in head.items() if value}


def _effort(body: _Responses) -> Any:
    return body.reasoning.get("effort") if isinstance(body.reasoning, dict) else None


def _kept(response_id: str | None) -> str | None:
    """Return *response_id*, or None if it is too long for the gateway to remember."""
    return response_id if response_id and len(response_id) <= _MAX_ID_LENGTH else None


def _usage_in(raw: Raw) -> Usage | None:
    try:
        usage = _decode_usage(raw) if bytes(raw) not in NO_ERROR else None
    except DECODE_ERRORS:
        return None
    if usage is None:
        return None
    details = usage.input_tokens_details
    return Usage(usage.input_tokens, usage.output_tokens, details.cached_tokens if details else None)
