"""Literal facts, and random events compared with engines that keep whole sequences of tokens in plain dicts."""

import hashlib
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache_index import Prefix, WorkerId
from cache_index.event import Cleared, Event, Removed, Stored, Tier
from cache_index.hit import Hit
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher, pack, scope_of

HASHER = TokenHasher(bytes(32))
A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
MODELS = {A: "big", B: "big", C: "small"}
OWN = (Tier.GPU, Tier.CPU, Tier.DISK)
MANY = 10_000_000

Block = tuple[tuple[int, ...], bytes | None]
"""Tokens, and what the block holds beside them."""
Content = tuple[str | None, str | None, int, tuple[Block, ...]]
"""Adapter, salt and block size of a sequence, and its blocks."""


def index(max_bytes: int = MANY) -> Residency:
    return Residency(HASHER, max_bytes=max_bytes)


def prefix(letters: str, *, model: str = "", adapter: str | None = None, salt: str | None = None) -> Prefix:
    """A prompt with one block of two tokens per letter."""
    return HASHER.prefix(pack(tokens(letters)), block_size=2, scope=scope_of(model, adapter, salt))


def tokens(letters: str) -> list[int]:
    return [ord(letter) for letter in letters for _ in range(2)]


def stored(hashes: Sequence[int], parent: int | None, letters: str, tier: Tier = Tier.GPU) -> Stored:
    return Stored(list(hashes), parent, tokens(letters), 2, tier)


def by_hash(hashes: Sequence[int], tier: Tier) -> Stored:
    return Stored(list(hashes), None, [], 0, tier)


def test_an_empty_index_matches_nothing() -> None:
    """There were no reports."""
    residency = index()

    assert {} == residency.match(prefix("abc"))
    assert 0 == residency.held(A)
    assert residency.block_size(A) is None
    residency.drop(A)


def test_each_worker_is_matched_as_far_as_its_engine_holds_the_prompt() -> None:
    """a holds two of its blocks, b all four, c another prompt."""
    residency = index()
    residency.apply(A, stored([1, 2, 3], None, "wxQ"))
    residency.apply(B, stored([1, 2, 3, 4], None, "wxyz"))
    residency.apply(C, stored([9, 8], None, "Zz"))

    assert {A: Hit(2), B: Hit(4)} == residency.match(prefix("wxyz"))
    assert {A: Hit(1), B: Hit(1)} == residency.match(prefix("w"))
    assert {} == residency.match(prefix(""))


def test_a_sequence_is_matched_however_it_was_cut_into_runs() -> None:
    """Prefill in two chunks, then generated tokens fill one block after the other."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, stored([3, 4], 2, "cd"))
    residency.apply(A, stored([5], 4, "e"))
    residency.apply(A, stored([6], 5, "f"))

    assert {A: Hit(6)} == residency.match(prefix("abcdefg"))
    assert 6 == residency.held(A)


def test_sequences_part_in_the_middle_of_a_run() -> None:
    """The second prompt shares two blocks of four with the first."""
    residency = index()
    residency.apply(A, stored([1, 2, 3, 4], None, "abcd"))
    residency.apply(A, stored([5, 6], 2, "xy"))
    residency.apply(A, stored([7], 3, "q"))

    assert {A: Hit(4)} == residency.match(prefix("abcd"))
    assert {A: Hit(4)} == residency.match(prefix("abxy"))
    assert {A: Hit(4)} == residency.match(prefix("abcq"))


def test_tokens_may_come_packed() -> None:
    """A decoder that packs them saves the list."""
    residency = index()
    residency.apply(A, Stored([1, 2], None, pack(tokens("ab")), 2))

    assert {A: Hit(2)} == residency.match(prefix("ab"))


def test_a_hash_of_an_engine_means_nothing_for_another() -> None:
    """Both use the hash 1, for different blocks."""
    residency = index()
    residency.apply(A, stored([1], None, "a"))
    residency.apply(B, stored([1], None, "b"))
    residency.apply(B, stored([2], 1, "c"))

    assert {A: Hit(1)} == residency.match(prefix("ac"))
    assert {B: Hit(2)} == residency.match(prefix("bc"))


def test_a_hole_ends_the_match() -> None:
    """The block in the middle is removed, and comes back."""
    residency = index()
    residency.apply(A, stored([1, 2, 3], None, "abc"))
    residency.apply(A, Removed([2]))

    assert {A: Hit(1)} == residency.match(prefix("abc"))

    residency.apply(A, stored([2], 1, "b"))

    assert {A: Hit(3)} == residency.match(prefix("abc"))


def test_a_worker_without_the_first_block_has_no_hit() -> None:
    """Its second block is of no use."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(B, stored([1, 2], None, "ab"))
    residency.apply(A, Removed([1]))

    assert {B: Hit(2)} == residency.match(prefix("ab"))


