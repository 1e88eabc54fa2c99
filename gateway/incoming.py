"""The caller's request over ASGI: what its head says, and its body, within bounds."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from gateway import headers as header_rules
from gateway.backends.backend import Headers
from gateway.bodies.budget import BodyShare
from gateway.bodies.coding import Decompression, coding_of
from gateway.errors import BodyTooLarge, MethodNotAllowed, UnsupportedMedia

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

JSON = b"application/json"
LONG_BODY_BYTES: Final = 512 * 1024
"""From here on others have a turn of the event loop between the steps of a request: each takes up to a millisecond."""
COUNTED_BYTES: Final = 256 * 1024
"""A larger body counts in the memory that bodies may take together; smaller ones are bounded by the connections."""
INLINE_CODED_BYTES: Final = 32 * 1024
"""A compressed body of this size is decompressed on the event loop, as far as one step goes."""


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
    def is_http_1_0(self) -> bool:
        return self._scope.get("http_version") == "1.0"

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

    async def body(
        self,
        media: bytes,
        *,
        most_bytes: int,
        method: str = "POST",
        share: BodyShare | None = None,
        setting: str | None = "server.max_body_bytes",
    ) -> bytes:
        """The whole body of a *method* of *media*, decompressed. Large ones count in *share* before they are read.

        *setting* has *most_bytes*; None: it is fixed.

        Raises:
            MethodNotAllowed, UnsupportedMedia, BodyTooLarge: as named; told before the body is read where possible.
            MalformedBody: it cannot be decompressed.
            MemoryShort: *share* has no room for it.
            CallerGone: it ended before the body did.
        """
        if self._scope["method"] != method:
            raise MethodNotAllowed(f"{self.path} takes {method}, not {self._scope['method']}")
        self._check_media(media)
        coding = coding_of(self.all_of(b"content-encoding")) if b"content-encoding" in self._fields else None
        announced = int(self._fields.get(b"content-length", b"0"))
        if announced > most_bytes:
            raise _too_large(most_bytes, setting)
        if announced > COUNTED_BYTES and share is not None:
            share.cover(announced)
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
                raise _too_large(most_bytes, setting)
            if share is not None and size > COUNTED_BYTES:
                share.cover(size)
            more = message.get("more_body", False)
        # Of one piece that is the piece itself.
        whole = b"".join(pieces) if size <= LONG_BODY_BYTES else await _joined(pieces)
        if coding is not None:
            return await _decompressed(whole, coding, most_bytes, share, setting)
        return whole

    def _check_media(self, media: bytes) -> None:
        said = self.content_type
        if said != media:
            said = said.split(b";", 1)[0].strip().lower()
            if said != media and not (media == JSON and said.endswith(b"+json")):
                raise UnsupportedMedia(f"The content-type must be {media.decode('ascii')}")


async def _joined(pieces: list[bytes]) -> bytes:
    # Python's lock is not held while more than a megabyte of pieces is joined.
    return await asyncio.get_running_loop().run_in_executor(None, b"".join, pieces)


async def _decompressed(
    raw: bytes, coding: bytes, most_bytes: int, share: BodyShare | None, setting: str | None
) -> bytes:
    """*raw* decompressed, long ones beside the event loop. Raises as `Incoming.body`."""
    decompression = Decompression(raw, coding)
    pieces: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    while True:
        if size == 0 and len(raw) <= INLINE_CODED_BYTES:
            piece = decompression.step()
        else:
            piece = await loop.run_in_executor(None, decompression.step)
        if not piece:
            return await _joined(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise _too_large(most_bytes, setting)
        if share is not None and len(raw) + size > COUNTED_BYTES:
            share.cover(len(raw) + size)


def _too_large(most_bytes: int, setting: str | None) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {most_bytes} bytes{'' if setting is None else f' ({setting})'}")
