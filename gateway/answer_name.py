"""The model's name in answers: the one that the caller used.

A worker answers with the name that it knows the model by. A caller that asked by an alias, or by the name of a route,
gets its own name back, as clients that compare the two expect. All other bytes stay as they came.
"""

import re
from typing import Final

import msgspec

from gateway.errors import MalformedBody
from gateway.splice import members_of, spliced

LONGEST_NAME: Final = 256
"""Characters of a name that is put into answers. An alias that ends in ``*`` admits longer ones, which would make every
event of a stream as long as the name."""

_name_in_event: Final = re.compile(rb'"model": ?"(?:[^"\\]|\\.)*"')
"""The member of an event. Inside a JSON string its quotes would be escaped, so text never looks like it."""


class AnswerName:
    """Puts the name *asked* in place of the one that a backend answered with."""

    __slots__ = ("_json", "_member")

    def __init__(self, asked: str) -> None:
        self._json = msgspec.json.encode(asked)
        self._member = (b'"model":' + self._json).replace(b"\\", b"\\\\")  # as a template of re

    def whole(self, body: bytes) -> bytes:
        """Return the JSON object *body* with the name in its ``model``; unchanged if it has none, or is no object.

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
    """How the answer is renamed; None where the backend uses the name *asked* itself, or that is too long."""
    if (asked == upstream_name and not fell_back) or not asked or len(asked) > LONGEST_NAME:
        return None
    return AnswerName(asked)
