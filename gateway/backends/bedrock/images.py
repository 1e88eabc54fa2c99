"""Conversion of the client's images to Converse image blocks (PNG, JPEG, GIF or WebP)."""

from typing import Any

from gateway.backends.bedrock.data_url import read_attachment
from gateway.protocol.errors import InvalidField

# Amazon Bedrock's user guide, "Converse": at most 20 images in a message, 3.75 MB and 8000 pixels each way.
IMAGES_PER_TURN = 20
_MOST_BYTES = 3_750_000
_MOST_PIXELS = 8000

# Start-of-frame markers of JPEG (ITU T.81, table B.1): all from C0 to CF but the tables DHT, JPG and DAC.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_block(url: str, where: str) -> dict[str, Any]:
    """Return the image block for *url*, a ``data:`` URL. *where* is the name of the request field with the URL. O(url).

    The format is detected from the bytes, because the media type in the URL is often wrong or misspelled.

    Raises:
        InvalidField: if *url* is not a ``data:`` URL, or the image's format or size is not accepted by Bedrock.
    """
    attachment = read_attachment(url, where)
    kind = _kind(attachment.data)
    if kind is None:
        raise InvalidField(f"'{where}' must be a PNG, JPEG, GIF or WebP image for the Bedrock fallback", param=where)
    if len(attachment.data) > _MOST_BYTES:
        raise InvalidField(f"'{where}' exceeds Bedrock's limit of 3.75 MB for an image", param=where)
    if max(_size(kind, attachment.data)) > _MOST_PIXELS:
        raise InvalidField(
            f"'{where}' exceeds Bedrock's limit of 8000 pixels for an image's width or height", param=where
        )
    return {"image": {"format": kind, "source": {"bytes": attachment.base64}}}


def _kind(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return None


def _size(kind: str, data: bytes) -> tuple[int, int]:
    """Return an image's width and height in pixels, or (0, 0) if they are not at their usual position in the file."""
    match kind:
        case "png" if data[12:16] == b"IHDR" and len(data) >= 24:
            return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
        case "gif" if len(data) >= 10:
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        case "webp" if data[12:16] == b"VP8X" and len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case "jpeg":
            return _jpeg_size(data)
        case _:
            return 0, 0


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _JPEG_FRAMES:
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0