def test_a_worker_that_lost_the_beginning_has_no_hit_however_much_it_has_left() -> None:
    """It holds some blocks of the part behind it, and so does another that has them all."""
    residency = index()
    residency.apply(A, stored([1, 2, 3, 4], None, "abcd"))
    residency.apply(B, stored([1, 2, 3, 4], None, "abcd"))
    residency.apply(C, stored([1, 2, 5], None, "abX"))
    residency.apply(B, Removed([4, 1]))

    assert {A: Hit(4), C: Hit(2)} == residency.match(prefix("abcd"))


def test_two_copies_need_two_removals() -> None:
    """vLLM keeps equal blocks of two requests apart, and reports both."""
    residency = index()
    residency.apply(A, stored([1], None, "a"))
    residency.apply(A, stored([2], 1, "b"))
    residency.apply(A, stored([2], 1, "b"))
    residency.apply(A, Removed([2]))

    assert {A: Hit(2)} == residency.match(prefix("ab"))

    residency.apply(A, Removed([2]))

    assert {A: Hit(1)} == residency.match(prefix("ab"))
    assert 1 == residency.counts.repeated


def test_a_prefix_reported_again_from_its_first_block_is_no_copy() -> None:
    """vLLM's `kv_cache_report_mode: full` reports every reused prefix; one removal is enough."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, stored([1, 2, 3], None, "abc"))
    residency.apply(A, Removed([2]))

    assert {A: Hit(1)} == residency.match(prefix("abc"))
    assert 4 == residency.counts.announced_again
    assert 2 == residency.held(A)


def test_two_hashes_of_an_engine_may_stand_for_one_block() -> None:
    """Its hash covers the path of an adapter, of which it reports only the name."""
    residency = index()
    residency.apply(A, stored([1], None, "a"))
    residency.apply(A, stored([11], None, "a"))
    residency.apply(A, stored([12], 11, "b"))
    residency.apply(A, Removed([1]))

    assert {A: Hit(2)} == residency.match(prefix("ab"))

    residency.apply(A, Removed([11]))

    assert {} == residency.match(prefix("ab"))
    assert 1 == residency.held(A)


def test_adapter_salt_and_model_keep_prompts_apart() -> None:
    """The same tokens, four ways; children inherit what their parent has."""
    residency = index()
    residency.apply(A, Stored([1], None, tokens("a"), 2, adapter="lora"))
    residency.apply(A, Stored([2], 1, tokens("b"), 2, adapter="lora"))
    residency.apply(A, Stored([3], None, tokens("a"), 2, salt="s"))
    residency.apply(B, Stored([1], None, tokens("a"), 2), model="other")

    assert {} == residency.match(prefix("ab"))
    assert {A: Hit(2)} == residency.match(prefix("ab", adapter="lora"))
    assert {A: Hit(1)} == residency.match(prefix("ab", salt="s"))
    assert {B: Hit(1)} == residency.match(prefix("ab", model="other"))


def test_images_keep_equal_tokens_apart() -> None:
    """vLLM's tokens of two images are equal; their identity is reported beside them."""
    residency = index()
    residency.apply(A, Stored([1, 2], None, tokens("ab"), 2, extras=[None, b"cat"]))
    ids, scope = pack(tokens("ab")), scope_of("")

    assert {A: Hit(2)} == residency.match(HASHER.prefix(ids, block_size=2, scope=scope, extras=[None, b"cat"]))
    assert {A: Hit(1)} == residency.match(HASHER.prefix(ids, block_size=2, scope=scope, extras=[None, b"dog"]))
    assert {A: Hit(1)} == residency.match(HASHER.prefix(ids, block_size=2, scope=scope))


def test_block_sizes_are_learned_from_what_is_reported() -> None:
    """Most blocks have four tokens; LMCache's, in the same stream, have more."""
    residency = index()
    residency.apply(A, Stored([1, 2], None, [1, 2, 3, 4, 5, 6, 7, 8], 4))
    residency.apply(A, Stored([9], None, [1, 2, 3, 4, 5, 6, 7, 8], 8, Tier.CPU))

    assert {4: 2, 8: 1} == residency.block_sizes(A)
    assert 4 == residency.block_size(A)
    assert {} == residency.block_sizes(B)


def test_blocks_of_other_sizes_never_meet() -> None:
    """A prompt hashed in blocks of four finds those only."""
    residency = index()
    residency.apply(A, Stored([1, 2], None, [1, 2, 3, 4, 5, 6, 7, 8], 4))
    residency.apply(B, Stored([1], None, [1, 2, 3, 4, 5, 6, 7, 8], 8))
    ids = pack([1, 2, 3, 4, 5, 6, 7, 8])

    assert {A: Hit(2)} == residency.match(HASHER.prefix(ids, block_size=4, scope=scope_of("")))
    assert {B: Hit(1)} == residency.match(HASHER.prefix(ids, block_size=8, scope=scope_of("")))


