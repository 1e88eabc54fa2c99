"""The model's name in answers, which must be the name that the caller used.

A worker answers with its own name of the model. A caller that used an alias or the name of a route gets that name back,
because some clients compare the two. All other bytes stay unchanged.
"""

import re
from typing import Final

import msgspec

from gateway.protocol.errors import MalformedBody
from gateway.protocol.splice import members_of, spliced

MAX_NAME_LENGTH: Final = 256
"""Longest name that is put into answers, in characters. An alias that ends in ``*`` allows longer ones, but every event
of a stream repeats the name."""

_name_in_event: Final = re.compile(rb'"model": ?"(?:[^"\\]|\\.)*"')
"""The member in an event. Inside a JSON string its quotes would be escaped, so text cannot match."""


class AnswerName:
    """Replaces the name in a backend's answer by the name *asked*."""

    __slots__ = ("_json", "_member")

    def __init__(self, asked: str) -> None:
        self._json = msgspec.json.encode(asked)
        self._member = (b'"model":' + self._json).replace(b"\\", b"\\\\")  # as a template of re

    def whole(self, body: bytes) -> bytes:
        """Return the JSON object *body* with the name in ``model``; unchanged without that field or if not an object.

        About 1 ms for each megabyte.
        """
        try:
            places = members_of(body)
        except MalformedBody:
            return body
        has_model = any(name == "model" for name, _, _ in places)
        return spliced(body, {"model": self._json}, places) if has_model else body

    def events(self, data: bytes) -> bytes:
        """Return *data* of a stream with the name in the first ``model`` of every event. About 1 us an event."""
        if b'"model":' not in data:
            return data
        return b"\n\n".join([_name_in_event.sub(self._member, event, count=1) for event in data.split(b"\n\n")])


def answer_name(asked: str, upstream_name: str, *, fell_back: bool) -> AnswerName | None:
    """Return what renames an answer; None if the backend uses the name *asked* itself, or if that is too long."""
    if (asked == upstream_name and not fell_back) or not asked or len(asked) > MAX_NAME_LENGTH:
        return None
    return AnswerName(asked)
