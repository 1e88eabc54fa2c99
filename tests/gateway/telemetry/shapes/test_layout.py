from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.shapes.layout import RECORD, frame, frames

FRAMES = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=50)), max_size=5)


def test_a_record_has_65_bytes() -> None:
    assert 65 == RECORD.size


@given(FRAMES)
def test_frames_are_read_back(written: list[tuple[bytes, bytes]]) -> None:
    assert written == list(frames(b"".join(frame(*each) for each in written)))


@given(FRAMES.filter(len), st.data())
def test_a_cut_frame_ends_a_file(written: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """All frames before it are read."""
    whole = b"".join(frame(*each) for each in written)
    last = len(frame(*written[-1]))
    cut = data.draw(st.integers(1, last))

    assert written[:-1] == list(frames(whole[:-cut]))


@given(FRAMES.filter(len), st.data())
def test_a_damaged_byte_never_gives_another_frame(written: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """What is read is the beginning of what was written."""
    whole = bytearray(b"".join(frame(*each) for each in written))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 0xFF
    found = list(frames(bytes(whole)))

    assert found == written[: len(found)]
