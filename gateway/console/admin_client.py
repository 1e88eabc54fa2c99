"""Client of `/admin/v1` inside the process. All pages and actions of the console use it.

Roles, limits to one team, checks of values and the audit log are therefore the same as for callers of the admin API.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from gateway.api.admin_access import SCOPE_KEY, AdminKey
from gateway.server.asgi import App, Message, Receive, Send

Json = dict[str, Any]
Query = Mapping[str, str | int | None]
"""Query parameters of a request. A parameter whose value is None is not sent."""

PREFIX: Final = "/admin/v1"
WITH_SLASHES: Final = ("requests",)
"""Lists whose ids can contain slashes, because callers choose them. The admin API has no other routes below them."""
PAGE: Final = 500
"""Number of list entries to request at once."""


class AdminRefused(Exception):
    """Raised for an error response of the admin API. *message* says what is wrong."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class AdminClient:
    """Client that sends requests to the admin application *app* on behalf of *key*."""

    def __init__(self, app: App, key: AdminKey) -> None:
        self._app = app
        self._key = key

    async def get(self, *path: str, query: Query | None = None) -> Json:
        """Return the JSON object at *path*, whose parts are not escaped yet.

        Raises:
            AdminRefused: if the admin API answers with an error.
        """
        return await self.request("GET", path, query=query)

    async def listed(self, *path: str, query: Query | None = None, most: int = PAGE) -> list[Json]:
        """Return the first *most* entries of the list at *path*. Raises the same errors as `get`."""
        entries: list[Json] = []
        after: str | None = None
        while len(entries) < most:
            page = await self.get(
                *path, query={**(query or {}), "limit": min(PAGE, most - len(entries)), "after": after}
            )
            entries += page["data"]
            after = page["next"]
            if after is None:
                break
        return entries

    async def request(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        body: Json | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Send a request and return the JSON object of the response. Raises the same errors as `get`."""
        content = b"" if body is None else msgspec.json.encode(body)
        headers = [] if body is None else [(b"content-type", b"application/json")]
        if idempotency_key is not None:
            headers.append((b"idempotency-key", idempotency_key.encode("ascii", "replace")))
        answer = _Answer(content)
        await self._app(self._scope(method, path, query or {}, headers), answer.receive, answer.send)
        if answer.status >= 400:
            raise _refusal(answer.status, bytes(answer.body))
        return msgspec.json.decode(answer.body, type=Json) if answer.body else {}

    async def forward(self, path: tuple[str, ...], query: Query, receive: Receive, send: Send) -> None:
        """Answer a request to the console with the response of a GET request, without keeping the response."""
        await self._app(self._scope("GET", path, query, []), receive, send)

    def _scope(self, method: str, path: tuple[str, ...], query: Query, headers: list[tuple[bytes, bytes]]) -> Message:
        # An id in a form must not lead to another route.
        if any("/" in part for part in path) and not (len(path) == 2 and path[0] in WITH_SLASHES):
            raise AdminRefused(404, "There is no such object.")
        plain = "/".join((PREFIX, *path))
        sent = {name: value for name, value in query.items() if value is not None}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": plain,
            "raw_path": quote(plain).encode("ascii"),
            "root_path": "",
            "query_string": urlencode(sent).encode("ascii"),
            "headers": [(b"host", b"console"), *self._authorization(), *headers],
            "client": None,
            "server": None,
            "state": {},
            **({SCOPE_KEY: self._key} if self._key.is_person else {}),
        }

    def _authorization(self) -> list[tuple[bytes, bytes]]:
        """Return the header with the admin key. A person has no admin key, and is named in the scope of the request."""
        return [] if self._key.is_person else [(b"authorization", f"Bearer {self._key.secret}".encode())]


class _Answer:
    """Body of a request, and the response as it arrives."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.status = 500
        self.body = bytearray()

    async def receive(self) -> Message:
        return {"type": "http.request", "body": self._content, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


def _refusal(status: int, body: bytes) -> AdminRefused:
    try:
        error = msgspec.json.decode(body)["error"]
        return AdminRefused(status, str(error["message"]), error.get("code"))
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
        return AdminRefused(status, "The admin API answered with an error.")
