"""Batches in order, and those that wait for their turn."""

from gateway.workers.kv_events.batch_log import BatchLog, Lost, Reset
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.waiting import WaitingRoom


def message(seq: int, *, ts: float | None = None, payload: bytes | None = None) -> BatchMessage:
    return BatchMessage(seq, b"batch %d" % seq if payload is None else payload, ts=ts)


def log_at(last: int) -> BatchLog:
    log = BatchLog()
    log.reset(last, "complete")
    return log


def test_held_messages_follow_as_far_as_there_is_no_gap() -> None:
    """A held message is appended when the one before it is there."""
    log = log_at(0)
    for seq in (2, 3, 5):
        assert log.hold(message(seq))

    log.append(message(1))
    log.append_held()

    assert 3 == log.last
    assert [Reset("complete"), message(1), message(2), message(3)] == list(log.steps)
    assert 1 == len(log.held)


def test_a_message_without_room_is_not_held() -> None:
    """The caller learns that it has to be requested later."""
    log = BatchLog(WaitingRoom(max_messages=1))

    assert log.hold(message(1))
    assert not log.hold(message(2))


def test_the_same_message_twice_is_a_duplicate() -> None:
    """It is counted both while it is held and after it was appended."""
    log = log_at(0)
    log.hold(message(2))
    log.hold(message(2))
    log.append(message(1))

    assert not log.is_of_later_incarnation(message(1))
    assert 2 == log.duplicates


def test_another_batch_with_a_known_sequence_shows_a_restart_unless_it_is_older() -> None:
    """Its time decides: before the first batch of this incarnation it is late."""
    log = log_at(0)
    log.append(message(1, ts=10.0))

    assert not log.is_of_later_incarnation(message(1, ts=9.0, payload=b"other"))
    assert log.is_of_later_incarnation(message(1, ts=11.0, payload=b"other"))
    assert log.contradicts(message(1, payload=b"other"))
    assert 1 == log.late


def test_a_batch_that_was_given_up_is_late() -> None:
    """No other batch was taken in with its sequence, and it is not newer than the last one."""
    log = log_at(4)
    log.append(message(5, ts=10.0))

    assert not log.is_of_later_incarnation(message(3, ts=10.0))
    assert log.is_of_later_incarnation(message(3, ts=10.5))


def test_what_was_lost_is_counted_and_reported() -> None:
    """The reader learns that its picture has a hole."""
    log = log_at(0)

    log.lose(3)

    assert 3 == log.lost
    assert Lost(3) == log.steps[-1]


def test_an_appended_batch_ends_an_interruption() -> None:
    """From then on nothing can have been published unheard."""
    log = log_at(0)
    log.was_interrupted = True

    log.append(message(1))

    assert not log.was_interrupted


def test_late_messages_are_dropped_from_those_that_are_held() -> None:
    """They were made before the last batch that was taken in."""
    log = log_at(0)
    log.append(message(1, ts=10.0))
    log.hold(message(3, ts=9.0))
    log.hold(message(4, ts=11.0))

    log.drop_late()

    assert (1, 4) == (log.late, log.held.first)
