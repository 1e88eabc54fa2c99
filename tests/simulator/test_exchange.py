from typing import Any

import pytest

from simulator.errors import ApiError
from simulator.exchange import ClientGone, HttpExchange


def exchange(*messages: dict[str, Any], headers: list[tuple[bytes, bytes]] | None = None) -> HttpExchange:
    """A request whose messages have arrived; nothing is sent."""
    arrived = list(messages)

    async def receive() -> dict[str, Any]:
        return arrived.pop(0)

    async def send(message: dict[str, Any]) -> None:
        raise AssertionError(message)

    scope = {
        "method": "POST",
        "path": "/",
        "query_string": b"level=1&level=2",
        "headers": headers or [],
        "state": {"connection": None},
    }
    return HttpExchange(scope, receive, send)


async def test_a_body_in_parts() -> None:
    """It is put together, and can be asked for again."""
    request = exchange(
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"c", "more_body": False},
    )

    assert b"abc" == await request.body()
    assert b"abc" == await request.body()


async def test_a_client_that_goes_before_its_body_is_whole() -> None:
    """There is no one to answer."""
    with pytest.raises(ClientGone):
        await exchange({"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.disconnect"}).body()


def test_a_query() -> None:
    """The last of several values counts."""
    assert ("2", None) == (exchange().query("level"), exchange().query("mode"))


@pytest.mark.parametrize("value", [b"application/json", b"Application/JSON; charset=utf-8"])
def test_json_is_taken(value: bytes) -> None:
    exchange(headers=[(b"content-type", value)]).require_json()


@pytest.mark.parametrize("headers", [[], [(b"content-type", b"text/plain")]])
def test_other_media_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(ApiError, match="Unsupported Media Type"):
        exchange(headers=headers).require_json()
