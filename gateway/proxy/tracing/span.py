"""Spans and events of a trace."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Kind = Literal["internal", "server", "client"]
Value = str | bool | int | float | list[str] | list[int] | list[float]
"""Value of a span attribute in OTLP: a string, number or boolean, or a list of strings or of numbers of one type."""
Attributes = dict[str, Value]


class Span:
    """Timed part of a request within a trace. Times are monotonic seconds."""

    __slots__ = ("attributes", "began", "ended", "error", "id", "kind", "name", "parent_id")

    def __init__(self, id: int, name: str, began: float, *, parent_id: int, kind: Kind = "internal") -> None:  # noqa: A002
        self.id = id
        self.name = name
        self.began = began
        self.parent_id = parent_id
        """Id of the parent span, or 0 if there is no parent."""
        self.kind: Kind = kind
        self.ended: float | None = None
        self.attributes: Attributes = {}
        self.error: str | None = None
        """Name of the error that ended the span, or None."""

    def end(self, now: float) -> None:
        """End the span at the monotonic time *now*, unless it has already ended."""
        if self.ended is None:
            self.ended = now


class SpanEvent(msgspec.Struct, frozen=True):
    """Event in a request at the monotonic time *at*, in seconds."""

    name: str
    at: float
    attributes: Mapping[str, Value]
