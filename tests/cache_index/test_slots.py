from cache_index import WorkerId
from cache_index.slots import Slots, bits

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")


def test_bits_are_told_from_the_lowest_on() -> None:
    """Also beyond 64 of them."""
    assert [0, 3, 100] == list(bits(1 | 8 | 1 << 100))
    assert [] == list(bits(0))


def test_each_worker_has_a_bit_of_its_own() -> None:
    """Sets of workers are told as their names."""
    slots = Slots()

    assert [0, 1, 2] == [slots.take(A), slots.take(B), slots.take(C)]
    assert B == slots.worker(1)
    assert [A, C] == slots.workers(0b101)


def test_a_bit_that_was_given_back_is_used_again() -> None:
    """So sets stay as small as the fleet."""
    slots = Slots()
    slots.take(A)
    slots.take(B)
    slots.give_back(0)

    assert 0 == slots.take(C)
    assert [C, B] == slots.workers(0b11)
