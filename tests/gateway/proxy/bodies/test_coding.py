"""Compressed bodies come out as they were, and never larger than they may be."""

import gzip
import random
from collections.abc import Callable

import pytest
from backports import zstd

from gateway.protocol.errors import MalformedBody, UnsupportedMedia
from gateway.proxy.bodies.coding import MAX_RATIO, STEP_BYTES, Decompression, coding_of

CODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"zstd": zstd.compress,
}
TEXT = random.Random(7).randbytes(STEP_BYTES) + b"some text " * 30_000


def decompressed(raw: bytes, coding: bytes) -> bytes:
    decompression = Decompression(raw, coding)
    return b"".join(iter(decompression.step, b""))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("text", [b"", b"x", TEXT], ids=["nothing", "one byte", "several steps"])
def test_what_was_compressed_comes_out(coding: bytes, text: bytes) -> None:
    assert text == decompressed(CODINGS[coding](text), coding)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda raw: raw[:-5], "ends too early"),
        (lambda raw: b"\xff" + raw[1:], "is malformed"),
        (lambda raw: raw + b"more", "has data after its end"),
        (lambda _: b"", "ends too early"),
    ],
    ids=["cut", "other magic", "longer", "empty"],
)
def test_what_is_not_one_whole_stream_is_refused(coding: bytes, spoil: Callable[[bytes], bytes], fault: str) -> None:
    raw = spoil(CODINGS[coding](b"some text"))
    with pytest.raises(MalformedBody, match=fault):
        decompressed(raw, coding)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_refused_before_it_has_grown(coding: bytes) -> None:
    """A step never gives more than 256 KiB, and no more than 200 times the input comes out, beside 64 KiB."""
    raw = CODINGS[coding](bytes(50_000_000))
    decompression = Decompression(raw, coding)
    sizes: list[int] = []
    with pytest.raises(MalformedBody, match="more than 200 times its size"):
        sizes.extend(map(len, iter(decompression.step, b"")))

    assert max(sizes, default=0) <= STEP_BYTES
    assert sum(sizes) <= MAX_RATIO * len(raw) + 2**16


def test_a_window_beyond_8_mib_is_refused() -> None:
    """It would have to be kept in memory (RFC 9659)."""
    options = {int(zstd.CompressionParameter.window_log): 27, int(zstd.CompressionParameter.content_size_flag): 0}
    compressor = zstd.ZstdCompressor(options=options)
    raw = compressor.compress(random.Random(7).randbytes(1_000), zstd.ZstdCompressor.FLUSH_BLOCK) + compressor.flush()
    with pytest.raises(MalformedBody, match="is malformed"):
        decompressed(raw, b"zstd")


@pytest.mark.parametrize(("header", "coding"), [(None, None), ("", None), (" Identity ", None), ("GZIP", b"gzip")])
def test_the_coding_is_that_of_the_header(header: str | None, coding: bytes | None) -> None:
    assert coding == coding_of(header)


@pytest.mark.parametrize("header", ["br", "gzip, zstd", "gzip,gzip", "deflate", "\xe9"])
def test_other_codings_are_refused(header: str) -> None:
    with pytest.raises(UnsupportedMedia):
        coding_of(header)
