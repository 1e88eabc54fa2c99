from cache_index import WorkerId
from cache_index.slots import WorkerSlots, bits

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")


def test_bits_come_from_the_lowest_on() -> None:
    """There may be more than 64."""
    assert [0, 3, 100] == list(bits(1 | 8 | 1 << 100))
    assert [] == list(bits(0))


def test_each_worker_has_a_bit_of_its_own() -> None:
    """Sets of workers are reported as their names."""
    slots = WorkerSlots()

    assert [0, 1, 2] == [slots.assign(A), slots.assign(B), slots.assign(C)]
    assert B == slots.worker(1)
    assert [A, C] == slots.workers(0b101)


def test_a_bit_that_was_given_back_is_used_again() -> None:
    """Sets stay as small as the fleet."""
    slots = WorkerSlots()
    slots.assign(A)
    slots.assign(B)
    slots.give_back(0)

    assert 0 == slots.assign(C)
    assert [C, B] == slots.workers(0b11)
