from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine_model.blocks import PLAIN, BlockHash, BlockPool, BlockScope, BothSinks
from engine_model.host_tier import HostTier


class Writes:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def stored(
        self,
        hashes: Sequence[BlockHash],
        parent: BlockHash | None,
        token_ids: Sequence[int],
        scope: BlockScope = PLAIN,
    ) -> None:
        self.heard.append(("stored", tuple(hashes), parent, tuple(token_ids), scope))

    def removed(self, hashes: Sequence[BlockHash]) -> None:
        self.heard.append(("removed", tuple(hashes)))

    def cleared(self) -> None:
        self.heard.append(("cleared",))


def cached(pool: BlockPool, hashes: Sequence[BlockHash]) -> None:
    """Compute, cache and release one sequence."""
    blocks = pool.take((), len(hashes))
    assert blocks is not None
    pool.store(blocks, hashes)
    pool.release(blocks)


def test_a_pool_needs_a_block() -> None:
    """A capacity or block size below 1 is refused."""
    with pytest.raises(ValueError, match="capacity and block_size must be at least 1, got 0 and 16"):
        BlockPool(0)


def test_a_hit_ends_at_the_first_missing_block() -> None:
    """Only leading consecutive blocks count."""
    pool = BlockPool(8)
    cached(pool, ["a", "b", "c"])

    assert 3 == len(pool.match(["a", "b", "c", "d"], 4))
    assert 2 == len(pool.match(["a", "b", "x", "c"], 4))
    assert 0 == len(pool.match(["x", "a"], 2))
    assert 1 == len(pool.match(["a", "b", "c"], 1))


def test_the_tail_is_evicted_before_the_head() -> None:
    pool = BlockPool(4)
    cached(pool, ["a", "b", "c"])
    pool.take((), 2)  # the one never used, then the tail

    assert 2 == len(pool.match(["a", "b", "c"], 3))


def test_the_sequence_released_first_is_evicted_first() -> None:
    """Between sequences, eviction is least recently released first."""
    pool = BlockPool(4)
    cached(pool, ["a", "b"])
    cached(pool, ["c", "d"])
    pool.take((), 2)

    assert (0, 2) == (len(pool.match(["a", "b"], 2)), len(pool.match(["c", "d"], 2)))


def test_a_hit_renews_a_block() -> None:
    """A hit takes the block out of the free list; released again, it is the youngest."""
    pool = BlockPool(4)
    cached(pool, ["a", "b"])
    cached(pool, ["c", "d"])
    again = pool.take(pool.match(["a", "b"], 2), 0)
    assert again is not None
    pool.release(again)
    pool.take((), 2)

    assert (2, 0) == (len(pool.match(["a", "b"], 2)), len(pool.match(["c", "d"], 2)))


def test_blocks_that_were_never_hashed_are_reused_first() -> None:
    """A partial block goes to the head of the free list, although it was released last."""
    pool = BlockPool(3)
    cached(pool, ["a", "b"])
    partial = pool.take((), 1)
    assert partial is not None
    pool.release(partial)

    assert partial == pool.take((), 1)
    assert 2 == len(pool.match(["a", "b"], 2))


def test_pinned_blocks_are_not_taken() -> None:
    """When what is free does not do, nothing is taken and nothing changes."""
    pool = BlockPool(4)
    cached(pool, ["a", "b"])
    held = pool.take((), 2)

    assert held is not None
    assert None is pool.take(pool.match(["a", "b"], 2), 1)
    assert (2, 0.5) == (pool.free, pool.usage)
    assert 2 == len(pool.match(["a", "b"], 2))


def test_a_shared_block_is_free_when_its_last_user_lets_go() -> None:
    """References are counted."""
    pool = BlockPool(2)
    cached(pool, ["a"])
    first = pool.take(pool.match(["a"], 1), 0)
    second = pool.take(pool.match(["a"], 1), 0)
    assert first is not None
    assert second is not None
    pool.release(first)

    assert 1 == pool.free
    pool.release(second)
    assert 2 == pool.free


def test_a_duplicate_outlives_its_twin() -> None:
    """Content computed twice is stored twice and removed twice, and found until the second copy goes."""
    sink = Writes()
    pool = BlockPool(2, sink=sink)
    one, two = pool.take((), 1), pool.take((), 1)
    assert one is not None
    assert two is not None
    pool.store(one, ["a"], token_ids=[7])
    pool.store(two, ["a"], token_ids=[7])
    pool.release(one)
    pool.release(two)
    pool.take((), 1)

    assert two == pool.match(["a"], 1)
    pool.take((), 1)
    assert [] == pool.match(["a"], 1)
    stored = ("stored", ("a",), None, (7,), PLAIN)
    assert [stored, stored, ("removed", ("a",)), ("removed", ("a",))] == sink.heard


