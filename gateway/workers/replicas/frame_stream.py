"""Frames on a byte stream: each begins with its length, as 4 bytes in big-endian order."""

from typing import Final

_LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 64 * 2**20
"""Maximum size of a frame. The largest frames are snapshots with 4 MiB of hashes."""


def prefixed(frame: bytes) -> bytes:
    return len(frame).to_bytes(_LENGTH_BYTES, "big") + frame


class FrameReader:
    """Splitter of a byte stream into frames, which can arrive in parts."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that end in *data*, without their lengths. O(bytes).

        Raises:
            ValueError: if a frame is longer than `MAX_FRAME_BYTES`.
        """
        self._data += data
        frames, at, size = [], 0, len(self._data)
        while size - at >= _LENGTH_BYTES:
            length = int.from_bytes(self._data[at : at + _LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"A frame of {length} bytes is too long")
            end = at + _LENGTH_BYTES + length
            if end > size:
                break
            frames.append(bytes(self._data[at + _LENGTH_BYTES : end]))
            at = end
        del self._data[:at]
        return frames
