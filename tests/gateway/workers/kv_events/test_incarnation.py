"""When a stream starts over; `test_sequencing.py` has the cases that messages and replays bring about together."""

from gateway.workers.kv_events.batch_log import BatchLog, Lost, Reset
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.incarnation import Incarnation
from gateway.workers.kv_events.replay_schedule import ReplaySchedule, ReplayTimeouts


def message(seq: int, *, ts: float = 10.0, payload: bytes = b"batch") -> BatchMessage:
    return BatchMessage(seq, payload, ts)


def an_incarnation(*, replays: bool = True) -> tuple[Incarnation, BatchLog, ReplaySchedule]:
    log, schedule = BatchLog(), ReplaySchedule(ReplayTimeouts())
    return Incarnation(log, schedule, replays=replays), log, schedule


def test_the_first_batch_of_all_makes_it_complete() -> None:
    """Any other batch, or one after an interruption, may have predecessors."""
    incarnation, log, _ = an_incarnation()

    incarnation.open_at(message(0))
    incarnation.open_at(message(4))
    log.was_interrupted = True
    incarnation.open_at(message(0))

    assert [Reset("complete"), Reset("unreplayed"), Reset("unreplayed")] == list(log.steps)


def test_a_restart_in_the_middle_asks_for_what_came_before() -> None:
    """The message is held, and nothing is verified until the replay answers."""
    incarnation, log, schedule = an_incarnation()

    incarnation.restart(message(3), 0.0)

    assert (1, None, 1) == (incarnation.restarts, log.last, len(log.held))
    assert not incarnation.is_verified
    assert schedule.running is not None


def test_without_replays_a_restart_begins_where_it_is_noticed() -> None:
    """Nothing before it can be had."""
    incarnation, log, schedule = an_incarnation(replays=False)

    incarnation.restart(message(3), 0.0)

    assert [Reset("unreplayed", is_new_incarnation=True), message(3)] == list(log.steps)
    assert schedule.running is None


def test_a_held_message_can_show_a_restart() -> None:
    """Its sequence was taken in meanwhile, with another batch."""
    incarnation, log, _ = an_incarnation()
    incarnation.reset(0, "complete")
    log.append(message(1))
    log.held.add(message(1, ts=11.0, payload=b"other"))

    assert incarnation.restart_if_held_contradict(0.0)
    assert 1 == incarnation.restarts


def test_missing_batches_are_lost_when_they_are_given_up() -> None:
    """The stream goes on with the first message that is held."""
    incarnation, log, _ = an_incarnation()
    incarnation.reset(0, "complete")
    log.append(message(1))
    log.held.add(message(4))

    incarnation.give_up_missing()

    assert [Lost(2), message(4)] == list(log.steps)[-2:]
