"""Headers in one frame or several; tests/gateway/picker/http2/test_connection.py has those that break the protocol."""

from gateway.picker.http2 import frames
from gateway.picker.http2.header_blocks import HeaderBlocks
from gateway.picker.http2.hpack import encoded

HEADERS = [(b"a", b"1"), (b"b", b"2")]
BLOCK = encoded(HEADERS)


def test_headers_in_one_frame_are_complete() -> None:
    blocks = HeaderBlocks()

    assert HEADERS == blocks.begin(frames.END_HEADERS | frames.END_STREAM, 1, BLOCK)
    assert (0, True) == (blocks.stream, blocks.ends_stream)


def test_headers_in_several_frames_are_joined() -> None:
    blocks = HeaderBlocks()
    parts = [blocks.begin(0, 3, BLOCK[:2]), blocks.continued(0, BLOCK[2:4])]

    assert ([None, None], 3, False) == (parts, blocks.stream, blocks.ends_stream)
    assert (HEADERS, 0) == (blocks.continued(frames.END_HEADERS, BLOCK[4:]), blocks.stream)