def test_a_short_last_page_is_counted_in_and_out() -> None:
    """SGLang's last page may be shorter; it is held, and no prompt in whole pages finds it."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, Stored([3], 2, [ord("c")], 1))

    assert 3 == residency.held(A)
    assert {A: Hit(2)} == residency.match(prefix("abc"))

    residency.apply(A, Removed([3]))

    assert 2 == residency.held(A)
    assert 0 == residency.counts.unknown_removals


@pytest.mark.parametrize(
    "event",
    [
        Stored([1, 2], None, [7, 7, 7], 2),
        Stored([1], None, [7, 7], 0),
        Stored([1], None, [7, -7], 2),
        Stored([1, 2], None, [7, 7, 7, 7], 2, extras=[b"image"]),
        Stored([1, 1], 9, [7, 7, 7, 7], 2),
        Stored([1 << 64], None, [7, 7], 2),
        Stored([-1], None, [7, 7], 2),
    ],
)
def test_an_event_that_makes_no_sense_is_refused_and_counted(event: Stored) -> None:
    """Tokens that do not fill the blocks, a negative token, one hash twice, hashes that are not of 64 bits."""
    residency = index()
    residency.apply(A, event)

    assert 1 == residency.counts.refused
    assert 0 == residency.held(A)
    residency._check()


def test_what_was_never_stored_cannot_be_removed() -> None:
    """It is counted: events were lost, or the gateway came later than the block."""
    residency = index()
    residency.apply(A, stored([1], None, "a"))
    residency.apply(A, Removed([2, 3]))

    assert 2 == residency.counts.unknown_removals
    assert {A: Hit(1)} == residency.match(prefix("a"))


def test_a_hash_that_comes_to_mean_another_block_counts_as_that() -> None:
    """An engine contradicts itself; the later word counts and nothing is left of the other."""
    residency = index()
    residency.apply(A, stored([1], None, "a"))
    residency.apply(A, stored([1], None, "b"))
    residency.apply(A, stored([2], None, "c"))

    assert {} == residency.match(prefix("a"))
    assert {A: Hit(1)} == residency.match(prefix("b"))
    assert 1 == residency.counts.contradicted
    residency._check()


@pytest.mark.parametrize("blocks", [2, 40])
def test_a_hash_cannot_mean_two_blocks_of_a_run(blocks: int) -> None:
    """One of them counts; nothing is left of the other when it goes."""
    residency = index()
    letters = "".join(chr(1000 + i) for i in range(blocks))
    residency.apply(A, stored([*range(blocks - 1), 0], None, letters))
    for i in range(60):
        residency.apply(A, stored(range(1000 * (i + 1), 1000 * (i + 1) + 40), None, chr(2000 + i) * 40))

    assert 2400 + blocks - 1 == residency.held(A)
    assert 1 == residency.counts.contradicted
    residency._check()


def test_a_slower_tier_keeps_what_the_gpu_evicts() -> None:
    """The copy in CPU memory is reported by hash alone, as vLLM's offloading does."""
    residency = index()
    residency.apply(A, stored([1, 2, 3], None, "abc"))
    residency.apply(A, by_hash([2, 3], Tier.CPU))
    residency.apply(A, Removed([3]))
    residency.apply(A, Removed([2]))

    assert {A: Hit(3, cpu=2)} == residency.match(prefix("abc"))
    assert (1, 2) == (residency.held_in(A, Tier.GPU), residency.held_in(A, Tier.CPU))

    residency.apply(A, stored([4], 3, "d"))
    residency.apply(A, Removed([3], Tier.CPU))

    assert {A: Hit(2, cpu=1)} == residency.match(prefix("abcd"))


def test_a_tier_s_capacity_shows_when_it_evicts() -> None:
    """It is the most that the tier held then, whatever is removed later. The GPU's capacity is known from elsewhere."""
    residency = index()
    residency.apply(A, stored([1, 2, 3], None, "abc"))
    residency.apply(A, by_hash([1, 2, 3], Tier.CPU))

    assert residency.capacity_of(A, Tier.CPU) is None

    residency.apply(A, Removed([3, 2], Tier.CPU))
    residency.apply(A, Removed([3]))
    residency.apply(A, Removed([9], Tier.DISK))

    assert [None, 3, None] == [residency.capacity_of(A, tier) for tier in (Tier.GPU, Tier.CPU, Tier.DISK)]
    assert residency.capacity_of(B, Tier.CPU) is None


def test_a_copy_may_be_reported_after_the_block_was_evicted() -> None:
    """Within a step, vLLM reports evictions first and offloaded blocks last."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, by_hash([1], Tier.CPU))
    residency.apply(A, Removed([2]))
    residency.apply(A, by_hash([2], Tier.CPU))
    residency.apply(A, Removed([1]))

    assert {A: Hit(2, cpu=2)} == residency.match(prefix("ab"))


def test_the_nearest_tier_counts() -> None:
    """a: GPU, CPU and GPU, disk, shared."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, stored([3], 2, "c", Tier.DISK))
    residency.apply(A, stored([4], 3, "d", Tier.SHARED))
    residency.apply(A, by_hash([2, 3], Tier.CPU))
    residency.apply(A, by_hash([1, 3], Tier.DISK))
    residency.apply(A, Removed([3], Tier.CPU))

    assert {A: Hit(4, disk=1, shared=1)} == residency.match(prefix("abcde"))

    residency.apply(A, Removed([2]))

    assert {A: Hit(4, cpu=1, disk=1, shared=1)} == residency.match(prefix("abcde"))


