"""Headers of a connection, which may be spread over several frames."""

from typing import Final

from gateway.picker.http2 import frames
from gateway.picker.http2.frames import ConnectionFault
from gateway.picker.http2.hpack import MAX_LIST_BYTES, HeaderDecoder, HeaderError
from gateway.protocol.headers import Headers

_PRIORITY_BYTES: Final = 5


class HeaderBlocks:
    """Reader of the frames HEADERS and CONTINUATION of one connection."""

    def __init__(self) -> None:
        self._decoder = HeaderDecoder()
        self._block = bytearray()
        self.stream = 0
        """Stream whose headers continue in the next frame, or 0."""
        self.ends_stream = False
        """Whether the client sends nothing more on the stream of the last headers."""

    def begin(self, flags: int, stream: int, payload: bytes) -> Headers | None:
        """Return the headers in a frame HEADERS, or None if they continue in the next frame.

        Raises:
            ConnectionFault: if the frame breaks the protocol.
        """
        block = frames.unpadded(payload, flags)
        if flags & frames.HAS_PRIORITY:
            if len(block) < _PRIORITY_BYTES:
                raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a priority is cut off")
            block = block[_PRIORITY_BYTES:]
        if stream % 2 == 0:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a client opens streams with odd numbers")
        self.ends_stream = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            return self._decoded(block)
        self.stream = stream
        self._block += block
        return None

    def continued(self, flags: int, payload: bytes) -> Headers | None:
        """Return all headers after the last frame CONTINUATION, or None if they continue in the next frame.

        Raises:
            ConnectionFault: if there is nothing to continue, or the headers are too large.
        """
        if not self.stream:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "no headers are to be continued")
        if not payload or len(self._block) + len(payload) > MAX_LIST_BYTES:
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, "the headers have too many frames or bytes")
        self._block += payload
        if not flags & frames.END_HEADERS:
            return None
        block = bytes(self._block)
        self.stream = 0
        self._block.clear()
        return self._decoded(block)

    def _decoded(self, block: bytes) -> Headers:
        try:
            return self._decoder.decode(block)
        except HeaderError as error:
            raise ConnectionFault(frames.COMPRESSION_ERROR, str(error)) from None
