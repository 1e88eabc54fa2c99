from typing import Any
from urllib.parse import unquote

import pytest

from gateway.app.asgi import Gateway
from gateway.server.asgi import Message, Receive, Send


class Answering:
    """An application that says its name, and remembers what it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scopes: list[Message] = []

    async def __call__(self, scope: Message, _receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"served-by", self.name.encode())]})

    def serves(self, path: str) -> bool:
        return path == "/v1/chat/completions"


class Site:
    def __init__(self, *, is_admin_apart: bool = False, **around: Any) -> None:
        self.api, self.proxy, self.admin = Answering("api"), Answering("proxy"), Answering("admin")
        self.gateway = Gateway(
            self.api,
            self.proxy,  # type: ignore[arg-type]  # a proxy needs a whole gateway; all that is asked of it is here
            admin=self.admin,
            admin_prefix="/admin/v1",
            is_admin_apart=is_admin_apart,
            probes=Answering("probes"),
            **around,
        )

    async def ask(self, path: str, *, kind: str = "http", method: str = "GET", headers: Any = ()) -> dict[bytes, bytes]:
        """The headers of the answer."""
        reported: dict[bytes, bytes] = {}

        async def send(message: Message) -> None:
            reported.update(message.get("headers", ()))

        async def receive() -> Message:
            raise NotImplementedError

        await self.gateway({"type": kind, "method": method, "path": path, "headers": [*headers]}, receive, send)
        return reported


@pytest.mark.parametrize(
    ("path", "server"),
    [("/v1/chat/completions", b"proxy"), ("/admin/v1/teams", b"admin"), ("/healthz", b"api"), ("/nowhere", b"api")],
)
async def test_each_path_has_its_server(path: str, server: bytes) -> None:
    """What is no one's is for the API to refuse."""
    assert server == (await Site().ask(path))[b"served-by"]


@pytest.mark.parametrize(
    ("typed", "path", "server"),
    [
        ("/chat/completions", "/v1/chat/completions", b"proxy"),
        ("//v1//chat/completions/", "/v1/chat/completions", b"proxy"),
        ("/v1/v1/chat/completions", "/v1/chat/completions", b"proxy"),
        ("//admin/v1/teams/", "/admin/v1/teams", b"admin"),
        ("/models/a%2Fb c", "/v1/models/a%2Fb c", b"api"),
        ("/healthz/", "/healthz", b"api"),
    ],
)
async def test_a_path_is_served_as_it_is_meant(typed: str, path: str, server: bytes) -> None:
    """Anyone who serves it sees the one path that it has, also as it would stand in a request line."""
    site = Site()
    reported = await site.ask(typed, method="POST")
    (scope,) = [*site.api.scopes, *site.proxy.scopes, *site.admin.scopes]

    assert (server, path) == (reported[b"served-by"], scope["path"])
    assert path == unquote(scope["raw_path"].decode())


async def test_what_workers_answer_takes_post() -> None:
    """OPTIONS says so, and asks for no key."""
    site = Site()
    reported = await site.ask("/v1/chat/completions", method="OPTIONS")

    assert (b"POST, OPTIONS", []) == (reported[b"allow"], site.proxy.scopes)
    assert b"x-request-id" in reported


async def test_compression_and_other_origins_go_together() -> None:
    """Around every server."""
    site = Site(cors_origins=("*",), compress_min_bytes=1)
    reported = await site.ask("/v1/models", headers=[(b"origin", b"https://a.example"), (b"accept-encoding", b"gzip")])

    assert (b"api", b"*") == (reported[b"served-by"], reported[b"access-control-allow-origin"])


async def test_head_is_asked_for_as_get() -> None:
    """The server sends no body with the answer."""
    site = Site()
    await site.ask("/livez", method="HEAD")

    assert ["GET"] == [scope["method"] for scope in site.api.scopes]


async def test_administration_on_a_port_of_its_own_is_not_found_here() -> None:
    site = Site(is_admin_apart=True)

    assert b"api" == (await site.ask("/admin/v1/teams"))[b"served-by"]
    assert site.gateway.admin is not None


async def test_ports_of_their_own_name_requests_as_well() -> None:
    """In request and answer."""
    gateway = Site(is_admin_apart=True).gateway
    assert gateway.admin is not None

    for app in (gateway.admin, gateway.probes):
        reported: list[Message] = []

        async def send(message: Message, reported: list[Message] = reported) -> None:
            reported.append(message)

        async def receive() -> Message:
            raise NotImplementedError

        scope = {"type": "http", "method": "GET", "path": "/admin/v1/teams", "headers": [(b"x-request-id", b"mine")]}
        await app(scope, receive, send)

        assert (b"x-request-id", b"mine") in reported[0]["headers"]


async def test_the_lifespan_is_the_apis() -> None:
    site = Site()
    await site.ask("", kind="lifespan")

    assert ["lifespan"] == [scope["type"] for scope in site.api.scopes]


async def test_a_request_that_the_proxy_does_not_serve_has_an_id_in_request_and_answer() -> None:
    """The caller's own, where it brings one."""
    site = Site()

    assert b"mine" == (await site.ask("/healthz", headers=[(b"x-request-id", b"mine")]))[b"x-request-id"]
    assert 32 == len((await site.ask("/healthz"))[b"x-request-id"])
    assert (b"x-request-id", b"mine") == site.api.scopes[0]["headers"][0]


@pytest.mark.parametrize(
    ("path", "server"), [("/scim/v2/Users", b"scim"), ("//scim/v2/Users/", b"scim"), ("/scim/v2x", b"api")]
)
async def test_scim_has_its_prefix_where_it_is_enabled(path: str, server: bytes) -> None:
    assert server == (await Site(scim=Answering("scim")).ask(path))[b"served-by"]
    assert b"api" == (await Site().ask(path))[b"served-by"]
