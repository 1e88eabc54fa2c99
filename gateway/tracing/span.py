"""A stretch of a request's life, with what is to be known of it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Kind = Literal["internal", "server", "client"]
Value = str | bool | int | float | list[str] | list[int] | list[float]
"""Of an attribute, as OTLP has it: a plain value, or a list of one kind of them."""
Attributes = dict[str, Value]


class Span:
    """Open until it has an end. Times are monotonic seconds."""

    __slots__ = ("attributes", "began", "ended", "error", "id", "kind", "name", "parent_id")

    def __init__(self, id: int, name: str, began: float, *, parent_id: int, kind: Kind = "internal") -> None:  # noqa: A002
        self.id = id
        self.name = name
        self.began = began
        self.parent_id = parent_id
        """0: it has none."""
        self.kind: Kind = kind
        self.ended: float | None = None
        self.attributes: Attributes = {}
        self.error: str | None = None
        """Name of the fault that ended it."""

    def end(self, now: float) -> None:
        """At *now*; what has ended stays as it is."""
        if self.ended is None:
            self.ended = now


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a request at one moment, *at* monotonic seconds."""

    name: str
    at: float
    attributes: Mapping[str, Value]
