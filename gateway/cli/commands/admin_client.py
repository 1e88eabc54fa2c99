"""Client of `/admin/v1`, which a running gateway or an application inside the command's process serves."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from gateway.cli.commands.output import CommandFailed
from gateway.protocol.errors import UnknownRoute

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]
Query = Mapping[str, str | int | list[str] | None]
"""Query parameters of a request. A parameter whose value is None is not sent."""

PREFIX = "/admin/v1"
PAGE = 500
"""Number of list entries to request per page."""
MOST_SHOWN = 300
"""Maximum number of characters to show of a response that did not come from Warmgate."""


class AdminClient:
    """Client that sends admin requests with *http* (the base URL and the key). Failures raise `CommandFailed`."""

    def __init__(self, http: "httpx.AsyncClient") -> None:
        self._http = http

    async def get(self, *path: str, query: Query | None = None) -> Json:
        return await self._ask("GET", path, query=query)

    async def post(self, *path: str, body: Json) -> Json:
        return await self._ask("POST", path, body=body)

    async def patch(self, *path: str, body: Json) -> Json:
        return await self._ask("PATCH", path, body=body)

    async def delete(self, *path: str, query: Query | None = None) -> None:
        await self._ask("DELETE", path, query=query)

    async def listed(self, *path: str, query: Query | None = None, most: int | None = None) -> list[Json]:
        """Return all entries of a list, or only the first *most*. As many pages as necessary are fetched."""
        entries: list[Json] = []
        after: str | None = None
        while most is None or len(entries) < most:
            limit = PAGE if most is None else min(PAGE, most - len(entries))
            page = await self.get(*path, query={**(query or {}), "limit": limit, "after": after})
            entries += page["data"]
            after = page["next"]
            if after is None:
                break
        return entries

    async def pieces(self, *path: str, query: Query) -> AsyncIterator[bytes]:
        """Yield the response body in chunks as the chunks arrive."""
        with_values = {name: value for name, value in query.items() if value is not None}
        async with self._telling(), self._http.stream("GET", _url(path), params=with_values) as response:
            if not response.is_success:
                raise self._refusal(response.status_code, await response.aread())
            async for piece in response.aiter_bytes():
                yield piece

    async def _ask(
        self, method: str, path: tuple[str, ...], *, query: Query | None = None, body: Json | None = None
    ) -> Json:
        with_values = {name: value for name, value in (query or {}).items() if value is not None}
        async with self._telling():
            response = await self._http.request(method, _url(path), params=with_values, json=body)
        if not response.is_success:
            raise self._refusal(response.status_code, response.content)
        if response.status_code == HTTPStatus.NO_CONTENT:
            return {}
        try:
            return msgspec.json.decode(response.content, type=Json)
        except msgspec.MsgspecError:
            raise _foreign(response.status_code, response.content) from None

    def _refusal(self, status: int, content: bytes) -> CommandFailed:
        """Return an exception with the message of an OpenAI-style error response.

        Its exit code is 2 for status 400, else 1.
        """
        try:
            error = msgspec.json.decode(content)["error"]
            message, code = str(error["message"]), error.get("code")
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
            return _foreign(status, content)
        if code == UnknownRoute.code:
            message = f"{self._place}: {message}. If admin.port is set, use the address with that port"
        return CommandFailed(_sentence(message), code=2 if status == HTTPStatus.BAD_REQUEST else 1)

    @property
    def _place(self) -> str:
        return str(self._http.base_url).rstrip("/")

    @asynccontextmanager
    async def _telling(self) -> AsyncIterator[None]:
        """Convert transport errors in the block into `CommandFailed` with a readable message."""
        # Every command comes by here while the parser is made, and most have no use for a client.
        import httpx  # noqa: PLC0415

        try:
            yield
        except httpx.TimeoutException:
            raise CommandFailed(f"{self._place} did not answer in time.") from None
        except httpx.RequestError as fault:
            raise CommandFailed(f"{self._place} cannot be reached: {str(fault) or type(fault).__name__}.") from None


def _url(path: tuple[str, ...]) -> str:
    return "/".join((PREFIX, *(quote(part, safe="") for part in path)))


def _foreign(status: int, content: bytes) -> CommandFailed:
    text = content[:MOST_SHOWN].decode(errors="replace").strip()
    shown = "".join(char if char.isprintable() else " " for char in text)
    return CommandFailed(f"The server that answered is not Warmgate: status {status} {shown}".rstrip(" .") + ".")


def _sentence(message: str) -> str:
    return message if message.endswith(".") else f"{message}."
