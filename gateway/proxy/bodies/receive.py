"""Receive a request body within size and time limits, and decompress the body."""

import asyncio
from typing import Final

from gateway.protocol.endpoints.endpoint import JSON
from gateway.protocol.errors import BodyTooLarge, MethodNotAllowed, UnsupportedMedia
from gateway.proxy.bodies.budget import BodyShare
from gateway.proxy.bodies.coding import Decompression, coding_of
from gateway.proxy.incoming import LONG_BODY_BYTES, CallerGone, Incoming

COUNTED_BYTES: Final = 256 * 1024
"""Size in bytes above which a request body counts against the memory limit for all bodies. The number of connections
limits smaller bodies.
"""
INLINE_CODED_BYTES: Final = 32 * 1024
"""Size in bytes up to which the first step of decompressing a body runs on the event loop."""


async def receive_body(
    incoming: Incoming,
    media: bytes,
    *,
    max_bytes: int,
    method: str = "POST",
    share: BodyShare | None = None,
    setting: str | None = "server.max_body_bytes",
) -> bytes:
    """Return the whole request body, decompressed. Large bodies count against *share* before they are read.

    The path accepts only the HTTP method *method* and the content type *media*. The limit *max_bytes* comes from the
    setting named *setting*, or is fixed if *setting* is None.

    Raises:
        MethodNotAllowed, UnsupportedMedia, BodyTooLarge: if the request breaks a rule. These errors are raised before
            the body is read where possible.
        MalformedBody: if the body cannot be decompressed.
        MemoryShort: if *share* has no room for the body.
        CallerGone: if the caller disconnected before the end of the body.
    """
    if incoming.method != method:
        raise MethodNotAllowed(f"{incoming.path} accepts {method}, not {incoming.method}.")
    _check_media(incoming.content_type, media)
    fields = incoming.fields
    coding = coding_of(incoming.all_of(b"content-encoding")) if b"content-encoding" in fields else None
    announced = int(fields.get(b"content-length", b"0"))
    if announced > max_bytes:
        raise _too_large(max_bytes, setting)
    if announced > COUNTED_BYTES and share is not None:
        share.cover(announced)
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await incoming.receive()
        if message["type"] == "http.disconnect":
            raise CallerGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > max_bytes:
            raise _too_large(max_bytes, setting)
        if share is not None and size > COUNTED_BYTES:
            share.cover(size)
        more = message.get("more_body", False)
    # Joining a single piece returns the piece itself, without a copy.
    whole = b"".join(pieces) if size <= LONG_BODY_BYTES else await _joined(pieces)
    if coding is not None:
        return await _decompressed(whole, coding, max_bytes, share, setting)
    return whole


def _check_media(said: bytes, media: bytes) -> None:
    if said != media:
        said = said.split(b";", 1)[0].strip().lower()
        if said != media and not (media == JSON and said.endswith(b"+json")):
            raise UnsupportedMedia(f"The content-type header must be {media.decode('ascii')}.")


async def _joined(pieces: list[bytes]) -> bytes:
    # bytes.join releases Python's lock while it copies more than a megabyte.
    return await asyncio.get_running_loop().run_in_executor(None, b"".join, pieces)


async def _decompressed(
    raw: bytes, coding: bytes, max_bytes: int, share: BodyShare | None, setting: str | None
) -> bytes:
    """Return *raw* decompressed. Large bodies are decompressed in a thread. Raise the errors of `receive_body`."""
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
        if size > max_bytes:
            raise _too_large(max_bytes, setting)
        if share is not None and len(raw) + size > COUNTED_BYTES:
            share.cover(len(raw) + size)


def _too_large(max_bytes: int, setting: str | None) -> BodyTooLarge:
    limit = f"{max_bytes} bytes" if setting is None else f"{max_bytes} bytes ({setting})"
    return BodyTooLarge(f"The body is larger than {limit}. Send a smaller body.")
