import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_index.tokens import TokenHasher, pack, scope_of

KEY = bytes(range(32))
HASHER = TokenHasher(KEY)
IDS = st.lists(st.sampled_from([0, 1, 70_000, 2**32 - 1]), max_size=40)


def hashes_of(
    ids: list[int], block_size: int = 2, scope: bytes = b"", extras: list[bytes | None] | None = None
) -> list[int]:
    packed = HASHER.prefix(pack(ids), block_size=block_size, scope=scope, extras=extras).hashes
    return memoryview(packed).cast("Q").tolist()


def test_ids_are_packed_in_four_bytes_each() -> None:
    """Little-endian."""
    assert b"\x01\x00\x00\x00\x02\x01\x00\x00" == pack([1, 258])
    assert b"" == pack([])


def test_wide_ids_are_folded() -> None:
    """SGLang's ids of images have 62 bits."""
    assert pack([1, 0xABCD_0000 ^ 0x3]) == pack([1, 0x3_ABCD_0000])


@pytest.mark.parametrize("token", [-1, 2**64])
def test_invalid_ids_are_refused(token: int) -> None:
    """The caller decides about the event or the prompt; the error does not contain the id."""
    with pytest.raises(ValueError, match=r"^a token id must not be negative or exceed 64 bits$"):
        pack([5, token])


def test_a_prompt_has_a_hash_for_every_full_block() -> None:
    """Seven tokens in blocks of two."""
    prefix = HASHER.prefix(pack([1, 2, 3, 4, 5, 6, 7]), block_size=2)

    assert (3, 2) == (prefix.blocks, prefix.block_tokens)
    assert 0 == HASHER.prefix(pack([1]), block_size=2).blocks
    assert 0 == HASHER.prefix(b"", block_size=16).blocks


@given(IDS, IDS, st.integers(1, 5))
def test_hashes_are_equal_exactly_as_far_as_the_tokens_are(one: list[int], other: list[int], block_size: int) -> None:
    """Block by block, for blocks of any size."""
    for i, (a, b) in enumerate(zip(hashes_of(one, block_size), hashes_of(other, block_size), strict=False)):
        end = block_size * (i + 1)
        assert (one[:end] == other[:end]) == (a == b)


@given(IDS, st.integers(1, 5), st.integers(1, 40), st.booleans())
def test_a_chain_does_not_depend_on_where_it_is_cut(ids: list[int], size: int, cut: int, with_extras: bool) -> None:
    """Engines report runs cut anywhere, and single blocks."""
    blocks = len(ids) // size
    cut = min(cut, blocks)
    extras = [b"image" if i % 3 == 0 else None for i in range(blocks)] if with_extras else None
    packed, at = pack(ids), cut * size * 4
    root = HASHER.root(b"scope", size)
    head = HASHER.chain(root, 0, packed[:at], block_size=size, extras=extras and extras[:cut])
    after = int.from_bytes(head[-8:], "little") if head else root
    tail = HASHER.chain(after, cut, packed[at:], block_size=size, extras=extras and extras[cut:])

    assert HASHER.prefix(packed, block_size=size, scope=b"scope", extras=extras).hashes == head + tail


@given(IDS, st.integers(1, 5), st.integers(0, 2000), st.integers(0, 2**64 - 1))
def test_the_compiled_core_makes_the_same_chain(ids: list[int], size: int, position: int, after: int) -> None:
    """The core uses a loop of its own instead of numpy."""
    by_numpy, by_loop = TokenHasher(KEY, is_compiled=False), TokenHasher(KEY, is_compiled=True)
    extras = [b"image"] * len(ids)

    for beside in (None, extras):
        assert by_numpy.chain(after, position, pack(ids), block_size=size, extras=beside) == by_loop.chain(
            after, position, pack(ids), block_size=size, extras=beside
        )


@pytest.mark.parametrize("blocks", [1, 511, 512, 513, 600])
def test_the_compiled_core_makes_the_same_long_chain(blocks: int) -> None:
    """Short prompts use its loop, long ones numpy."""
    by_numpy, by_loop = TokenHasher(KEY, is_compiled=False), TokenHasher(KEY, is_compiled=True)
    ids = pack(range(4 * blocks))

    assert by_numpy.prefix(ids, block_size=4) == by_loop.prefix(ids, block_size=4)


def test_block_sizes_scopes_and_keys_keep_prompts_apart() -> None:
    """None of them shares a hash with another."""
    packed = pack([1] * 24)
    prefixes = [
        HASHER.prefix(packed, block_size=2),
        HASHER.prefix(packed, block_size=3),
        HASHER.prefix(packed, block_size=4),
        HASHER.prefix(packed, block_size=2, scope=b"other"),
        TokenHasher(bytes(32)).prefix(packed, block_size=2),
    ]
    found = [hashed for prefix in prefixes for hashed in memoryview(prefix.hashes).cast("Q").tolist()]

    assert 12 + 8 + 6 + 12 + 12 == len(set(found)) == len(found)


def test_what_a_block_holds_beside_its_tokens_is_hashed_with_it() -> None:
    """An image in the second block of three; more extras than blocks do no harm."""
    ids = [1, 2, 3, 4, 5, 6]
    plain, cat = hashes_of(ids), hashes_of(ids, extras=[None, b"cat", None, b"tail"])
    dog = hashes_of(ids, extras=[None, b"dog", None])

    assert plain == hashes_of(ids, extras=[None, None, None])
    assert plain[:1] == cat[:1] == dog[:1]
    assert 6 == len({*plain[1:], *cat[1:], *dog[1:]})


def test_different_scopes_are_written_differently() -> None:
    """This includes names that end as others begin, and empty instead of missing names."""
    scopes = [
        scope_of("model"),
        scope_of("model", "", ""),
        scope_of("model", "a"),
        scope_of("model", None, "a"),
        scope_of("model", "a", "b"),
        scope_of("model", "ab"),
        scope_of("modela", "b"),
        scope_of("model-1:a"),
    ]

    assert len(scopes) == len(set(scopes))


def test_under_another_key_every_block_has_another_hash() -> None:
    """The hasher behaves as if made with that key."""
    hasher, other = TokenHasher(KEY), TokenHasher(KEY[::-1])
    ids = pack(list(range(64)))
    before = hasher.prefix(ids, block_size=16, scope=b"scope")
    hasher.use(KEY[::-1])

    assert other.prefix(ids, block_size=16, scope=b"scope") == hasher.prefix(ids, block_size=16, scope=b"scope")
    assert before != hasher.prefix(ids, block_size=16, scope=b"scope")
