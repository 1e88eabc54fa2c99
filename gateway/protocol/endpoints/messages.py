"""Messages API of Anthropic: its request body, its stream of named events, and its usage."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.protocol.body import Body, count, named, parsed
from gateway.protocol.engine_fields import EngineFields, engine_fields_of
from gateway.protocol.errors import DECODE_ERRORS, InvalidField
from gateway.protocol.json_fields import ChatMessage
from gateway.protocol.prompt import Item, messages_prompt, without_cache_marks
from gateway.protocol.session_field import has_session_field, session_field_of
from gateway.protocol.sse import NO_ERROR, NamedEventObserver
from gateway.protocol.usage import Usage


def parse_messages(raw: bytes) -> Body:
    """Parse the body of ``/v1/messages``. Takes O(bytes). Raises the same errors as
    `gateway.protocol.body.parse_chat`.
    """
    return parsed(raw, _read)


class MessagesObserver(NamedEventObserver):
    """Observer of the events of a message up to ``message_stop``.

    Usage has two parts. ``message_start`` contains the input tokens. ``message_delta`` contains the output tokens and,
    from vLLM, the input tokens again, which then replace the first value. vLLM sends a delta with a null
    ``stop_reason`` if its engine gives up.
    """

    __slots__ = ("_counted",)

    PRELUDE = frozenset({"message_start", "ping"})
    ENDS = frozenset({"message_stop"})
    FAILURES = frozenset({"error"})

    def __init__(self, *, strip_usage: bool = False, max_held: int = 64 * 1024) -> None:  # noqa: ARG002  # never alone
        super().__init__(max_held=max_held)
        self._counted = _Usage()

    def _may_matter(self, events: bytes) -> bool:
        return b"message_" in events or b"error" in events or b"[DONE]" in events

    def _note(self, name: str, data: bytes) -> None:
        try:
            event = _decode_event(data)
        except DECODE_ERRORS:
            event = _MessagesEvent()
        if event.message is not None:
            self._add(event.message.usage)
        self._add(event.usage)
        if name == "message_delta" and event.delta is not None and event.delta.stop_reason is None:
            self.aborted = True
        error = bytes(event.error)
        if self.failed is None and (name == "error" or error not in NO_ERROR):
            self.failed = data if error in NO_ERROR else error

    def _add(self, usage: "_Usage | None") -> None:
        if usage is None:
            return
        if usage.input_tokens is None:  # only the output: keep the input
            counted = self._counted
            usage = msgspec.structs.replace(
                usage,
                input_tokens=counted.input_tokens,
                cache_read_input_tokens=counted.cache_read_input_tokens,
                cache_creation_input_tokens=counted.cache_creation_input_tokens,
            )
        self._counted = usage
        self.usage = usage.to_usage()


def usage_of_message(body: bytes) -> Usage | None:
    """Return the usage in a complete message, or None if the message contains no usage. Takes O(bytes)."""
    try:
        usage = _decode_message(body).usage
    except DECODE_ERRORS:
        return None
    return usage.to_usage() if usage is not None else None


class _Messages(EngineFields, gc=False):
    model: str | None = None
    messages: list[ChatMessage] | None = None
    system: str | list[Item] | None = None
    tools: Any = None
    stream: bool | None = None
    max_tokens: int | float | None = None
    metadata: Any = None
    cache_salt: str | None = None
    chat_template_kwargs: Any = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def to_usage(self) -> Usage:
        """Return the usage as OpenAI's API counts it. Anthropic's ``input_tokens`` do not include cached tokens."""
        read, written = self.cache_read_input_tokens, self.cache_creation_input_tokens
        prompt_tokens = (self.input_tokens or 0) + (read or 0) + (written or 0)
        return Usage(prompt_tokens, self.output_tokens or 0, read)


class _MessageAnswer(msgspec.Struct, gc=False):
    usage: _Usage | None = None


class _Delta(msgspec.Struct, gc=False):
    stop_reason: Any = ""


class _MessagesEvent(msgspec.Struct, gc=False):
    message: _MessageAnswer | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: Raw = Raw()


_decode = msgspec.json.Decoder(_Messages, float_hook=Raw).decode
_decode_event = msgspec.json.Decoder(_MessagesEvent).decode
_decode_message = msgspec.json.Decoder(_MessageAnswer).decode


def _read(raw: bytes) -> Body:
    body = _decode(raw)
    if not body.messages:
        raise InvalidField("'messages' must be a list of at least one message", param="messages")
    user = _user(body.metadata)
    return Body(
        model=named(body.model),
        streams=bool(body.stream),
        max_tokens=count(body.max_tokens, "max_tokens", minimum=0) or None,
        asks_usage=True,
        has_stream_options=False,
        prompt=messages_prompt(body.system, body.messages, head=_head(body)),
        session=session_field_of(body) or user,
        cache_salt=body.cache_salt,
        n=1,
        reads_cache=True,
        user=user,
        engine_fields=engine_fields_of(body),
        hides_session_id=has_session_field(body),
    )


def _head(body: _Messages) -> dict[str, Any]:
    head = {"tools": without_cache_marks(body.tools), "chat_template_kwargs": body.chat_template_kwargs}
    return {name: value for name, value in head.items() if value}


def _user(metadata: Any) -> str | None:
    """Return the field ``metadata.user_id``. In requests of Claude Code, this field also contains the session."""
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    return user if isinstance(user, str) and user else None
