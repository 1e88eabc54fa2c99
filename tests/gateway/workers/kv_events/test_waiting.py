"""Messages that came too early."""

from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.waiting import WaitingRoom


def message(seq: int, *, payload: bytes = b"12345", ts: float | None = None) -> BatchMessage:
    return BatchMessage(seq, payload, ts)


def test_each_waits_until_it_is_taken() -> None:
    """Its sequence finds it."""
    room = WaitingRoom()
    room.add(message(5))
    room.add(message(3))

    assert (2, 3) == (len(room), room.first)
    assert message(3) == room.take(3)
    assert room.take(3) is None
    assert 1 == len(room)


def test_what_is_passed_is_taken_in_order() -> None:
    """All up to a sequence."""
    room = WaitingRoom()
    for seq in (4, 2, 9):
        room.add(message(seq))

    assert [message(2), message(4)] == room.take_through(8)
    assert [] == room.take_through(8)
    assert 9 == room.first


def test_the_same_is_known_again() -> None:
    """The younger of two others with one sequence stays."""
    room = WaitingRoom()
    old, young = message(1, payload=b"old", ts=1.0), message(1, payload=b"young", ts=2.0)
    room.add(old)

    assert old in room
    assert young not in room
    assert room.add(young)
    assert room.add(old)
    assert room.add(message(1, payload=b"timeless"))
    assert young == room.take(1)


def test_too_many_are_turned_away() -> None:
    """They are counted. One that replaces another is not one more."""
    room = WaitingRoom(max_messages=2)

    assert [True, True, False] == [room.add(message(seq, ts=1.0)) for seq in (1, 2, 3)]
    assert room.add(message(1, payload=b"other", ts=2.0))
    assert 1 == room.turned_away
    room.take(1)
    assert room.add(message(3))


def test_too_many_bytes_are_turned_away() -> None:
    """Messages that were taken or dropped leave room."""
    room = WaitingRoom(max_bytes=10)

    assert [True, True, False] == [room.add(message(seq, ts=float(seq))) for seq in (1, 2, 3)]
    assert 1 == room.drop_older(2.0)
    assert room.add(message(3))
    room.clear()
    assert 0 == len(room)
    assert room.add(message(4, payload=b"1234567890"))