def test_blocks_in_a_shared_tier_count_for_every_worker_of_the_model() -> None:
    """b has reported one block, c serves another model, and d joined without any report."""
    residency, d = index(), WorkerId("d")
    residency.apply(A, stored([1, 2, 3], None, "abc", Tier.SHARED), model="big")
    residency.apply(B, stored([7], None, "a"), model="big")
    residency.apply(C, stored([8], None, "z"), model="small")
    residency.join(d, model="big")

    assert {A: Hit(3, shared=3), B: Hit(3, shared=2), d: Hit(3, shared=3)} == residency.match(
        prefix("abcd", model="big")
    )

    residency.apply(A, Removed([3], Tier.SHARED), model="big")
    residency.apply(A, Cleared(), model="big")

    assert {A: Hit(2, shared=2), B: Hit(2, shared=1), d: Hit(2, shared=2)} == residency.match(
        prefix("abcd", model="big")
    )

    residency.drop(A)

    assert {B: Hit(1)} == residency.match(prefix("abcd", model="big"))


def test_a_worker_may_come_to_serve_another_model() -> None:
    """Its earlier reports belong to the former model, whose shared blocks it can no longer use."""
    residency = index()
    residency.apply(A, stored([1], None, "a", Tier.SHARED), model="big")
    residency.join(B, model="big")
    residency.join(B, model="small")

    assert {A: Hit(1, shared=1)} == residency.match(prefix("a", model="big"))
    residency._check()


