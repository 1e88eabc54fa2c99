import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index import Hasher
from cache_index.prefix import MAX_CACHED_BYTES

KEY = bytes(range(32))


def test_a_prefix_has_one_hash_per_full_block() -> None:
    """100 bytes in blocks of 16 are 6 full blocks; the tail of 4 bytes has no hash."""
    prefix = Hasher(KEY, block_bytes=16).prefix(b"x" * 100)

    assert 6 == prefix.blocks
    assert 48 == len(prefix.hashes)


def test_a_text_shorter_than_a_block_has_no_blocks() -> None:
    """Engines cache full blocks only."""
    assert 0 == Hasher(KEY, block_bytes=16).prefix(b"x" * 15).blocks


def test_texts_with_a_common_head_share_its_hashes_and_no_later_one() -> None:
    """A hash covers its block and all before it."""
    hasher = Hasher(KEY, block_bytes=16)
    first = hasher.prefix(b"a" * 32 + b"b" * 32)
    second = hasher.prefix(b"a" * 32 + b"c" * 16 + b"b" * 16)

    assert first.hashes[:16] == second.hashes[:16]
    assert first.hashes[16:24] != second.hashes[16:24]
    assert first.hashes[24:] != second.hashes[24:]


def test_scopes_never_share_a_hash() -> None:
    """The scope is part of the first block, and so of all."""
    hasher = Hasher(KEY, block_bytes=16)
    one, other = hasher.prefix(b"a" * 64, b"tiny"), hasher.prefix(b"a" * 64, b"tiny\0salt")

    assert not set(_hashes(one.hashes)) & set(_hashes(other.hashes))


def test_another_key_gives_other_hashes() -> None:
    """No one without the key can compute a collision."""
    one = Hasher(KEY, block_bytes=16).prefix(b"a" * 32)
    other = Hasher(bytes(32), block_bytes=16).prefix(b"a" * 32)

    assert one.hashes != other.hashes


def test_flipped_top_bits_do_not_cancel() -> None:
    """Two words of a block whose top bits both flip give another hash, whatever the factors."""
    for seed in range(50):
        hasher = Hasher(bytes([seed]) * 32, block_bytes=16)

        assert hasher.prefix(b"\x00" * 16).hashes != hasher.prefix((b"\x00" * 7 + b"\x80") * 2).hashes


def test_the_order_of_blocks_matters() -> None:
    """ab and ba end in different hashes."""
    hasher = Hasher(KEY, block_bytes=16)

    assert hasher.prefix(b"a" * 16 + b"b" * 16).hashes[8:] != hasher.prefix(b"b" * 16 + b"a" * 16).hashes[8:]


@pytest.mark.parametrize("size", [0, 4, 12])
def test_a_block_is_whole_words(size: int) -> None:
    """Blocks are hashed eight bytes at a time."""
    with pytest.raises(ValueError, match="positive multiple of 8"):
        Hasher(KEY, block_bytes=size)


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_hashes_are_equal_exactly_as_far_as_the_texts_are(one: bytes, other: bytes) -> None:
    """The chain compares like the text, block by block, also for long texts hashed after short ones."""
    hasher = Hasher(KEY, block_bytes=8)
    first, second = _hashes(hasher.prefix(one).hashes), _hashes(hasher.prefix(other).hashes)

    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        assert (one[: 8 * i + 8] == other[: 8 * i + 8]) == (a == b)


def test_hashes_do_not_depend_on_what_was_hashed_before() -> None:
    """A long prompt extends the position factors; those of earlier positions stay."""
    hasher = Hasher(KEY, block_bytes=8)
    before = hasher.prefix(b"q" * 80)
    hasher.prefix(b"z" * 8 * 5000)

    assert before == hasher.prefix(b"q" * 80)


@given(text=st.binary(max_size=600), scope=st.binary(max_size=20), words=st.integers(1, 9))
def test_the_hashes_are_the_same_compiled_or_not(text: bytes, scope: bytes, words: int) -> None:
    """A loop and numpy come to the same; a text for which the loop would be slower is hashed by numpy either way."""
    by_numpy = Hasher(KEY, block_bytes=8 * words, is_compiled=False)
    by_loop = Hasher(KEY, block_bytes=8 * words, is_compiled=True)

    assert by_numpy.prefix(text, scope) == by_loop.prefix(text, scope)


@pytest.mark.parametrize("size", [32_767, 32_768, 32_769, 40_000])
def test_a_long_text_and_a_short_one_meet_where_they_begin_alike(size: int) -> None:
    """This holds if one is hashed by the loop and the other by numpy."""
    hasher = Hasher(KEY, block_bytes=64, is_compiled=True)
    text = random.Random(size).randbytes(40_000)

    assert hasher.prefix(text).hashes.startswith(hasher.prefix(text[:size]).hashes)


def _hashes(hashes: bytes) -> list[bytes]:
    return [hashes[i : i + 8] for i in range(0, len(hashes), 8)]


def test_under_another_key_everything_has_another_hash() -> None:
    """The hasher behaves as if made with that key, and the former key gives the former hashes again."""
    hasher, other = Hasher(KEY, block_bytes=16), Hasher(KEY[::-1], block_bytes=16)
    text = bytes(range(100)) * 400
    before = hasher.prefix(text, b"scope")
    hasher.use(KEY[::-1])

    assert other.prefix(text, b"scope") == hasher.prefix(text, b"scope") != before

    hasher.use(KEY)

    assert before == hasher.prefix(text, b"scope")


def test_two_processes_with_one_key_come_to_the_same_hashes() -> None:
    """Whatever else each has hashed before, short or long."""
    one, other = Hasher(KEY, block_bytes=16), Hasher(KEY, block_bytes=16)
    long, longer = bytes(range(256)) * 200, bytes(range(256)) * 900
    one.prefix(long)

    assert one.prefix(longer) == other.prefix(longer)


def test_a_long_scope_is_a_scope_like_any_other() -> None:
    """Its seed is not cached."""
    hasher = Hasher(bytes(32), block_bytes=8)
    long, longer = (hasher.prefix(b"x" * 8, b"s" * length) for length in (MAX_CACHED_BYTES + 1, 2**16))

    assert long == hasher.prefix(b"x" * 8, b"s" * (MAX_CACHED_BYTES + 1))
    assert 3 == len({long, longer, hasher.prefix(b"x" * 8, b"s" * MAX_CACHED_BYTES)})
