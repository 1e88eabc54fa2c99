"""Decompress request bodies in steps of limited size.

A few kilobytes of compressed data can expand to gigabytes. Therefore the decompressed output is limited by the maximum
body size and by `MAX_RATIO`. The zstd window is limited as in RFC 9659, so decompression uses at most 8 MiB in addition
to its output.
"""

import sys
import zlib
from typing import Final

from gateway.protocol.errors import MalformedBody, UnsupportedMedia

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP_BYTES: Final = 2**18
"""Maximum output of one decompression step in bytes, which takes about 1 ms of CPU time."""
MAX_RATIO: Final = 200
"""Maximum number of decompressed bytes for each compressed byte. Repetitive JSON reaches a few dozen."""
FREE_BYTES: Final = 2**16
"""Number of decompressed bytes before the maximum compression ratio applies."""
_WINDOW_LOG: Final = 23


def coding_of(header: str | None) -> bytes | None:
    """Return the compression in the `content-encoding` header, or None if the body is not compressed.

    Raises:
        UnsupportedMedia: if the compression is not supported.
    """
    coding = (header or "").strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding not in {"gzip", "x-gzip", "zstd"}:
        raise UnsupportedMedia("The content-encoding header must be gzip, zstd or identity.")
    return coding.encode()


class Decompression:
    """Decompression of one complete request body."""

    def __init__(self, raw: bytes, coding: bytes) -> None:
        """Start the decompression of *raw*. *coding* is the compression that `coding_of` returned."""
        self._left = raw
        self._in_bytes = len(raw)
        self._out_bytes = 0
        self._zlib = None
        self._zstd = None
        if coding == b"zstd":
            self._zstd = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        else:
            self._zlib = zlib.decompressobj(wbits=31)

    def step(self) -> bytes:
        """Return the next part of the decompressed body, or an empty value at the end.

        Raises:
            MalformedBody: if the compressed data is malformed, too short or too long, or exceeds `MAX_RATIO`.
        """
        try:
            data = self._gzip_step() if self._zlib is not None else self._zstd_step()
        except (zlib.error, zstd.ZstdError, EOFError):
            raise MalformedBody("The compressed request body is malformed.") from None
        self._out_bytes += len(data)
        if self._out_bytes > FREE_BYTES + MAX_RATIO * self._in_bytes:
            raise MalformedBody(f"The compressed request body decompresses to more than {MAX_RATIO} times its size.")
        return data

    def _gzip_step(self) -> bytes:
        decoder = self._zlib
        assert decoder is not None
        if decoder.eof:
            return self._ended(decoder.unused_data)
        data = decoder.decompress(self._left, STEP_BYTES)
        self._left = decoder.unconsumed_tail
        return data or self._nothing(decoder.eof, decoder.unused_data)

    def _zstd_step(self) -> bytes:
        decoder = self._zstd
        assert decoder is not None
        if decoder.eof:
            return self._ended(decoder.unused_data)
        data, self._left = decoder.decompress(self._left, STEP_BYTES), b""
        return data or self._nothing(decoder.eof, decoder.unused_data)

    def _nothing(self, is_at_end: bool, rest: bytes) -> bytes:
        if not is_at_end:
            raise MalformedBody("The compressed request body ends too early.")
        return self._ended(rest)

    def _ended(self, rest: bytes) -> bytes:
        if rest:
            raise MalformedBody("The compressed request body has data after its end.")
        return b""