def test_a_cleared_worker_holds_nothing_and_others_keep_theirs() -> None:
    """Blocks that waited for their parent are gone as well."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, stored([9], 8, "z"))
    residency.apply(B, stored([1, 2], None, "ab"))
    residency.apply(A, Cleared())

    assert {B: Hit(2)} == residency.match(prefix("ab"))
    assert (0, 0) == (residency.held(A), residency.waiting)
    residency._check()


def test_a_dropped_worker_is_forgotten_and_its_slot_used_again() -> None:
    """A restarted engine has an empty cache."""
    residency = index()
    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(B, stored([1], None, "a"))
    residency.drop(A)
    residency.apply(C, stored([1, 2], None, "ab"))

    assert {B: Hit(1), C: Hit(2)} == residency.match(prefix("ab"))
    assert (0, None) == (residency.held(A), residency.block_size(A))
    residency._check()


def test_blocks_wait_for_their_parent_and_what_waits_below_them_comes_along() -> None:
    """The first run comes last."""
    residency = index()
    residency.apply(A, stored([4], 3, "d"))
    residency.apply(A, stored([3], 2, "c"))
    residency.apply(A, by_hash([4], Tier.CPU))

    assert {} == residency.match(prefix("abcd"))
    assert (3, 3) == (residency.waiting, residency.counts.parked)

    residency.apply(A, stored([1, 2], None, "ab"))
    residency.apply(A, Removed([4]))

    assert {A: Hit(4, cpu=1)} == residency.match(prefix("abcd"))
    assert (0, 3) == (residency.waiting, residency.counts.attached)


def test_what_is_removed_while_it_waits_does_not_come_back() -> None:
    """The middle of a waiting run is removed; what was stored behind it stays."""
    residency = index()
    residency.apply(A, stored([2, 3, 4], 1, "bcd"))
    residency.apply(A, stored([5], 3, "x"))
    residency.apply(A, Removed([3, 4]))
    residency.apply(A, stored([1], None, "a"))

    assert {A: Hit(2)} == residency.match(prefix("abcd"))
    assert 3 == residency.held(A)
    assert 2 == residency.counts.unparked

    residency.apply(A, stored([3], 2, "c"))

    assert {A: Hit(4)} == residency.match(prefix("abcx"))
    residency._check()


def test_a_run_that_is_removed_while_it_waits_leaves_nothing() -> None:
    """Only the runs that wait for it need its tokens."""
    residency = index()
    residency.join(A, model="")
    empty = residency.size_bytes
    residency.apply(A, stored([2], 1, "b"))
    residency.apply(A, by_hash([2], Tier.CPU))
    residency.apply(A, Removed([2], Tier.CPU))
    residency.apply(A, Removed([2]))
    residency.apply(A, stored([1], None, "a"))
    residency.apply(A, Removed([1]))

    assert (0, 0) == (residency.held(A), residency.waiting)

    residency.apply(A, Cleared())

    assert empty == residency.size_bytes
    residency._check()


def test_the_oldest_waiting_runs_go_when_there_are_too_many() -> None:
    """An eighth of the budget is for those that wait."""
    residency = index(max_bytes=80_000)
    residency.join(A, model="")
    empty = residency.size_bytes
    for i in range(100):
        residency.apply(A, stored([1000 + i], i, "z"))

        assert residency.size_bytes <= empty + 10_000
    residency.apply(A, stored([0], None, "a"))
    residency.apply(A, stored([99], 0, "b"))

    assert {A: Hit(1)} == residency.match(prefix("az"))
    assert {A: Hit(3)} == residency.match(prefix("abz"))


def test_a_full_index_takes_in_nothing_until_something_goes() -> None:
    """A miss is cheaper than a false hit; the blocks that were not taken in are counted."""
    residency = index(max_bytes=24_000)
    residency.join(B, model="")
    first = [stored([i], None, chr(1000 + i)) for i in range(20)]
    for event in first:
        residency.apply(A, event)
    held = residency.held(A)

    assert 0 < held < 20
    assert 20 - held == residency.counts.crowded_out
    assert residency.size_bytes <= 24_000

    residency.apply(A, Removed([0]))
    residency.apply(B, stored([1], None, "b"))

    assert {B: Hit(1)} == residency.match(prefix("b"))


def test_blocks_of_slower_tiers_make_room_for_others() -> None:
    """LMCache reports stored blocks but never removals: the oldest are dropped."""
    residency = index(max_bytes=30_000)
    for i in range(200):
        residency.apply(A, stored([i], None, chr(1000 + i), Tier.CPU))
    residency.apply(B, stored([1, 2], None, "ab"))

    assert residency.size_bytes <= 30_000
    assert 0 == residency.counts.crowded_out
    assert 200 == residency.counts.forgotten + residency.held(A)
    assert {B: Hit(2)} == residency.match(prefix("ab"))
    assert {} == residency.match(prefix(chr(1000)))
    assert {A: Hit(1, cpu=1)} == residency.match(prefix(chr(1199)))
    residency._check()


def test_what_waits_for_its_parent_may_find_the_index_full() -> None:
    """There is room for the parent, not for the 60 blocks behind it."""
    residency = index(max_bytes=160_000)
    residency.apply(A, stored(range(1000, 1060), 1, "xyz" * 20))
    for i in range(1, 400):
        residency.apply(B, stored([i], None, chr(2000 + i)))
    residency.apply(B, Removed([1, 2, 3]))
    before = residency.counts.crowded_out
    residency.apply(A, stored([1], None, "a"))

    assert {A: Hit(1)} == residency.match(prefix("ax"))
    assert before + 60 == residency.counts.crowded_out
    assert 0 == residency.waiting


def test_the_estimate_of_memory_holds() -> None:
    """There are 40 workers with 400 blocks each, in runs, single blocks and shared prompts."""
    residency = index()
    rng = random.Random(1)
    workers = [WorkerId(f"http://10.0.0.{i}:8000") for i in range(40)]
    system = [rng.randrange(100_000) for _ in range(64 * 16)]
    residency.match(HASHER.prefix(pack(system), block_size=16))
    tracemalloc.start()
    try:
        for worker in workers:
            hashes = [rng.getrandbits(64) for _ in range(400)]
            residency.apply(worker, Stored(hashes[:64], None, system, 16))
            own = [rng.randrange(100_000) for _ in range(300 * 16)]
            residency.apply(worker, Stored(hashes[64:364], hashes[63], own, 16))
            for i in range(364, 400):
                residency.apply(worker, Stored([hashes[i]], hashes[i - 1], [i] * 16, 16))
        traced = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert 16_000 == sum(residency.held(worker) for worker in workers)
    assert 0.6 < traced / residency.size_bytes < 1.4


@pytest.mark.parametrize("seed", range(30))
def test_stored_runs_may_come_in_any_order(seed: int) -> None:
    """Parents after their children, copies by hash before what they copy: the end is the same."""
    rng = random.Random(seed)
    events, contents = family(rng)
    expected = reported(events)
    rng.shuffle(events)
    found = reported(events)

    assert 0 == found.waiting
    assert [expected.match(prompt("", one)) for one in contents] == [found.match(prompt("", one)) for one in contents]
    assert [expected.held_in(A, tier) for tier in Tier] == [found.held_in(A, tier) for tier in Tier]
    found._check()


@pytest.mark.parametrize("seed", range(30))
def test_stored_runs_may_come_late_while_others_are_removed(seed: int) -> None:
    """A run that is late comes before any of its blocks is removed; until then all that is reported below it waits."""
    rng = random.Random(seed)
    stores, contents = family(rng)
    events: list[Event] = list(stores)
    copies = [(event.tier, engine_hash) for event in stores for engine_hash in event.hashes]
    for tier, engine_hash in rng.sample(copies, len(copies) // 2):
        after = max(i for i, event in enumerate(events) if isinstance(event, Stored) and needs(event, engine_hash))
        events.insert(rng.randint(after + 1, len(events)), Removed([engine_hash], tier))
    expected = reported(events)
    for event in rng.sample(stores, len(stores) // 2):
        at = events.index(event)
        before = next((i for i, one in enumerate(events) if removes_need_of(one, event)), len(events))
        events.insert(rng.randint(at, before - 1), events.pop(at))
    found = reported(events)

    assert 0 == found.waiting
    assert 0 == found.counts.unknown_removals
    assert [expected.match(prompt("", one)) for one in contents] == [found.match(prompt("", one)) for one in contents]
    assert [expected.held_in(A, tier) for tier in Tier] == [found.held_in(A, tier) for tier in Tier]
    found._check()


def family(rng: random.Random) -> tuple[list[Stored], list[Content]]:
    """Runs of one tree of sequences, each once, with some copies by hash; and the sequences."""
    engine = FakeEngine()
    events: list[Stored] = []
    ends: list[int | None] = [None]
    for _ in range(rng.randint(3, 12)):
        parent = rng.choice(ends)
        before: Content = (None, None, 2, ()) if parent is None else engine.contents[parent]
        run = blocks_of("".join(rng.choices("abcdefgh", k=rng.randint(1, 20))), 2, None)
        hashes = engine.hashes(before, run, rng.randint(0, 10**6))
        events.append(event_of(hashes, parent, before, run, Tier.GPU))
        ends += hashes
        if rng.random() < 0.4:
            events.append(by_hash(rng.sample(hashes, 1), rng.choice([Tier.CPU, Tier.DISK])))
    return events, list(engine.contents.values())


def reported(events: Iterable[Event]) -> Residency:
    residency = index()
    for event in events:
        residency.apply(A, event)
        residency._check()
    return residency


def needs(event: Stored, engine_hash: int) -> bool:
    return engine_hash == event.parent or engine_hash in event.hashes


def removes_need_of(event: Event, late: Stored) -> bool:
    return isinstance(event, Removed) and needs(late, event.hashes[0])


class FakeEngine:
    """One engine's cache: copies by tier and hash, and of each hash ever used the whole sequence that it stands for."""

    def __init__(self) -> None:
        self.contents: dict[int, Content] = {}
        self.copies: Counter[tuple[Tier, int]] = Counter()
        self.is_tiered = False

    def hashes(self, before: Content, blocks: Sequence[Block], variant: int) -> list[int]:
        """Hashes of *blocks* after *before*; *variant* is content that they cover and that is not reported."""
        adapter, salt, block_size, head = before
        ends = range(1, len(blocks) + 1)
        return [self._hash((adapter, salt, block_size, (*head, *blocks[:end])), variant) for end in ends]

    def _hash(self, content: Content, variant: int) -> int:
        digest = hashlib.blake2b(repr((content, variant)).encode(), digest_size=8).digest()
        engine_hash = int.from_bytes(digest, "big")
        self.contents[engine_hash] = content
        return engine_hash

    def store(self, hashes: Iterable[int], tier: Tier, *, copies: bool) -> None:
        self.is_tiered |= tier is not Tier.GPU
        for engine_hash in hashes:
            if copies or not self.copies[tier, engine_hash]:
                self.copies[tier, engine_hash] += 1

    def remove(self, tier: Tier, engine_hash: int) -> None:
        self.copies[tier, engine_hash] -= 1
        if not self.copies[tier, engine_hash]:
            del self.copies[tier, engine_hash]

    def clear(self) -> None:
        for tier, engine_hash in list(self.copies):
            if tier is not Tier.SHARED:
                del self.copies[tier, engine_hash]

    def holds(self, tier: Tier, content: Content) -> bool:
        return any(one is tier and self.contents[engine_hash] == content for one, engine_hash in self.copies)


