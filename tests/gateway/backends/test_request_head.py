import pytest

from gateway.backends.backend import Call
from gateway.backends.request_head import RequestHead
from gateway.backends.upstream.origin import Origin

ORIGIN = Origin.from_url("http://10.0.0.7:8000/base")


def call(method: bytes = b"POST", body: bytes = b"{}") -> Call:
    return Call(
        method=method,
        path=b"/v1/models?x=1",
        headers=[(b"accept", b"*/*"), (b"x-request-id", b"7")],
        body=body,
        streams=False,
        model="m",
    )


def test_a_head_has_line_host_fields_and_length() -> None:
    """The base path of the worker comes before the call's path; the length is ours."""
    assert (
        b"POST /base/v1/models?x=1 HTTP/1.1\r\n"
        b"host: 10.0.0.7:8000\r\n"
        b"accept: */*\r\n"
        b"x-request-id: 7\r\n"
        b"content-length: 2\r\n"
        b"\r\n"
    ) == RequestHead(ORIGIN).encode(call())


def test_the_workers_key_travels_as_bearer() -> None:
    """A worker with a key of its own gets it in ``authorization``."""
    assert b"\r\nauthorization: Bearer sk-1\r\n" in RequestHead(ORIGIN, api_key="sk-1").encode(call())


@pytest.mark.parametrize(("method", "has_length"), [(b"GET", False), (b"HEAD", False), (b"POST", True)])
def test_an_empty_body_has_a_length_only_where_a_body_is_usual(method: bytes, *, has_length: bool) -> None:
    """GET and HEAD without a body say nothing about its length; POST says 0."""
    assert has_length == (b"content-length: 0" in RequestHead(ORIGIN).encode(call(method, b"")))


def test_a_key_with_a_line_break_is_refused_without_being_shown() -> None:
    """A key that would start another header field never reaches the wire or a message."""
    with pytest.raises(ValueError, match="api_key contains a character") as refusal:
        RequestHead(ORIGIN, api_key="sk-1\r\nx: y")

    assert "sk-1" not in str(refusal.value)
