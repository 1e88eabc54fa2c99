"""Facts about forms with files."""

import pytest

from gateway.console.multipart import multipart_fields

TYPE = "multipart/form-data; boundary=b"


def a_field(name: str, value: bytes, *more: str) -> bytes:
    head = "\r\n".join([f'Content-Disposition: form-data; name="{name}"', *more])
    return b"--b\r\n" + head.encode() + b"\r\n\r\n" + value + b"\r\n"


def test_values_are_texts_and_the_last_one_counts() -> None:
    body = a_field("a", b"1") + a_field("b", "ä\r\n\r\n-".encode()) + a_field("a", b"") + b"--b--\r\n"

    assert {"a": "", "b": "ä\r\n\r\n-"} == multipart_fields(body, TYPE, max_fields=3)


def test_a_quoted_boundary_is_understood() -> None:
    assert {"a": "1"} == multipart_fields(
        a_field("a", b"1") + b"--b--", 'multipart/form-data; charset=utf-8; boundary="b"', max_fields=3
    )


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", TYPE),
        (b"--b--", "multipart/form-data"),
        (b"--b--", "multipart/form-data; boundary=" + "b" * 71),
        (b"before\r\n" + a_field("a", b"1") + b"--b--", TYPE),
        (a_field("a", b"1"), TYPE),
        (a_field("a", b"1") * 4 + b"--b--", TYPE),
        (a_field("a", b"\xff") + b"--b--", TYPE),
        (a_field("a", b"1", "x: " + "y" * 5000) + b"--b--", TYPE),
        (b"--b\r\nContent-Type: text/plain\r\n\r\n1\r\n--b--", TYPE),
        (b"--b 1\r\n--b--", TYPE),
    ],
)
def test_malformed_bodies_are_refused(body: bytes, content_type: str) -> None:
    with pytest.raises(ValueError, match=r"form|field|boundary|utf-8"):
        multipart_fields(body, content_type, max_fields=3)