def oracle(engines: dict[WorkerId, FakeEngine], model: str, content: Content) -> dict[WorkerId, Hit]:
    """Expected hit of a prompt."""
    serving = {worker: engine for worker, engine in engines.items() if MODELS[worker] == model}
    hits = {}
    for worker, engine in serving.items():
        found = Counter[Tier]()
        for end in range(1, len(content[3]) + 1):
            head = (*content[:3], content[3][:end])
            tier = next((tier for tier in OWN if engine.holds(tier, head)), None)
            if tier is None and any(peer.holds(Tier.SHARED, head) for peer in serving.values()):
                tier = Tier.SHARED
            if tier is None:
                break
            found[tier] += 1
        if found:
            hits[worker] = Hit(found.total(), found[Tier.CPU], found[Tier.DISK], found[Tier.SHARED])
    return hits


def prompt(model: str, content: Content) -> Prefix:
    adapter, salt, block_size, blocks = content
    ids = pack([token for tokens, _ in blocks for token in tokens])
    extras = [extra for _, extra in blocks]
    return HASHER.prefix(ids, block_size=block_size, scope=scope_of(model, adapter, salt), extras=extras)


def event_of(hashes: list[int], parent: int | None, before: Content, blocks: Sequence[Block], tier: Tier) -> Stored:
    ids = [token for tokens, _ in blocks for token in tokens]
    extras = [extra for _, extra in blocks]
    return Stored(
        hashes,
        parent,
        ids,
        len(blocks[0][0]),
        tier,
        adapter=before[0],
        salt=before[1] if parent is None else None,
        extras=extras if any(extras) else None,
    )


