"""Frames of HTTP/2 as bytes."""

import pytest

from gateway.picker.http2 import frames


def test_frames_are_written_as_the_protocol_says() -> None:
    assert "000002010400000003" + "8286" == frames.frame(frames.HEADERS, frames.END_HEADERS, 3, b"\x82\x86").hex()
    assert "00000c040000000000" + "000300000064" + "000400100000" == frames.settings({3: 100, 4: 2**20}).hex()
    assert "000004080000000005" + "00010000" == frames.window_update(5, 65_536).hex()
    assert "000004030000000007" + "00000008" == frames.rst_stream(7, frames.CANCEL).hex()
    assert "000008070000000000" + "0000000900000000" == frames.goaway(9, frames.NO_ERROR).hex()


def test_padding_is_removed() -> None:
    assert (b"ab", b"\x02abxx", b"") == (
        frames.unpadded(b"\x02abxx", frames.PADDED),
        frames.unpadded(b"\x02abxx", 0),
        frames.unpadded(b"\x01x", frames.PADDED),
    )


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x04abc"])
def test_padding_that_is_longer_than_the_frame_is_refused(payload: bytes) -> None:
    with pytest.raises(frames.ConnectionFault, match="padding") as fault:
        frames.unpadded(payload, frames.PADDED)

    assert frames.PROTOCOL_ERROR == fault.value.code
