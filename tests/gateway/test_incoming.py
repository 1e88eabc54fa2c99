"""What the head of a request says; faults of its body are told in tests/gateway/test_proxy.py, with their answers."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.incoming import JSON, LONG_BODY_BYTES, Incoming


async def _nothing() -> dict[str, Any]:
    raise AssertionError("only the head is looked at")


def _coming(pieces: Iterable[bytes]) -> Any:
    """A `receive` that has all of them at once."""
    left = [*pieces]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


def incoming(*headers: tuple[bytes, bytes], query: bytes = b"") -> Incoming:
    scope = {
        "method": "POST",
        "path": "/v1/é",
        "raw_path": b"/v1/%C3%A9",
        "query_string": query,
        "headers": list(headers),
    }
    return Incoming(scope, _nothing)


def test_the_target_is_path_and_query_as_they_came() -> None:
    """Nothing is decoded and encoded again."""
    assert b"/v1/%C3%A9" == incoming().target
    assert b"/v1/%C3%A9?a=%20b" == incoming(query=b"a=%20b").target


def test_a_header_is_its_first_value() -> None:
    """An empty one is none."""
    head = incoming((b"x-session-id", b"s\xe9"), (b"x-session-id", b"other"), (b"x-empty", b""))

    assert "sé" == head.text_of(b"x-session-id")
    assert head.text_of(b"x-empty") is None
    assert head.text_of(b"x-absent") is None
    assert {b"x-session-id": b"s\xe9", b"x-empty": b""} == head.fields


def test_a_header_that_is_added_is_seen_by_workers() -> None:
    """As if the caller had sent it; the scope of the server keeps its own list."""
    request = incoming((b"x-a", b"1"))
    before = request._scope["headers"]
    request.add(b"traceparent", b"00-1-2-00")

    assert [(b"x-a", b"1"), (b"traceparent", b"00-1-2-00")] == request.upstream_headers(b"r-1", JSON)[-2:]
    assert [(b"x-a", b"1")] == before


def test_the_callers_request_id_is_taken_if_it_is_fit() -> None:
    """One that could break a header or a log line is not."""
    assert b"r-1" == incoming((b"x-request-id", b"r-1")).request_id
    assert incoming((b"x-request-id", b"a b")).request_id is None


def test_the_upstream_headers_are_without_credentials() -> None:
    """And with the request's id."""
    head = incoming((b"authorization", b"Bearer sk-secret"), (b"x-team", b"blue"))

    assert [(b"content-type", b"application/json"), (b"x-request-id", b"r-1"), (b"x-team", b"blue")] == (
        head.upstream_headers(b"r-1", JSON)
    )


@pytest.mark.parametrize(("size", "turns"), [(LONG_BODY_BYTES, 0), (LONG_BODY_BYTES + 1, 1)])
async def test_others_have_a_turn_before_a_long_body_is_read(size: int, turns: int) -> None:
    """One that came whole, without ever being waited for."""
    scope = {"method": "POST", "path": "/v1/x", "headers": [(b"content-length", b"%d" % size)]}
    pieces = [b"x" * (size - 1), b"y"]
    had: list[str] = []
    asyncio.get_running_loop().call_soon(had.append, "a turn")

    body = await Incoming(scope, _coming(pieces)).body(JSON, most_bytes=size)

    assert b"".join(pieces) == body
    assert ["a turn"] * turns == had