SIZES = st.sampled_from([1, 2, 2, 2, 3])
TIERS = st.sampled_from([Tier.GPU, Tier.GPU, Tier.GPU, Tier.CPU, Tier.DISK, Tier.SHARED])
LETTERS = st.text("ab", min_size=1, max_size=5)
NAMES = st.sampled_from([None, None, None, "x"])
WORKERS = st.sampled_from([A, B, C])
VARIANTS = st.sampled_from([0, 0, 0, 1])
EXTRAS = st.sampled_from([None, None, None, b"image"])
PICKS = st.integers(0, 2**20)


def blocks_of(letters: str, size: int, extra: bytes | None) -> list[Block]:
    """One block per letter; *extra* is in the first."""
    return [((ord(letter),) * size, extra if i == 0 else None) for i, letter in enumerate(letters)]


class ResidencyAgainstEngines(RuleBasedStateMachine):
    """After every step the index keeps its invariants and matches as the engines' caches do."""

    def __init__(self) -> None:
        super().__init__()
        self.residency = index()
        self.engines: dict[WorkerId, FakeEngine] = {}

    def engine(self, worker: WorkerId) -> FakeEngine:
        if worker not in self.engines:
            self.engines[worker] = FakeEngine()
            self.residency.join(worker, model=MODELS[worker])
        return self.engines[worker]

    def report(self, worker: WorkerId, event: Event) -> None:
        self.residency.apply(worker, event, model=MODELS[worker])

    @rule(
        worker=WORKERS,
        adapter=NAMES,
        salt=NAMES,
        letters=LETTERS,
        size=SIZES,
        extra=EXTRAS,
        tier=TIERS,
        variant=VARIANTS,
    )
    def store(
        self,
        worker: WorkerId,
        adapter: str | None,
        salt: str | None,
        letters: str,
        size: int,
        extra: bytes | None,
        tier: Tier,
        variant: int,
    ) -> None:
        before: Content = (adapter, salt, size, ())
        self._store(worker, None, before, blocks_of(letters, size, extra), tier, variant)

    @rule(worker=WORKERS, pick=PICKS, letters=LETTERS, size=SIZES, same=st.booleans(), tier=TIERS, variant=VARIANTS)
    def store_behind(
        self, worker: WorkerId, pick: int, letters: str, size: int, same: bool, tier: Tier, variant: int
    ) -> None:
        held = self._held(worker)
        if held:
            _, parent = held[pick % len(held)]
            before = self.engine(worker).contents[parent]
            blocks = blocks_of(letters, before[2] if same else size, None)
            self._store(worker, parent, before, blocks, tier, variant)

    def _store(
        self, worker: WorkerId, parent: int | None, before: Content, blocks: list[Block], tier: Tier, variant: int
    ) -> None:
        engine = self.engine(worker)
        hashes = engine.hashes(before, blocks, variant)
        engine.store(hashes, tier, copies=parent is not None)
        self.report(worker, event_of(hashes, parent, before, blocks, tier))

    def _held(self, worker: WorkerId) -> list[tuple[Tier, int]]:
        return sorted(self.engine(worker).copies, key=lambda one: (one[0].value, one[1]))

    @rule(worker=WORKERS, pick=PICKS)
    def store_copy(self, worker: WorkerId, pick: int) -> None:
        """The same block after the same one before it, in the same tier."""
        engine, held = self.engine(worker), self._held(worker)
        contents = {engine.contents[engine_hash]: engine_hash for _, engine_hash in held}
        reported = [(tier, h, (*engine.contents[h][:3], engine.contents[h][3][:-1])) for tier, h in held]
        reported = [one for one in reported if one[2] in contents]
        if reported:
            tier, engine_hash, before = reported[pick % len(reported)]
            engine.store([engine_hash], tier, copies=True)
            block = engine.contents[engine_hash][3][-1]
            self.report(worker, event_of([engine_hash], contents[before], before, [block], tier))

    @rule(worker=WORKERS, pick=PICKS, tier=st.sampled_from([Tier.CPU, Tier.DISK, Tier.SHARED]))
    def copy(self, worker: WorkerId, pick: int, tier: Tier) -> None:
        held = self._held(worker)
        if held:
            _, engine_hash = held[pick % len(held)]
            self.engine(worker).store([engine_hash], tier, copies=True)
            self.report(worker, by_hash([engine_hash], tier))

    @rule(worker=WORKERS, pick=PICKS, count=st.integers(1, 6))
    def remove(self, worker: WorkerId, pick: int, count: int) -> None:
        for i in range(count):
            held = self._held(worker)
            if held:
                tier, engine_hash = held[(pick + i * 7) % len(held)]
                self.engine(worker).remove(tier, engine_hash)
                self.report(worker, Removed([engine_hash], tier))

    @rule(worker=WORKERS, pick=PICKS)
    def move(self, worker: WorkerId, pick: int) -> None:
        """Removed first, then reported in CPU memory."""
        engine, held = self.engine(worker), self._held(worker)
        if held and engine.is_tiered:
            tier, engine_hash = held[pick % len(held)]
            engine.remove(tier, engine_hash)
            engine.store([engine_hash], Tier.CPU, copies=True)
            self.report(worker, Removed([engine_hash], tier))
            self.report(worker, by_hash([engine_hash], Tier.CPU))

    @rule(worker=WORKERS)
    def clear(self, worker: WorkerId) -> None:
        self.engine(worker).clear()
        self.report(worker, Cleared())

    @rule(worker=WORKERS)
    def drop(self, worker: WorkerId) -> None:
        self.engines.pop(worker, None)
        self.residency.drop(worker)

    @rule(model=st.sampled_from(["big", "small"]), worker=WORKERS, pick=PICKS, letters=LETTERS)
    def match_more_than_is_held(self, model: str, worker: WorkerId, pick: int, letters: str) -> None:
        held = self._held(worker)
        adapter, salt, size, blocks = self.engine(worker).contents[held[pick % len(held)][1]] if held else _NO_CONTENT
        whole = [block for block in blocks if len(block[0]) == size]
        self._agree(model, (adapter, salt, size, (*whole, *blocks_of(letters, size, None))))

    @rule(model=st.sampled_from(["big", "small"]), adapter=NAMES, salt=NAMES, letters=LETTERS, size=SIZES, extra=EXTRAS)
    def match(
        self, model: str, adapter: str | None, salt: str | None, letters: str, size: int, extra: bytes | None
    ) -> None:
        self._agree(model, (adapter, salt, size, tuple(blocks_of(letters, size, extra))))

    def _agree(self, model: str, content: Content) -> None:
        assert oracle(self.engines, model, content) == self.residency.match(prompt(model, content))

    @invariant()
    def keeps_its_invariants(self) -> None:
        self.residency._check()
        for worker, engine in self.engines.items():
            for tier in Tier:
                assert sum(one is tier for one, _ in engine.copies) == self.residency.held_in(worker, tier)
        assert (0, 0, 0) == (
            self.residency.waiting,
            self.residency.counts.unknown_removals,
            self.residency.counts.contradicted,
        )


