"""Layout of the files with request shapes.

A file is a sequence of frames. A frame is a length, a checksum and a payload, so a frame that was cut by a crash is
recognized. A payload is the JSON of the names that the frame uses for the first time, followed by records of a fixed
size. The first frame of a file has the run of the gateway in place of names, and no records.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

FRAME: Final = struct.Struct("<III")
"""Header of a frame: bytes of its names, bytes of its records, and checksum of both."""
RECORD: Final = struct.Struct("<dfffIqIIIIIIIIB")
"""Record of a request: time of arrival in Unix seconds, seconds until the first byte, until the end and in the queue,
number of its names, session, number of the parent step, known steps, first new step, new steps, bytes and tokens of the
prompt, cached tokens, tokens of the answer, and whether it streams.
"""
UNKNOWN: Final = 2**32 - 1
"""Value of a token count that the engine did not report."""
MAX_FRAME_BYTES: Final = 16 * 2**20
SUFFIX: Final = ".shapes"


def frame(names: bytes, records: bytes) -> bytes:
    """Return the frame with *names* and *records*."""
    checksum = zlib.crc32(records, zlib.crc32(names))
    return FRAME.pack(len(names), len(records), checksum) + names + records


def frames(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield names and records of each frame in *data*, up to the first frame that is cut or damaged."""
    at = 0
    while at + FRAME.size <= len(data):
        names_bytes, records_bytes, checksum = FRAME.unpack_from(data, at)
        begin = at + FRAME.size
        middle, end = begin + names_bytes, begin + names_bytes + records_bytes
        names, records = data[begin:middle], data[middle:end]
        if end > len(data) or zlib.crc32(records, zlib.crc32(names)) != checksum:
            return
        yield names, records
        at = end
