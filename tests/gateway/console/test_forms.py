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


MULTIPART = "multipart/form-data; boundary=----x1"
UPLOAD = (
    b'------x1\r\nContent-Disposition: form-data; name="csrf"\r\n\r\ntoken\r\n'
    b'------x1\r\nContent-Disposition: form-data; name="trace"; filename="a.jsonl"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n{}\r\n{}\n\r\n------x1--\r\n"
)


async def test_a_form_with_a_file_is_read_where_files_are_expected() -> None:
    form = await form_of(a_request(UPLOAD[:50], UPLOAD[50:], media_type=MULTIPART), max_upload_bytes=1000)

    assert {"csrf": "token", "trace": "{}\r\n{}\n"} == form


async def test_other_forms_are_accepted_there_too() -> None:
    assert {"a": "1"} == await form_of(a_request(b"a=1"), max_upload_bytes=1000)


@pytest.mark.parametrize(
    ("body", "max_upload_bytes", "status"),
    [
        (UPLOAD, 0, 415),
        (b"x" * (MAX_BYTES + 1001), 1000, 413),
        (UPLOAD[:-6], 1000, 400),
        (b"\xff" + UPLOAD, 1000, 400),
    ],
)
async def test_other_forms_with_files_are_refused(body: bytes, max_upload_bytes: int, status: int) -> None:
    with pytest.raises(RequestRefused) as caught:
        await form_of(a_request(body, media_type=MULTIPART), max_upload_bytes=max_upload_bytes)

    assert status == caught.value.status


async def test_a_form_without_a_file_is_not_larger_because_files_are_expected() -> None:
    with pytest.raises(RequestRefused) as caught:
        await form_of(a_request(b"a=" + b"x" * MAX_BYTES), max_upload_bytes=10 * MAX_BYTES)

    assert 413 == caught.value.status
