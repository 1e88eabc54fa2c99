from benchmarks.peers.dynamo.stopwatch import timed_us


def test_each_argument_is_done_once_and_timed() -> None:
    """In the order given."""
    done: list[int] = []
    times_us = timed_us(done.append, [3, 1, 2])

    assert [3, 1, 2] == done
    assert 3 == len(times_us)
    assert min(times_us) > 0
