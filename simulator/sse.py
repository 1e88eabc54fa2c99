"""Server-sent events as bytes, in the spellings that upstreams use. The content does not depend on the spelling."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    data: Json | None
    """``None`` stands for the text ``[DONE]``."""
    name: str | None = None
    """vLLM names the events of /v1/responses and /v1/messages only."""


DONE = Event(None)


class Spelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON that /control/sse takes and gives."""

    line_end: Literal["lf", "crlf"] = "lf"
    comment_every: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """A comment follows every so many events, as with vLLM's ``--sse-keep-alive-interval``."""


class SseEncoder:
    """Writes the events of one stream; it counts them, for the comments."""

    def __init__(self, spelling: Spelling) -> None:
        self._line_end = b"\r\n" if spelling.line_end == "crlf" else b"\n"
        self._comment_every = spelling.comment_every
        self._events = 0

    def encode(self, events: Iterable[Event]) -> bytes:
        return b"".join([self._event(event) for event in events])

    def _event(self, event: Event) -> bytes:
        lines = [] if event.name is None else [b"event: " + event.name.encode()]
        lines.append(b"data: " + (b"[DONE]" if event.data is None else msgspec.json.encode(event.data)))
        self._events += 1
        if self._comment_every is not None and self._events % self._comment_every == 0:
            lines += [b"", b": keep-alive"]
        return self._line_end.join([*lines, b"", b""])