_NO_CONTENT: Content = (None, None, 2, ())

TestResidencyAgainstEngines = ResidencyAgainstEngines.TestCase
TestResidencyAgainstEngines.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


class TestMatchInOneTier:
    def test_only_blocks_of_that_tier_count(self) -> None:
        """a holds the first two of three blocks in host memory as well, and b holds all on its GPU alone."""
        residency = index()
        residency.apply(A, stored([1, 2, 3], None, "abc"), model="big")
        residency.apply(A, by_hash([1, 2], Tier.CPU), model="big")
        residency.apply(B, stored([1, 2, 3], None, "abc"), model="big")

        assert {A: 2} == residency.match_in(prefix("abcd", model="big"), Tier.CPU)
        assert {A: 3, B: 3} == residency.match_in(prefix("abcd", model="big"), Tier.GPU)

    def test_a_missing_block_ends_the_match(self) -> None:
        """Blocks two and three are of no use without the first one."""
        residency = index()
        residency.apply(A, stored([1, 2, 3], None, "abc"), model="big")
        residency.apply(A, by_hash([2, 3], Tier.CPU), model="big")

        assert {} == residency.match_in(prefix("abc", model="big"), Tier.CPU)

    def test_a_match_goes_on_in_the_nodes_below(self) -> None:
        """Two sequences share two blocks, so the tree has three nodes; b holds one branch and a part of the other."""
        residency = index()
        for worker in (A, B):
            residency.apply(worker, stored([1, 2, 3, 4], None, "abcd"), model="big")
            residency.apply(worker, stored([5, 6], 2, "xy"), model="big")
        residency.apply(A, by_hash([1, 2, 3, 4], Tier.CPU), model="big")
        residency.apply(B, by_hash([1, 2, 5, 6, 3], Tier.CPU), model="big")

        assert {A: 4, B: 3} == residency.match_in(prefix("abcd", model="big"), Tier.CPU)
        assert {A: 2, B: 4} == residency.match_in(prefix("abxy", model="big"), Tier.CPU)

    def test_an_unknown_prompt_matches_nothing(self) -> None:
        assert {} == index().match_in(prefix("abc"), Tier.CPU)
