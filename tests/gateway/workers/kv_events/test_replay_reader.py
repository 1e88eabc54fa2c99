"""What the answers of replays mean; `test_sequencing.py` has the cases in which messages are published meanwhile."""

from gateway.workers.kv_events.batch_log import BatchLog, Lost, Reset
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.incarnation import Incarnation
from gateway.workers.kv_events.replay_reader import LONG_REPLAY, ReplayReader
from gateway.workers.kv_events.replay_schedule import BROKEN_REPLAYS, ReplayRequest, ReplaySchedule, ReplayTimeouts


def message(seq: int, payload: bytes = b"batch") -> BatchMessage:
    return BatchMessage(seq, payload, 10.0)


class Stage:
    """A reader with what it reads into, in the middle of a replay."""

    def __init__(self) -> None:
        self.log, self.schedule = BatchLog(), ReplaySchedule(ReplayTimeouts())
        self.incarnation = Incarnation(self.log, self.schedule, replays=True)
        self.reader = ReplayReader(self.log, self.schedule, self.incarnation)
        self.schedule.start(None, 0.0)

    @property
    def request(self) -> ReplayRequest:
        assert self.schedule.running is not None
        return self.schedule.running.request

    def answer(self, *messages: BatchMessage, ends: bool = True) -> None:
        number = self.request.number
        for each in messages:
            self.reader.replayed(number, each, 0.0)
        if ends:
            self.reader.ended(number, 0.0)


def test_a_ring_that_reaches_the_beginning_makes_it_complete() -> None:
    """Otherwise it is partial."""
    whole, cut = Stage(), Stage()

    whole.answer(message(0), message(1))
    cut.answer(message(5))

    assert [Reset("complete"), message(0), message(1)] == list(whole.log.steps)
    assert [Reset("partial"), message(5)] == list(cut.log.steps)
    assert whole.incarnation.is_verified


def test_another_batch_in_the_ring_shows_a_restart() -> None:
    """Everything is requested again, from the beginning."""
    stage = Stage()
    stage.answer(message(0), message(1))
    stage.schedule.start(stage.log.last, 0.0)

    stage.answer(message(1, b"other"), ends=False)

    assert 1 == stage.incarnation.restarts
    assert 0 == stage.request.start


def test_a_long_replay_is_confirmed_by_another_one() -> None:
    """An end alone does not prove that everything came."""
    stage = Stage()

    stage.answer(*map(message, range(LONG_REPLAY)))

    assert LONG_REPLAY - 1 == stage.request.start


def test_a_batch_that_two_replays_do_not_bring_is_lost() -> None:
    """The stream goes on behind it."""
    stage = Stage()
    stage.answer(message(0), message(2))
    stage.answer(message(0))
    stage.answer(message(0))

    assert [Lost(1), message(2)] == list(stage.log.steps)[-2:]


def test_an_engine_whose_replays_break_off_is_followed_without_them() -> None:
    """The next published message is the first."""
    stage = Stage()
    for _ in range(BROKEN_REPLAYS):
        stage.reader.broke_off(stage.request.number, 0.0)
        if stage.schedule.is_retrying:
            stage.schedule.start(None, 0.0)

    assert stage.incarnation.is_open
    assert stage.schedule.running is None


def test_answers_to_a_former_request_are_ignored() -> None:
    """Also its end, and that it broke off."""
    stage = Stage()
    former = stage.request.number
    stage.schedule.start(None, 0.0)

    stage.reader.replayed(former, message(0), 0.0)
    stage.reader.ended(former, 0.0)
    stage.reader.broke_off(former, 0.0)

    assert [] == list(stage.log.steps)
    assert former + 1 == stage.request.number
