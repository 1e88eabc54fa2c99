"""Lists in the format of OpenAI's API, and the query parameters of lists."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from fastapi import Response

from gateway.protocol.errors import InvalidField


def answer(value: dict[str, Any]) -> Response:
    """Return *value* as a JSON response. FastAPI would take milliseconds to convert a long list."""
    return Response(msgspec.json.encode(value), media_type="application/json")


def page_object(data: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return one page of a list of objects, of which each has an id."""
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more}


def page_size(text: str | None, *, default: int, most: int) -> int:
    """Return the value of the query parameter ``limit``, or *default* without it.

    Raises:
        InvalidField: if *text* is not a number from 1 to *most*.
    """
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise InvalidField(f"'limit' must be a number from 1 to {most}", param="limit")
    return int(text)


def order_of(text: str | None) -> Literal["asc", "desc"]:
    """Return the value of the query parameter ``order``, which is ``desc`` by default.

    Raises:
        InvalidField: if *text* has another value.
    """
    if text is None or text == "desc":
        return "desc"
    if text == "asc":
        return "asc"
    raise InvalidField("'order' must be 'asc' or 'desc'", param="order")
