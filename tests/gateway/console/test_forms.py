"""Facts about bodies of forms."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.requests import Request

from gateway.console.forms import MAX_BYTES, MAX_FIELDS, form_of
from gateway.console.request_checks import RequestRefused

FORM = "application/x-www-form-urlencoded"


def a_request(*pieces: bytes, media_type: str = FORM) -> Request:
    waiting = list(pieces)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    return Request({"type": "http", "headers": [(b"content-type", media_type.encode())]}, receive)


async def test_a_form_is_read_from_its_pieces() -> None:
    request = a_request(b"a=1&b=x+", b"y%C3%A4&a=2&c=", media_type=f"{FORM}; charset=UTF-8")

    assert {"a": "2", "b": "x yä", "c": ""} == await form_of(request)


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"a=1", "text/plain", 415),
        (b"{}", "application/json", 415),
        (b"a=1", "multipart/form-data; boundary=x", 415),
        (b"a=" + b"x" * MAX_BYTES, FORM, 413),
        (b"&".join([b"a=1"] * (MAX_FIELDS + 1)), FORM, 400),
        (b"a=%FF", FORM, 400),
        ("a=ä".encode(), FORM, 400),
    ],
)
async def test_other_bodies_are_refused(body: bytes, media_type: str, status: int) -> None:
    with pytest.raises(RequestRefused) as caught:
        await form_of(a_request(body, media_type=media_type))

    assert status == caught.value.status
