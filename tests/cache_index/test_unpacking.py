"""Literal facts, and results compared with those of `msgspec` and `pack` for the same bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index.tokens import pack
from cache_index.unpacking import unpack

ID = st.sampled_from([0, 1, 127, 128, 255, 256, 0xCDCD, 65_535, 65_536, 0xCDCDCDCD % 2**31, 2**31 - 1])
OTHER: st.SearchStrategy[object] = st.sampled_from(
    [2**31, 2**32 - 1, 2**32, 2**62, -1, -200, None, True, 1.5, "\x01", b"\xcd", [], [1], {}]
)


def test_ids_become_four_bytes_each() -> None:
    """Little-endian; in msgpack the first takes one byte, the others two, three and five."""
    array = bytes([0x94, 0x05, 0xCC, 0xC6, 0xCD, 0x80, 0x01, 0xCE, 0x00, 0x01, 0xF4, 0x0A])

    assert bytes([5, 0, 0, 0, 0xC6, 0, 0, 0, 0x01, 0x80, 0, 0, 0x0A, 0xF4, 0x01, 0]) == unpack(array)


@pytest.mark.parametrize("ids", [0, 1, 15, 16, 65_535, 65_536])
def test_arrays_of_all_lengths(ids: int) -> None:
    """Their headers have one byte, three or five."""
    assert pack([70_000] * ids) == unpack(msgspec.msgpack.encode([70_000] * ids))


def test_ids_may_be_written_longer_than_they_need_to_be() -> None:
    """5 in 8, in 16 and in 32 bits."""
    assert pack([5, 5, 5]) == unpack(bytes([0x93, 0xCC, 5, 0xCD, 0, 5, 0xCE, 0, 0, 0, 5]))


@given(st.lists(ID, max_size=40))
def test_what_is_unpacked_is_what_was_written(ids: list[int]) -> None:
    """Ids of all lengths may be mixed."""
    assert pack(ids) == unpack(msgspec.msgpack.encode(ids))


@given(st.lists(ID, max_size=20), OTHER, st.lists(ID | OTHER, max_size=20))
def test_arrays_with_anything_else_are_left_to_others(before: list[int], other: object, after: list[object]) -> None:
    """Wide ids of images, ids below 0, and what is no id."""
    assert unpack(msgspec.msgpack.encode([*before, other, *after])) is None


@pytest.mark.parametrize("reported", [{}, {1: 2}, None, True, 7, 300, 70_000, -1, 1.5, "ab", b"ab", ""])
def test_what_is_no_array_is_left_to_others(reported: object) -> None:
    """Its bytes are not read as ids."""
    assert unpack(msgspec.msgpack.encode(reported)) is None
