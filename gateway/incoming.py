"""The caller's request over ASGI: what its head says, and its body, within bounds."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from gateway import headers as header_rules
from gateway.backends.backend import Headers
from gateway.errors import BodyTooLarge, MethodNotAllowed, UnsupportedMedia

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

JSON = b"application/json"
LONG_BODY_BYTES: Final = 512 * 1024
"""From here on others have a turn of the event loop between the steps of a request: each takes up to a millisecond."""


class CallerGone(Exception):
    """The caller closed the connection."""


class Incoming:
    """One request of which nothing but the head has been read."""

    __slots__ = ("_fields", "_scope", "receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._fields: dict[bytes, bytes] = header_rules.fields(scope["headers"])
        self.receive = receive

    @property
    def path(self) -> str:
        path: str = self._scope["path"]
        return path

    @property
    def peer(self) -> str | None:
        """The address at the other end of the connection; None of a socket in the file system."""
        client = self._scope.get("client")
        return client[0] if client else None

    @property
    def target(self) -> bytes:
        """Path and query as they came."""
        path: bytes = self._scope["raw_path"]
        query: bytes = self._scope["query_string"]
        return path + b"?" + query if query else path

    @property
    def request_id(self) -> bytes | None:
        """The caller's own, if it is fit to be passed on."""
        return header_rules.request_id_of(self._fields)

    @property
    def content_type(self) -> bytes:
        """As it came; JSON where nothing is said."""
        return self._fields.get(b"content-type", JSON)

    def upstream_headers(self, request_id: bytes, media: bytes) -> Headers:
        """The headers as a worker gets them. JSON is called by its plain name; a form's boundary must pass."""
        return header_rules.upstream(self._scope["headers"], request_id, media if media == JSON else self.content_type)

    @property
    def fields(self) -> dict[bytes, bytes]:
        """The first value of each header, by its name in lower case."""
        return self._fields

    def add(self, header: bytes, value: bytes) -> None:
        """Let workers see one more header, as if the caller had sent it."""
        self._scope["headers"] = [*self._scope["headers"], (header, value)]

    def text_of(self, header: bytes) -> str | None:
        """The first value of *header*; None if there is none, or an empty one."""
        value = self._fields.get(header)
        return value.decode("latin-1") if value else None

    def all_of(self, header: bytes) -> str | None:
        """All values of *header*, joined by commas; None if there is none."""
        values = [value for name, value in self._scope["headers"] if name == header]
        return b",".join(values).decode("latin-1") if values else None

    async def body(self, media: bytes, *, most_bytes: int, method: str = "POST") -> bytes:
        """The whole body of a *method* of *media*.

        Raises:
            MethodNotAllowed, UnsupportedMedia, BodyTooLarge: as named; told before the body is read where possible.
            CallerGone: it ended before the body did.
        """
        if self._scope["method"] != method:
            raise MethodNotAllowed(f"{self.path} takes {method}, not {self._scope['method']}")
        self._check_media(media)
        announced = self._fields.get(b"content-length")
        if announced is not None and int(announced) > most_bytes:
            raise _too_large(most_bytes)
        pieces: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > most_bytes:
                raise _too_large(most_bytes)
            more = message.get("more_body", False)
        whole = b"".join(pieces)  # of one piece that is the piece itself
        if size > LONG_BODY_BYTES:
            await asyncio.sleep(0)
        return whole

    def _check_media(self, media: bytes) -> None:
        said = self.content_type
        if said != media:
            said = said.split(b";", 1)[0].strip().lower()
            if said != media and not (media == JSON and said.endswith(b"+json")):
                raise UnsupportedMedia(f"The content-type must be {media.decode('ascii')}")
        if self._fields.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
            raise UnsupportedMedia("A compressed body is not supported: leave content-encoding out")


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {most_bytes} bytes (server.max_body_bytes)")
