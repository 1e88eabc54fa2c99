"""Parse an event of a stream in OpenAI's chunk format, and rewrite the event as part of another answer.

vLLM returns token ids if a request sets ``return_token_ids``. The ids of the prompt are next to ``choices`` in chats
and in the first choice in completions. The ids of an event are in ``choices[].token_ids``. The fields for token ids are
null if a request does not set ``return_token_ids``.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.protocol.errors import DECODE_ERRORS
from gateway.protocol.json_fields import UsageFields
from gateway.protocol.sse import NO_ERROR, data_of
from gateway.protocol.usage import Usage

CHAT = "chat.completion.chunk"
TEXT = "text_completion"
ABORT = "abort"
"""Finish reason that vLLM gives to a request that it aborts."""


class Delta(msgspec.Struct, gc=False):
    """Part of a message, added by one event of a chat stream."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None  # name in older engines
    tool_calls: list[Raw] | None = None
    function_call: Raw = Raw(b"null")


class ChunkChoice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None

    @property
    def content(self) -> str:
        """Text that the stream event adds to the answer."""
        return (self.delta.content if self.delta is not None else self.text) or ""

    @property
    def reasons(self) -> bool:
        return self.delta is not None and bool(self.delta.reasoning or self.delta.reasoning_content)

    @property
    def calls(self) -> bool:
        """Whether the event contains a part of a tool call."""
        return self.delta is not None and (bool(self.delta.tool_calls) or bytes(self.delta.function_call) != b"null")

    @property
    def only_names_role(self) -> bool:
        """Whether the event only announces the role of a message and has no content."""
        if self.delta is None or self.delta.role is None:
            return False
        return not (self.content or self.reasons or self.calls or self.finish_reason or self.token_ids)

    @property
    def is_bare(self) -> bool:
        """Whether the event contains only token ids. vLLM sends such events only because the gateway asks for token
        ids.
        """
        return self.delta == Delta() and self.finish_reason is None


class Chunk(msgspec.Struct, gc=False):
    id: str | None = None
    created: int | None = None
    model: str | None = None
    object: str | None = None
    choices: list[ChunkChoice] | None = None
    usage: UsageFields | None = None
    error: Raw = Raw()
    prompt_token_ids: list[int] | None = None

    @property
    def fails(self) -> bool:
        """Whether the engine reports an error or aborts the request."""
        choices = self.choices
        if choices is not None and len(choices) == 1 and choices[0].finish_reason is None:
            aborts = False  # the usual case
        else:
            aborts = any(choice.finish_reason == ABORT for choice in choices or ())
        return aborts or self.object == "error" or bytes(self.error) not in NO_ERROR


def payload_of(event: bytes) -> bytes:
    """Return the data of the server-sent event *event* without surrounding white space. For a comment, the result is
    empty.
    """
    if event.startswith(b"data: {") and event.endswith(b"}\n\n") and event.count(b"\n") == 2:
        return event[6:-2]  # the usual form
    return data_of(event)


def chunk_of(data: bytes) -> Chunk | None:
    """Return the parsed chunk, or None if *data* is not a chunk in OpenAI's format. This takes about 1 us."""
    try:
        return _decode(data)
    except DECODE_ERRORS:
        return None


def without_ids(event: bytes) -> bytes:
    """Return *event* without token ids, as if the gateway had not asked the engine for token ids.

    The search cannot mistake text for a key. Within a JSON string, every quote has a backslash before it, so a quote
    without a backslash begins or ends a string. A string before a colon is a key.
    """
    event = _ids_of(b'"token_ids":null', event)
    return _prompt_ids_of(b'"prompt_token_ids":null', event) if b'"prompt_token_ids"' in event else event


def usage_json(usage: Usage, said: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return *usage* in OpenAI's JSON format, with all other values of the engine's own usage report *said*."""
    counts: dict[str, Any] = {
        **(said or {}),
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    if usage.cached_tokens is not None:
        details = counts.get("prompt_tokens_details") or {}
        counts["prompt_tokens_details"] = {**details, "cached_tokens": usage.cached_tokens}
    return counts


_decode = msgspec.json.Decoder(Chunk).decode
# A pattern that begins with plain letters is found ten times as fast, so the lookbehind comes after them.
_ids_of = re.compile(rb'"token_ids"(?<!\\"token_ids")\s*:\s*\[[0-9,\s]*\]').sub
_prompt_ids_of = re.compile(rb'"prompt_token_ids"(?<!\\"prompt_token_ids")\s*:\s*\[[0-9,\s]*\]').sub


class Head(msgspec.Struct, frozen=True):
    """Fields that all events of one answer have in common."""

    id: str | None
    created: int | None
    model: str | None
    is_chat: bool

    def event(self, **fields: Any) -> bytes:
        """Return an event with the common fields of the answer, followed by *fields*."""
        head = {"id": self.id, "object": CHAT if self.is_chat else TEXT, "created": self.created, "model": self.model}
        return b"data: " + msgspec.json.encode(head | fields) + b"\n\n"

    def finish(self, reason: str) -> bytes:
        """Return the event that ends the answer with the finish reason *reason*."""
        says: dict[str, Any] = {"delta": {}} if self.is_chat else {"text": ""}
        return self.event(choices=[{"index": 0, **says, "logprobs": None, "finish_reason": reason}])

    def rewritten(self, data: bytes, content: str, usage: Usage | None, *, keeps_ids: bool) -> bytes:
        """Return the event *data* of another worker as an event of the first answer, with the text *content* and
        without a role.

        If *usage* is not None, its counts replace the counts in the event.
        """
        decoded: dict[str, Any] = msgspec.json.decode(data)
        choices = [self._choice(choice, content, keeps_ids=keeps_ids) for choice in decoded.get("choices") or ()]
        counts: dict[str, Any] = {"usage": decoded["usage"]} if "usage" in decoded else {}
        if usage is not None and isinstance(counts.get("usage"), dict):
            counts["usage"] = usage_json(usage, counts["usage"])
        return self.event(choices=choices, **counts)

    def _choice(self, decoded: dict[str, Any], content: str, *, keeps_ids: bool) -> dict[str, Any]:
        said = decoded.pop("delta", None)
        says: dict[str, Any] = {"text": content}
        decoded.pop("text", None)
        if self.is_chat:
            delta = said if isinstance(said, dict) else {"content": content}
            delta.pop("role", None)
            if content or "content" in delta:
                delta["content"] = content
            says = {"delta": delta}
        if not keeps_ids and "token_ids" in decoded:
            decoded["token_ids"] = None
        decoded.pop("prompt_token_ids", None)  # the first event came from another worker
        return {"index": decoded.pop("index", 0), **says, **decoded}
