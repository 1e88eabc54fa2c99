"""Encoding of server-sent events, in variants that upstream servers use. All variants have the same content."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    data: Json | None
    """Data of the event, or None for the text ``[DONE]``."""
    name: str | None = None
    """Name of the event. Only the events of /v1/responses and /v1/messages have names in vLLM."""


DONE = Event(None)


class Spelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Formatting of streams, as JSON that /control/sse accepts and returns."""

    line_end: Literal["lf", "crlf"] = "lf"
    comment_every: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Number of events before each inserted comment, like vLLM's ``--sse-keep-alive-interval``, or None."""


class SseEncoder:
    """Encoder for the events of one stream. It counts the events in order to insert comments."""

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
