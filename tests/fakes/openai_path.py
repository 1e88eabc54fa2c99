"""Bedrock's OpenAI path before a server that was not written for these tests: what is asked there, the server answers.

    async with OpenAIPath(server_url).serving() as bedrock:
        ...  # endpoint_url=bedrock.base_url, wire=openai, credentials from tests.fakes.bedrock.ENVIRONMENT
        assert bedrock.bodies[0]["model"] == "tiny"

Paths other than Bedrock's, and requests that are not signed, are refused; `tests/fakes/bedrock.py` is what recomputes
signatures. Status, content type and bytes of the answer are the server's own.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import uvicorn

OPENAI_PATH = b"/openai/v1/chat/completions"

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class OpenAIPath:
    """An ASGI application that puts ``/openai`` before the paths of the server at *server_url*."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._client = httpx.AsyncClient(timeout=60, verify=False, trust_env=False)
        self.base_url = ""
        self.bodies: list[dict[str, Any]] = []
        """Those that the server was sent, in the order in which they came."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["OpenAIPath"]:
        """Listen on a free port of the loopback until the context is left; `base_url` says where."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            config = uvicorn.Config(self, lifespan="off", log_config=None, access_log=False, ws="none")
            config.load()
            server = uvicorn.Server(config)
            server.lifespan = config.lifespan_class(config)
            await server.startup(sockets=[listener])
            try:
                async with self._client:
                    yield self
            finally:
                for listening in server.servers:
                    listening.close()
                for connection in list(server.server_state.connections):
                    connection.transport.abort()
                await asyncio.gather(*server.server_state.tasks, return_exceptions=True)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        body = await _read(receive)
        if scope["raw_path"] != OPENAI_PATH:
            await _answer(send, 404, b'{"message":"no such path"}')
        elif not headers.get(b"authorization", b"").startswith((b"AWS4-HMAC-SHA256 Credential=", b"Bearer ")):
            await _answer(send, 403, b'{"message":"the request is not signed"}')
        else:
            self.bodies.append(json.loads(body))
            await self._forward(body, send)

    async def _forward(self, body: bytes, send: Send) -> None:
        url, headers = f"{self._server_url}/v1/chat/completions", {"content-type": "application/json"}
        async with self._client.stream("POST", url, content=body, headers=headers) as answer:
            await send(_start(answer.status_code, answer.headers["content-type"].encode()))
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _read(receive: Receive) -> bytes:
    body, has_more = b"", True
    while has_more:
        message = await receive()
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
    return body


def _start(status: int, content_type: bytes) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", content_type)]}


async def _answer(send: Send, status: int, body: bytes) -> None:
    await send(_start(status, b"application/json"))
    await send({"type": "http.response.body", "body": body})
