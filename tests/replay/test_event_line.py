import random

import pytest

from replay.event_line import (
    BlockEvent,
    BlocksRemoved,
    BlocksStored,
    EventLine,
    HostRemoved,
    HostStored,
    WorkerSink,
)


@pytest.fixture
def reported() -> list[BlockEvent]:
    return []


@pytest.fixture
def sink(reported: list[BlockEvent]) -> WorkerSink:
    return WorkerSink(reported.append)


def a_line(*, lag_s: float = 0.0, loss: float = 0.0, workers: int = 2) -> EventLine:
    return EventLine(workers, random.Random(1), lag_s=lag_s, loss=loss)


class TestSink:
    def test_blocks_are_reported_as_they_were_stored(self, sink: WorkerSink, reported: list[BlockEvent]) -> None:
        """One run that begins a prompt, one that goes on."""
        sink.stored([1, 2], None, ())
        sink.stored([3], 2, ())

        assert [BlocksStored([1, 2], None), BlocksStored([3], 2)] == reported

    def test_only_the_first_copy_is_reported(self, sink: WorkerSink, reported: list[BlockEvent]) -> None:
        """A run with a known block in its middle is reported in two, the second of which follows that block."""
        sink.stored([2], 1, ())
        sink.stored([1, 2, 3], None, ())

        assert [BlocksStored([2], 1), BlocksStored([1], None), BlocksStored([3], 2)] == reported

    def test_only_the_last_copy_s_end_is_reported(self, sink: WorkerSink, reported: list[BlockEvent]) -> None:
        """Stored twice, removed twice: reported once each."""
        sink.stored([1], None, ())
        sink.stored([1], None, ())
        sink.removed([1])

        assert [BlocksStored([1], None)] == reported

        sink.removed([1])

        assert [BlocksStored([1], None), BlocksRemoved([1])] == reported

    def test_a_block_that_comes_back_is_reported_again(self, sink: WorkerSink, reported: list[BlockEvent]) -> None:
        """It was gone in between."""
        sink.stored([1], None, ())
        sink.removed([1])
        sink.stored([1], None, ())

        assert [BlocksStored([1], None), BlocksRemoved([1]), BlocksStored([1], None)] == reported

    def test_a_host_tier_is_reported_apart(self, sink: WorkerSink, reported: list[BlockEvent]) -> None:
        """It holds one copy of a block at most, whatever the GPU holds."""
        sink.stored([1, 2], None, ())
        sink.offloaded([1, 2])
        sink.dropped([2])

        assert [BlocksStored([1, 2], None), HostStored([1, 2]), HostRemoved([2])] == reported

    def test_no_engine_of_a_replay_clears_its_cache(self, sink: WorkerSink) -> None:
        """Then there would be something to be reported."""
        with pytest.raises(NotImplementedError):
            sink.cleared()


class TestLine:
    def test_events_come_late_and_in_order(self) -> None:
        """A second after they were reported, and not before; each worker's in the order in which it reported them."""
        line = a_line(lag_s=1.0)
        line.tell(0, BlocksStored([1], None), 0.0)
        line.tell(0, BlocksRemoved([1]), 0.0)
        line.tell(1, BlocksStored([2], None), 0.5)

        assert 1.0 == line.next_at()
        assert [] == list(line.due(0.9))
        assert [(0, BlocksStored([1], None)), (0, BlocksRemoved([1]))] == list(line.due(1.0))
        assert 1.5 == line.next_at()
        assert [(1, BlocksStored([2], None))] == list(line.due(9.0))
        assert line.next_at() is None

    def test_what_was_lost_comes_before_the_next_batch(self) -> None:
        """Half of the batches are lost at first: every event comes once and in order, some of them late."""
        line = a_line(loss=0.5)
        late, heard = 0, []
        for number in range(200):
            line.tell(number % 2, BlocksStored([number], None), float(number))
            come = list(line.due(float(number)))
            late += len(come) > 1
            heard += come
        reported = [[number for number in range(200) if number % 2 == worker] for worker in (0, 1)]
        blocks = [[event.blocks[0] for which, event in heard if which == worker] for worker in (0, 1)]

        assert 20 < late < 80
        assert [reported[worker][: len(blocks[worker])] for worker in (0, 1)] == blocks
        assert 180 < len(heard)

    def test_a_batch_is_lost_as_a_whole(self) -> None:
        """What a worker reports at one moment comes together or not at all."""
        line = a_line(loss=0.5, workers=1)
        sizes = set()
        for number in range(100):
            line.tell(0, BlocksStored([number], None), float(number))
            line.tell(0, BlocksRemoved([number]), float(number))
            sizes.add(len(list(line.due(float(number)))) % 2)

        assert {0} == sizes
