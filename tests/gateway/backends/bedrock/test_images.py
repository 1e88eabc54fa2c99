import base64

import pytest

from gateway.backends.bedrock.images import image_block
from gateway.protocol.errors import InvalidField


def png(width: int = 1, height: int = 1) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little")


def jpeg(width: int, height: int) -> bytes:
    comment = b"\xff\xfe\0\4hi"
    return b"\xff\xd8" + comment + b"\xff\xc2\0\x11\x08" + height.to_bytes(2) + width.to_bytes(2) + b"\3"


def webp(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + size


def url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("data", "mime", "kind"),
    [
        (png(), "image/png", "png"),
        (jpeg(1, 1), "image/jpg", "jpeg"),
        (gif(1, 1), "image/gif", "gif"),
        (webp(1, 1), "image/webp", "webp"),
        (jpeg(1, 1), "image/png", "jpeg"),
        (png(), "application/octet-stream", "png"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", "webp"),
        (b"\xff\xd8\xff", "image/jpeg", "jpeg"),
    ],
)
def test_the_bytes_say_what_an_image_is(data: bytes, mime: str, kind: str) -> None:
    """Not what the URL calls it; and they are encoded once."""
    block = image_block(url(data, mime), "x")

    assert {"image": {"format": kind, "source": {"bytes": base64.b64encode(data).decode()}}} == block


@pytest.mark.parametrize("data", [b"<svg/>", b"BM......", b"II*\0", b"RIFF\0\0\0\0WAVE", b"hello"])
def test_other_formats_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidField, match="must be a PNG, JPEG, GIF or WebP image"):
        image_block(url(data), "x")


@pytest.mark.parametrize("data", [png(8001), png(1, 8001), gif(9000, 1), jpeg(1, 8001), jpeg(8001, 1), webp(8001, 1)])
def test_an_image_with_too_many_pixels_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidField, match="8000 pixels"):
        image_block(url(data), "x")


@pytest.mark.parametrize("data", [png(8000, 8000), gif(8000, 8000), jpeg(8000, 8000), webp(8000, 8000)])
def test_an_image_with_as_many_pixels_as_may_be_is_taken(data: bytes) -> None:
    assert "image" in image_block(url(data), "x")


def test_an_image_with_too_many_bytes_is_refused() -> None:
    assert "image" in image_block(url(png() + bytes(3_749_976)), "x")

    with pytest.raises(InvalidField, match=r"3\.75 MB"):
        image_block(url(png() + bytes(3_749_977)), "x")
