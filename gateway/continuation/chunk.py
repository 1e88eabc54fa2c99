"""One event of a stream of OpenAI's chunks: what it says, and the same event as another answer's.

vLLM tells token ids where ``return_token_ids`` asks for them: those of the prompt beside ``choices`` (chat) or in the
first choice (completions), those of an event in ``choices[].token_ids``. Where nobody asks it writes null there.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.sse import NO_ERROR, data_of
from gateway.unreadable import UNREADABLE
from gateway.usage import Usage
from gateway.usage_fields import UsageFields

CHAT = "chat.completion.chunk"
TEXT = "text_completion"
ABORT = "abort"
"""As vLLM says of what it does not complete, as if all were well."""


class Delta(msgspec.Struct, gc=False):
    """What a chat's event adds to the message."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None  # as older engines name it
    tool_calls: list[Raw] | None = None
    function_call: Raw = Raw(b"null")


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None

    @property
    def content(self) -> str:
        """The text that this event adds to the answer."""
        return (self.delta.content if self.delta is not None else self.text) or ""

    @property
    def reasons(self) -> bool:
        return self.delta is not None and bool(self.delta.reasoning or self.delta.reasoning_content)

    @property
    def calls(self) -> bool:
        """A call of a tool is open, or complete."""
        return self.delta is not None and (bool(self.delta.tool_calls) or bytes(self.delta.function_call) != b"null")

    @property
    def only_names_role(self) -> bool:
        """It announces a message, and adds nothing to it."""
        if self.delta is None or self.delta.role is None:
            return False
        return not (self.content or self.reasons or self.calls or self.finish_reason or self.token_ids)

    @property
    def is_bare(self) -> bool:
        """It carries nothing but token ids: vLLM would not have sent it, had nobody asked for them."""
        return self.delta == Delta() and self.finish_reason is None


class Chunk(msgspec.Struct, gc=False):
    id: str | None = None
    created: int | None = None
    model: str | None = None
    object: str | None = None
    choices: list[Choice] | None = None
    usage: UsageFields | None = None
    error: Raw = Raw()
    prompt_token_ids: list[int] | None = None

    @property
    def fails(self) -> bool:
        """The engine says that it failed, or gives the request up."""
        choices = self.choices
        if choices is not None and len(choices) == 1 and choices[0].finish_reason is None:
            aborts = False  # as of nearly all
        else:
            aborts = any(choice.finish_reason == ABORT for choice in choices or ())
        return aborts or self.object == "error" or bytes(self.error) not in NO_ERROR


def payload_of(event: bytes) -> bytes:
    """The data of *event*, without the white space around it; ``b""`` of a comment."""
    if event.startswith(b"data: {") and event.endswith(b"}\n\n") and event.count(b"\n") == 2:
        return event[6:-2]  # as engines write nearly all of theirs
    return data_of(event)


def chunk_of(data: bytes) -> Chunk | None:
    """What *data* says; None if it is not OpenAI's chunk. About 1 us."""
    try:
        return _decode(data)
    except UNREADABLE:
        return None


def without_ids(event: bytes) -> bytes:
    """*event* as the engine would have written it, had nobody asked for token ids.

    A quote inside a JSON string has a backslash before it. So a quote that has none begins or ends a string, and what
    stands between two such and a colon is a key: no text can be mistaken for one.
    """
    event = _ids_of(b'"token_ids":null', event)
    return _prompt_ids_of(b'"prompt_token_ids":null', event) if b'"prompt_token_ids"' in event else event


def usage_json(usage: Usage, said: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return *usage* in OpenAI's form, with all else that an engine has *said* beside its own counts."""
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
# A pattern that begins with plain letters is looked for ten times as fast, so what stands before them is asked later.
_ids_of = re.compile(rb'"token_ids"(?<!\\"token_ids")\s*:\s*\[[0-9,\s]*\]').sub
_prompt_ids_of = re.compile(rb'"prompt_token_ids"(?<!\\"prompt_token_ids")\s*:\s*\[[0-9,\s]*\]').sub


class Head(msgspec.Struct, frozen=True):
    """What all events of one answer have in common."""

    id: str | None
    created: int | None
    model: str | None
    is_chat: bool

    def event(self, **fields: Any) -> bytes:
        """One event of this answer, with *fields* after the common ones."""
        head = {"id": self.id, "object": CHAT if self.is_chat else TEXT, "created": self.created, "model": self.model}
        return b"data: " + msgspec.json.encode(head | fields) + b"\n\n"

    def finish(self, reason: str) -> bytes:
        """The event that says why the answer ends."""
        says: dict[str, Any] = {"delta": {}} if self.is_chat else {"text": ""}
        return self.event(choices=[{"index": 0, **says, "logprobs": None, "finish_reason": reason}])

    def rewritten(self, data: bytes, content: str, usage: Usage | None, *, keeps_ids: bool) -> bytes:
        """The event with *data* as one of this answer, which has begun already: it adds *content*, and no role.

        The counts of *usage* replace those in the event; None: those are right.
        """
        told: dict[str, Any] = msgspec.json.decode(data)
        choices = [self._choice(choice, content, keeps_ids=keeps_ids) for choice in told.get("choices") or ()]
        counts: dict[str, Any] = {"usage": told["usage"]} if "usage" in told else {}
        if usage is not None and isinstance(counts.get("usage"), dict):
            counts["usage"] = usage_json(usage, counts["usage"])
        return self.event(choices=choices, **counts)

    def _choice(self, told: dict[str, Any], content: str, *, keeps_ids: bool) -> dict[str, Any]:
        said = told.pop("delta", None)
        says: dict[str, Any] = {"text": content}
        told.pop("text", None)
        if self.is_chat:
            delta = said if isinstance(said, dict) else {"content": content}
            delta.pop("role", None)
            if content or "content" in delta:
                delta["content"] = content
            says = {"delta": delta}
        if not keeps_ids and "token_ids" in told:
            told["token_ids"] = None
        told.pop("prompt_token_ids", None)  # of the first event, which came from another worker
        return {"index": told.pop("index", 0), **says, **told}