def test_clear_forgets_prefixes_and_keeps_pins() -> None:
    """After a clear nothing is found, what is held stays held, and the sink heard of it."""
    sink = Writes()
    pool = BlockPool(3, sink=sink)
    cached(pool, ["a", "b"])
    held = pool.take(pool.match(["a"], 1), 0)
    assert held is not None
    pool.clear()

    assert [] == pool.match(["a", "b"], 2)
    assert 2 == pool.free
    assert ("cleared",) == sink.heard[-1]
    pool.release(held)
    assert 3 == pool.free


def test_a_pool_without_a_host_tier_loads_nothing() -> None:
    """Offloading and loading have no effect, and take no time."""
    pool = BlockPool(3)
    cached(pool, ["a"])
    pool.offload(["a"])

    assert () == pool.loadable(["a", "b"], 0, 2)
    assert 7.0 == pool.begin_load(["a", "b"], (), 7.0)


def test_a_host_tier_holds_what_the_pool_evicts() -> None:
    """What follows the blocks on the GPU without a gap can be loaded, at 200,000 tokens per second."""
    pool = BlockPool(2, host=HostTier(3))
    cached(pool, ["a", "ab"])
    pool.offload(["a", "ab"])
    pool.take((), 1)

    assert ["ab"] == pool.loadable(["a", "ab", "abc"], 1, 3)
    assert [] == pool.loadable(["x", "ab"], 0, 2)
    assert () == pool.loadable(["a", "ab"], 2, 2)
    assert 1.0 + 16 / 200_000 == pool.begin_load(["a", "ab", "abc"], ["ab"], 1.0)

    pool.end_load(["ab"])
    pool.clear()

    assert [] == pool.loadable(["a", "ab"], 0, 2)


def test_two_sinks_hear_the_same() -> None:
    """Whatever happens, with what blocks have in common beside their tokens."""
    one, two = Writes(), Writes()
    pool = BlockPool(1, sink=BothSinks(one, two))
    held = pool.take((), 1)
    assert held is not None
    pool.store(held, ["a"], parent="b", token_ids=[7], scope=BlockScope("an adapter", "a salt"))
    pool.release(held)
    pool.take((), 1)
    pool.clear()

    stored = ("stored", ("a",), "b", (7,), BlockScope("an adapter", "a salt"))
    assert [stored, ("removed", ("a",)), ("cleared",)] == one.heard == two.heard


CHAINS = st.sampled_from(["", "a", "ab", "abc", "abcd", "ax", "axy", "k", "kl", "klm", "klmn"])


class PoolAgainstOracle(RuleBasedStateMachine):
    """The pool beside the plainest model: one list of free blocks, looked through from the front each time."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = Writes()
        self.pool = BlockPool(7, sink=self.sink)
        self.free = list(range(7))
        self.hash_of: dict[int, str] = {}
        self.order_stored: list[int] = []
        self.held: list[list[int]] = []

    def expected_match(self, hashes: Sequence[str]) -> list[int]:
        hits = []
        for block_hash in hashes:
            copies = [block for block in self.order_stored if self.hash_of[block] == block_hash]
            if not copies:
                break
            hits.append(copies[0])
        return hits

    @rule(chain=CHAINS, unhashed=st.integers(0, 3), caches=st.booleans())
    def admit(self, chain: str, unhashed: int, caches: bool) -> None:
        hashes = [chain[: end + 1] for end in range(len(chain))]
        hits = self.expected_match(hashes)
        assert hits == self.pool.match(hashes, len(hashes))
        fresh = len(hashes) - len(hits) + unhashed
        blocks = self.pool.take(hits, fresh)
        left = [block for block in self.free if block not in hits]
        if fresh > len(left):
            assert blocks is None
            return
        assert blocks == hits + left[:fresh]
        self.free = left[fresh:]
        for block in left[:fresh]:
            self.forget(block)
        if caches:
            new = blocks[len(hits) : len(hashes)]
            self.pool.store(new, hashes[len(hits) :], parent=hashes[len(hits) - 1] if hits else None)
            self.hash_of.update(zip(new, hashes[len(hits) :], strict=True))
            self.order_stored.extend(new)
        self.held.append(blocks)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        blocks = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.release(blocks)
        still_held = {block for other in self.held for block in other}
        for block in reversed(blocks):
            if block in still_held:
                continue
            if block in self.hash_of:
                self.free.append(block)
            else:
                self.free.insert(0, block)

    @rule()
    def clear(self) -> None:
        self.pool.clear()
        self.hash_of.clear()
        self.order_stored.clear()

    def forget(self, block: int) -> None:
        if block in self.hash_of:
            del self.hash_of[block]
            self.order_stored.remove(block)

    @invariant()
    def free_blocks_agree(self) -> None:
        assert len(self.free) == self.pool.free

    @invariant()
    def the_events_tell_what_is_cached(self) -> None:
        reported: Counter[object] = Counter()
        for event, *rest in self.sink.heard:
            if event == "cleared":
                reported.clear()
                continue
            hashes = rest[0]
            assert isinstance(hashes, tuple)
            reported.update(hashes) if event == "stored" else reported.subtract(hashes)
        assert Counter(self.hash_of.values()) == +reported


PoolAgainstOracle.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPoolAgainstOracle = PoolAgainstOracle.TestCase
