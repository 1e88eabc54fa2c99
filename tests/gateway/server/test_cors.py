from collections.abc import Mapping
from typing import Any

import pytest

from gateway.server.asgi import Message, Receive, Send
from gateway.server.cors import Cors

PAGE = "https://chat.example.com"
ASKING: Mapping[str, str] = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,x-stainless-os",
}


async def app(scope: Message, _: Receive, send: Send) -> None:
    """A stream of two pieces, or an error."""
    status = 401 if scope["path"] == "/error" else 200
    headers = [
        (b"x-warmgate-worker", b"w"),
        (b"x-ratelimit-limit-requests", b"1"),
        (b"x-request-id", b"r"),
        (b"a", b"b"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"1", "more_body": True})
    await send({"type": "http.response.body", "body": b"2"})


async def ask(
    headers: Mapping[str, str], *origins: str, method: str = "POST", path: str = "/"
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        raise NotImplementedError

    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": fields}
    await Cors(app, origins)(scope, receive, send)
    said = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return messages[0]["status"], said, b"".join(message["body"] for message in messages[1:])


@pytest.mark.parametrize("path", ["/", "/error"])
async def test_an_allowed_page_can_read_every_answer(path: str) -> None:
    """Errors and streams as well, and the headers of the gateway."""
    _, said, body = await ask({"origin": PAGE}, PAGE, "https://other.example", path=path)

    assert (PAGE, "Origin", b"12") == (said["access-control-allow-origin"], said["vary"], body)
    assert "x-ratelimit-limit-requests, x-request-id, x-warmgate-worker" == said["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in said


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {}])
async def test_other_origins_get_no_headers(headers: Mapping[str, str]) -> None:
    """Only ``vary`` is set, for caches."""
    _, said, _ = await ask(headers, PAGE)

    assert "access-control-allow-origin" not in said
    assert "Origin" == said["vary"]


async def test_all_origins_may_be_allowed() -> None:
    """Then no answer depends on who asks."""
    _, said, _ = await ask({"origin": "https://any.example"}, "*")

    assert ("*", False) == (said["access-control-allow-origin"], "vary" in said)


async def test_a_preflight_is_answered_without_the_application() -> None:
    """With what is wanted, and for how long that holds."""
    status, said, body = await ask(ASKING, PAGE, method="OPTIONS")

    assert (204, b"") == (status, body)
    assert {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
        "access-control-allow-headers": "authorization,x-stainless-os",
        "access-control-max-age": "600",
        "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    } == said


async def test_a_preflight_of_another_page_is_refused() -> None:
    """With the setting that would allow it."""
    status, said, body = await ask({**ASKING, "origin": "https://evil.example"}, PAGE, method="OPTIONS")

    assert (403, False) == (status, "access-control-allow-origin" in said)
    assert b"server.cors_origins" in body


@pytest.mark.parametrize("wanted", ["", "a" * 5000, "x\x01y", "é"])
async def test_what_is_no_list_of_headers_is_not_repeated(wanted: str) -> None:
    """The usual ones are allowed."""
    _, said, _ = await ask({**ASKING, "access-control-request-headers": wanted}, PAGE, method="OPTIONS")

    assert "authorization, content-type" == said["access-control-allow-headers"]


@pytest.mark.parametrize(("origin", "allowed"), [(PAGE, True), ("*", False)])
async def test_a_public_page_may_reach_a_private_network_if_it_is_named(origin: str, allowed: bool) -> None:
    """Chrome asks for that of a gateway on the same machine; not every page of the world may."""
    asking = {**ASKING, "access-control-request-private-network": "true"}
    _, said, _ = await ask(asking, origin, method="OPTIONS")

    assert allowed == ("access-control-allow-private-network" in said)


async def test_options_without_a_question_is_for_the_application() -> None:
    _, said, body = await ask({"origin": PAGE}, PAGE, method="OPTIONS")

    assert (PAGE, b"12") == (said["access-control-allow-origin"], body)
