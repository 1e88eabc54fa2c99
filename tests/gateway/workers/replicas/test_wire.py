"""Frames are read as they were written, and whatever else comes is turned away."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.workers.replicas.wire import (
    Beat,
    Began,
    Booked,
    BookingSnapshot,
    EntryBatch,
    Farewell,
    Message,
    Released,
    SnapshotRequest,
    UnreadableFrame,
    decoded,
    encoded,
    sender_of,
)

SENDER = bytes(range(16))

numbers = st.integers(0, 2**63 - 1)
seconds = st.floats(0.0, 1e9)
runs = st.binary(max_size=4).map(lambda each: each * 8)
booked = st.builds(
    Booked,
    number=numbers,
    model=st.text(max_size=20),
    worker=st.text(max_size=20),
    uncached_tokens=seconds,
    output_tokens=seconds,
    streams=st.booleans(),
    has_begun=st.booleans(),
    hashes=runs,
    exact=st.lists(st.tuples(st.integers(1, 1024), runs), max_size=2).map(tuple),
)
entries = booked | st.builds(Began, numbers) | st.builds(Released, numbers, st.booleans(), st.integers(0, 10**6))
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(EntryBatch, numbers, st.lists(entries, max_size=5).map(tuple)),
    st.builds(Beat, numbers),
    st.builds(SnapshotRequest, st.binary(max_size=16)),
    st.builds(BookingSnapshot, numbers, st.lists(booked, max_size=3).map(tuple)),
    st.just(Farewell()),
)


@given(messages)
def test_what_is_written_is_read(message: Message) -> None:
    """Anyone who sends it is known before the rest is read."""
    frame = encoded(SENDER, message)

    assert SENDER == sender_of(frame)
    assert message == decoded(frame)


@given(messages, st.data())
def test_a_frame_that_was_damaged_is_turned_away_or_is_another_message(message: Message, data: st.DataObject) -> None:
    """It never raises anything else."""
    frame = bytearray(encoded(SENDER, message))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut])):
        try:
            decoded(damaged)
        except UnreadableFrame:
            continue


@given(st.binary(max_size=60))
def test_what_is_no_frame_at_all_is_turned_away(noise: bytes) -> None:
    """A few random ones happen to be frames."""
    try:
        sender_of(noise)
        decoded(noise)
    except UnreadableFrame:
        return


def test_another_version_is_turned_away() -> None:
    """Replicas of two versions beside each other, as in an upgrade, go each by what they know themselves."""
    with pytest.raises(UnreadableFrame):
        sender_of(b"\2" + encoded(SENDER, Beat(1))[1:])


@pytest.mark.parametrize(
    "message",
    [
        EntryBatch(-1, ()),
        Beat(-1),
        BookingSnapshot(-1, ()),
        BookingSnapshot(1, (Booked(1, "m", "w", math.nan, 1.0, True),)),
        EntryBatch(1, (Booked(1, "m", "w", 1.0, math.inf, True),)),
        EntryBatch(1, (Booked(1, "m", "w", -1.0, 1.0, True),)),
        EntryBatch(1, (Booked(1, "m", "w", 1.0, 1.0, True, hashes=b"1234567"),)),
        EntryBatch(1, (Booked(1, "m", "w", 1.0, 1.0, True, exact=((0, b"12345678"),)),)),
        EntryBatch(1, (Booked(1, "m", "w", 1.0, 1.0, True, exact=((16, b"1"),)),)),
        EntryBatch(1, (Released(1, True, -1),)),
    ],
)
def test_values_that_cannot_be_are_turned_away(message: Message) -> None:
    """They would be load without end, or prompts that are no chain of hashes."""
    with pytest.raises(UnreadableFrame):
        decoded(encoded(SENDER, message))


def test_entries_are_counted_from_the_first_one() -> None:
    """The last of two that begin with 7 is 8."""
    assert 8 == EntryBatch(7, (Began(1), Began(2))).last


def test_no_frame_holds_more_than_hashes_and_numbers() -> None:
    """The fields of what is reported a request: none of them is its text, its key or its team."""
    shown = ["number", "model", "worker", "uncached_tokens", "output_tokens", "streams", "has_begun", "hashes", "exact"]

    assert shown == list(Booked.__struct_fields__)


def test_a_booking_takes_about_its_hashes() -> None:
    """Eight bytes a block, for text and tokens."""
    booking = Booked(1, "model", "worker", 1.0, 1.0, True, hashes=bytes(800), exact=((16, bytes(400)),))

    assert 1200 == booking.hashes_bytes
    assert booking.size_bytes == pytest.approx(len(msgspec.msgpack.encode(booking)), abs=40)
