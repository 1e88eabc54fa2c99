"""Frames that arrive in parts, together, and too long."""

import pytest

from gateway.workers.replicas.frame_stream import MAX_FRAME_BYTES, FrameReader, prefixed


@pytest.mark.parametrize("step", [1, 2, 3, 5, 100])
def test_frames_are_found_however_they_arrive(step: int) -> None:
    stream = b"".join(map(prefixed, [b"one", b"", b"three" * 10]))
    reader = FrameReader()
    found = [frame for at in range(0, len(stream), step) for frame in reader.feed(stream[at : at + step])]

    assert [b"one", b"", b"three" * 10] == found


def test_a_frame_that_is_too_long_is_refused_before_it_arrives() -> None:
    with pytest.raises(ValueError, match=f"A frame of {MAX_FRAME_BYTES + 1} bytes is too long"):
        FrameReader().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
