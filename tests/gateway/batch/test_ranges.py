import random

from gateway.batch.ranges import NO_WORKER, LineRange, LineRanges


def begun(total: int) -> LineRanges:
    return LineRanges([LineRange(NO_WORKER, 0, total)])


def test_one_worker_takes_all_lines_in_order() -> None:
    ranges = begun(5)

    assert [range(3), range(3, 5), range(0)] == [ranges.take("a", 3) for _ in range(3)]


def test_a_further_worker_takes_the_second_half_of_the_largest_range() -> None:
    ranges = begun(16)

    assert [0, 8, 4, 12] == [ranges.take(worker, 1).start for worker in "abcd"]
    assert [1, 9, 5, 13] == [ranges.take(worker, 1).start for worker in "abcd"]
    assert {"a": (2, 4), "b": (10, 12), "c": (6, 8), "d": (14, 16)} == {
        each.worker: (each.next, each.stop) for each in ranges.left
    }


def test_the_last_line_of_a_worker_that_is_down_is_taken() -> None:
    ranges = LineRanges([LineRange("down", 3, 4), LineRange("empty", 9, 9)])

    assert range(3, 4) == ranges.take("a", 8)
    assert [] == ranges.left


def test_of_equal_ranges_the_first_is_divided() -> None:
    ranges = LineRanges([LineRange("b", 8, 12), LineRange("a", 0, 4)])

    assert range(2, 4) == ranges.take("c", 4)


def test_every_line_is_taken_once() -> None:
    rng, ranges = random.Random(1), begun(1000)
    taken: list[int] = []
    while lines := ranges.take(rng.choice("abcdefgh"), rng.randint(1, 9)):
        taken += lines

    assert list(range(1000)) == sorted(taken)
