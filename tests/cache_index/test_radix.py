"""Literal facts, and random operations compared with two oracles: a plain LRU per worker, and `pygtrie`."""

from collections.abc import Iterable

import pygtrie
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cache_index import Hasher, Prefix, RadixTree, WorkerId

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
HASHER = Hasher(bytes(32), block_bytes=8)


def prefix(letters: str) -> Prefix:
    """A prefix with one block per letter."""
    return HASHER.prefix("".join(letter * 8 for letter in letters).encode())


def tree(capacity: int = 100, max_bytes: int = 1_000_000) -> RadixTree:
    return RadixTree(max_bytes=max_bytes, default_capacity=capacity)


def test_an_empty_tree_matches_nothing() -> None:
    """No worker holds any block."""
    assert {} == tree().match(prefix("abc"))


def test_an_empty_prefix_matches_nothing() -> None:
    """A prompt shorter than a block has no hit, and recording it is harmless."""
    index = tree()
    index.record(A, prefix("abc"))

    assert 0 == index.record(A, prefix(""))
    assert {} == index.match(prefix(""))


def test_each_worker_is_matched_as_far_as_it_holds_the_prefix() -> None:
    """a has the first two blocks, b all four, c another prompt."""
    index = tree()
    index.record(A, prefix("wxQ"))
    index.record(B, prefix("wxyz"))
    index.record(C, prefix("Zz"))

    assert {A: 2, B: 4} == index.match(prefix("wxyz"))


def test_a_longer_prompt_hits_what_is_held() -> None:
    """A second turn hits the first."""
    index = tree()
    index.record(A, prefix("abc"))

    assert {A: 3} == index.match(prefix("abcdef"))


def test_a_shorter_prompt_hits_inside_a_run() -> None:
    """A run need not end where the prompt ends."""
    index = tree()
    index.record(A, prefix("abcdef"))

    assert {A: 2} == index.match(prefix("ab"))


def test_record_reports_how_many_blocks_were_missing() -> None:
    """Blocks that are there already are not counted again."""
    index = tree()

    assert 3 == index.record(A, prefix("abc"))
    assert 2 == index.record(A, prefix("abcde"))
    assert 0 == index.record(A, prefix("abc"))
    assert 5 == index.held(A)


def test_a_worker_never_seen_holds_nothing() -> None:
    """Unknown workers are not errors."""
    index = tree()
    index.drop(A)
    index.trim(A, prefix("a"), 0)

    assert 0 == index.held(A)
    assert [] == index.tree_of(A)


def test_the_tail_of_the_least_recently_used_prompt_is_evicted_first() -> None:
    """With room for five blocks, `xyz` costs the older prompt its last block, then the one before."""
    index = tree(capacity=5)
    index.record(A, prefix("abc"))
    index.record(A, prefix("xyz"))

    assert {A: 2} == index.match(prefix("abc"))
    assert {A: 3} == index.match(prefix("xyz"))

    index.record(A, prefix("xyzw"))

    assert {A: 1} == index.match(prefix("abc"))


def test_a_use_of_the_head_keeps_the_head_and_not_the_tail() -> None:
    """`ab` was used after `xyz`, its former continuation `cd` was not."""
    index = tree(capacity=7)
    index.record(A, prefix("abcd"))
    index.record(A, prefix("xyz"))
    index.record(A, prefix("ab"))
    index.record(A, prefix("pq"))

    assert {A: 2} == index.match(prefix("abcd"))
    assert {A: 3} == index.match(prefix("xyz"))


def test_eviction_concerns_one_worker_only() -> None:
    """b keeps what a lost."""
    index = tree(capacity=3)
    index.record(A, prefix("abc"))
    index.record(B, prefix("abc"))
    index.record(A, prefix("xyz"))

    assert {B: 3} == index.match(prefix("abc"))


def test_blocks_of_generated_text_take_room_and_match_nothing() -> None:
    """Two output blocks leave room for three of the prompt; they go before it."""
    index = tree(capacity=5)
    index.record(A, prefix("abc"), output_blocks=2)

    assert 5 == index.held(A)

    index.record(A, prefix("x"))

    assert 5 == index.held(A)
    assert {A: 3} == index.match(prefix("abc"))


def test_a_prompt_larger_than_the_cache_leaves_its_head() -> None:
    """The tail is evicted before the head."""
    index = tree(capacity=2)
    index.record(A, prefix("abcd"))

    assert {A: 2} == index.match(prefix("abcd"))


def test_resize_evicts_what_exceeds_the_real_capacity() -> None:
    """A worker's metrics report its size after the first requests."""
    index = tree()
    index.record(A, prefix("abcdef"))
    index.resize(A, 4)

    assert 4 == index.held(A)
    assert {A: 4} == index.match(prefix("abcdef"))


def test_trim_takes_back_the_blocks_of_a_failed_request() -> None:
    """Two of five blocks were there before."""
    index = tree()
    index.record(A, prefix("ab"))
    index.record(A, prefix("abcde"))
    index.trim(A, prefix("abcde"), 2)

    assert {A: 2} == index.match(prefix("abcde"))


def test_trim_keeps_what_another_prompt_extends() -> None:
    """A worker that holds a block holds all before it."""
    index = tree()
    index.record(A, prefix("abcde"))
    index.record(A, prefix("abX"))
    index.trim(A, prefix("abcde"), 0)

    assert {A: 2} == index.match(prefix("abcde"))
    assert {A: 3} == index.match(prefix("abX"))


def test_trim_of_what_is_gone_already_changes_nothing() -> None:
    """The tail was evicted while the request failed."""
    index = tree()
    index.record(A, prefix("abc"))
    index.trim(A, prefix("abcXY"), 3)

    assert {A: 3} == index.match(prefix("abcXY"))


def test_trim_leaves_a_run_that_the_prompt_is_only_part_of() -> None:
    """It was recorded for another prompt."""
    index = tree()
    index.record(A, prefix("abcd"))
    index.trim(A, prefix("abX"), 0)

    assert {A: 4} == index.match(prefix("abcd"))


def test_trim_leaves_other_workers_alone() -> None:
    """The request failed on a only."""
    index = tree()
    index.record(A, prefix("abc"))
    index.record(B, prefix("abc"))
    index.trim(A, prefix("abc"), 1)
    index.trim(C, prefix("abc"), 0)

    assert {A: 1, B: 3} == index.match(prefix("abc"))


def test_a_dropped_worker_is_forgotten_and_its_slot_used_again() -> None:
    """A restarted engine has an empty cache."""
    index = tree()
    index.record(A, prefix("abc"))
    index.record(B, prefix("abcd"))
    index.drop(A)
    index.record(C, prefix("ab"))

    assert {B: 4, C: 2} == index.match(prefix("abcd"))
    assert 0 == index.held(A)


def test_an_index_with_no_holders_takes_no_bytes() -> None:
    """All blocks that were added are removed again."""
    index = tree(capacity=4)
    for letters in ("abcd", "abxy", "ab", "q"):
        index.record(A, prefix(letters), output_blocks=1)
        index.record(B, prefix(letters[::-1]))
    index.drop(A)
    index.drop(B)

    assert 0 == index.size_bytes


def test_the_byte_budget_evicts_the_least_recently_used_run_of_any_worker() -> None:
    """Two single-block prompts fit; the third costs the oldest, though it is another worker's."""
    index = tree(max_bytes=1600)
    index.record(A, prefix("a"))
    index.record(B, prefix("b"))
    index.record(B, prefix("c"))

    assert {} == index.match(prefix("a"))
    assert {B: 1} == index.match(prefix("b"))
    assert {B: 1} == index.match(prefix("c"))


def test_a_budget_too_small_for_one_run_leaves_nothing() -> None:
    """The budget is hard."""
    index = tree(max_bytes=10)
    index.record(A, prefix("abc"))

    assert 0 == index.size_bytes
    assert {} == index.match(prefix("abc"))


def test_what_was_not_used_since_a_use_can_be_evicted() -> None:
    """Blocks that a later prompt shares stay with it; other workers' uses count as well."""
    index = tree()
    index.record(A, prefix("abcd"))
    index.record(B, prefix("xy"))
    old = index.uses
    index.record(A, prefix("ab"))
    assert index.evict_unused_since(old, max_runs=10)

    assert {A: 2} == index.match(prefix("abcd"))
    assert {} == index.match(prefix("xy"))
    assert (2, 0) == (index.held(A), index.held(B))
    index._check()


def test_nothing_is_evicted_of_what_is_used_later() -> None:
    """Uses are counted from 1."""
    index = tree()
    index.record(A, prefix("abcd"))
    assert index.evict_unused_since(0, max_runs=10)

    assert {A: 4} == index.match(prefix("abcd"))


def test_eviction_of_unused_blocks_can_be_divided() -> None:
    """Each call removes as many runs as it may, and says whether any are left."""
    index = tree()
    for letters in ("ab", "cd", "ef"):
        index.record(A, prefix(letters))
    old = index.uses
    index.record(B, prefix("ab"))

    assert not index.evict_unused_since(old, max_runs=2)
    assert (2, 2) == (index.held(A), index.held(B))
    assert index.evict_unused_since(old, max_runs=2)
    assert (0, 2) == (index.held(A), index.held(B))
    index._check()


def test_unused_blocks_do_not_match_before_they_are_evicted() -> None:
    """The blocks that a worker used since then match, as many as there are."""
    index = tree()
    index.record(A, prefix("abcd"))
    index.record(B, prefix("abcd"))
    index.record(A, prefix("xy"))
    old = index.uses
    index.record(A, prefix("ab"))

    assert {A: 4, B: 4} == index.match(prefix("abcde"))
    assert {A: 2} == index.match(prefix("abcde"), since=old)
    assert {} == index.match(prefix("xy"), since=old)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.text("ab", min_size=1, max_size=5)), max_size=20), st.data())
def test_a_match_since_a_use_is_that_of_a_tree_without_older_blocks(
    uses: list[tuple[WorkerId, str]], data: st.DataObject
) -> None:
    """Filtering is equal to evicting, for any history and any prompt."""
    index = tree()
    for worker, letters in uses:
        index.record(worker, prefix(letters))
    since = data.draw(st.integers(0, len(uses)))
    asked = prefix(data.draw(st.text("ab", min_size=1, max_size=6)))
    filtered = index.match(asked, since=since)
    index.evict_unused_since(since, max_runs=1_000)

    assert index.match(asked) == filtered


def test_the_tree_of_a_worker_lists_its_runs_with_parents_first() -> None:
    """Each worker has a radix tree of its own, stored together with the others."""
    index = tree()
    index.record(A, prefix("abcd"))
    index.record(A, prefix("abxy"))
    index.record(B, prefix("abq"))

    runs = index.tree_of(A)

    assert [(0, 2), (2, 2), (2, 2)] == [(run.depth, run.blocks) for run in runs]
    assert prefix("ab").hashes[-8:] == runs[0].last
    assert {prefix("abcd").hashes[-8:], prefix("abxy").hashes[-8:]} == {run.last for run in runs[1:]}


def test_room_is_what_fits_before_anything_is_evicted() -> None:
    """All of it where nothing was sent yet."""
    index = tree(capacity=5)
    assert 5 == index.room(A)
    index.record(A, prefix("abc"))

    assert 2 == index.room(A)
    index.record(A, prefix("xyz"))
    assert 0 == index.room(A)


def test_the_oldest_of_a_worker_without_any_is_of_no_use() -> None:
    """An empty prompt is never looked up."""
    index = tree()
    index.record(A, prefix("abc"))
    index.resize(A, 0)

    assert (0.0, 0.0) == (index.oldest_chance(A), index.oldest_chance(B))


def test_what_is_always_asked_for_again_will_be() -> None:
    """All workers contribute: b holds another prompt, as old as the one that a uses again every third time."""
    index = tree()
    for _ in range(30):
        index.record(A, prefix("abc"))
        index.record(B, prefix("x"))
        index.record(C, prefix("pq"))

    assert [1.0, 1.0, 1.0] == [index.oldest_chance(worker) for worker in (A, B, C)]


def test_what_goes_unasked_is_worth_nothing() -> None:
    """A cache of two blocks, and prompts that are not used again."""
    index = tree(capacity=2)
    for number in range(70):
        index.record(A, HASHER.prefix(f"{number:08}{number:08}".encode()))

    assert 0.0 == index.oldest_chance(A)


def test_half_of_what_lies_is_asked_for_again() -> None:
    """One of two new blocks is used again three uses later, and then both are evicted unused."""
    index = tree(capacity=6)
    for number in range(40):
        one, other = f"{number:08}".encode(), f"x{number:07}".encode()
        index.record(A, HASHER.prefix(one))
        index.record(A, HASHER.prefix(other))
        index.record(B, prefix(""))
        index.record(A, HASHER.prefix(one))
    chance = index.oldest_chance(A)

    assert 0.0 == chance  # six blocks later nothing is asked for any more
    index.resize(A, 1)
    assert 0.2 < index.oldest_chance(A) < 0.6  # but of what was used just now some is


def test_the_oldest_use_is_that_of_the_block_that_is_evicted_next() -> None:
    """a used "abc" first and "xyz" then, and uses "abc" again."""
    index = tree()
    index.record(A, prefix("abc"))
    index.record(A, prefix("xyz"))
    before = index.oldest_use(A)
    index.record(A, prefix("abc"))

    assert (1, 2, 3) == (before, index.oldest_use(A), index.uses)
    assert None is index.oldest_use(B)


def test_the_age_at_reuse_is_counted_in_uses() -> None:
    """ "abc" is used again two uses later."""
    index = tree()
    for letters in ("abc", "xyz", "abc"):
        index.record(A, prefix(letters))

    assert 2 == index.reuse.age_of(0.5)
    assert None is tree().reuse.age_of(0.5)


def test_the_end_of_an_answer_is_no_question() -> None:
    """An engine uses the blocks until then; that says nothing of who comes back for them."""
    index = tree()
    for _ in range(70):
        index.record(A, prefix("abc"), output_blocks=0)

    assert 0.0 == index.oldest_chance(A)


class LruOracle:
    """Blocks of one worker in plain dicts: evicts the longest unused, deepest first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used: dict[str, tuple[int, int]] = {}

    def record(self, letters: str, output_blocks: int, use: int) -> None:
        for i in range(output_blocks):
            self.used[f"output {use} {i}"] = (use, -1000)
        for end in range(1, len(letters) + 1):
            self.used[letters[:end]] = (use, -end)
        self.evict()

    def evict(self) -> None:
        while len(self.used) > self.capacity:
            del self.used[min(self.used, key=lambda block: self.used[block])]

    def match(self, letters: str) -> int:
        return next((end for end in range(len(letters)) if letters[: end + 1] not in self.used), len(letters))


WORKERS = st.sampled_from([A, B, C])
LETTERS = st.text("abc", min_size=0, max_size=7)


class TreeAgainstOracle(RuleBasedStateMachine):
    """After every step the tree keeps its invariants and matches as the oracle does."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = tree(capacity=12)
        self.oracles: dict[WorkerId, LruOracle] = {}
        self.uses = 0

    @rule(worker=WORKERS, letters=LETTERS, output_blocks=st.integers(0, 3))
    def record(self, worker: WorkerId, letters: str, output_blocks: int) -> None:
        self.uses += 1
        self.tree.record(worker, prefix(letters), output_blocks=output_blocks)
        self.oracles.setdefault(worker, LruOracle(12)).record(letters, output_blocks, self.uses)

    @rule(worker=WORKERS, capacity=st.integers(0, 20))
    def resize(self, worker: WorkerId, capacity: int) -> None:
        self.tree.resize(worker, capacity)
        oracle = self.oracles.setdefault(worker, LruOracle(12))
        oracle.capacity = capacity
        oracle.evict()

    @rule(worker=WORKERS)
    def drop(self, worker: WorkerId) -> None:
        self.tree.drop(worker)
        self.oracles.pop(worker, None)

    @rule(letters=LETTERS)
    def match(self, letters: str) -> None:
        expected = {worker: oracle.match(letters) for worker, oracle in self.oracles.items()}

        assert {worker: hit for worker, hit in expected.items() if hit} == self.tree.match(prefix(letters))

    @invariant()
    def keeps_its_invariants(self) -> None:
        self.tree._check()
        assert {w: len(o.used) for w, o in self.oracles.items()} == {w: self.tree.held(w) for w in self.oracles}


TestTreeAgainstOracle = TreeAgainstOracle.TestCase
TestTreeAgainstOracle.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(WORKERS, LETTERS), max_size=30), LETTERS)
@settings(deadline=None)
def test_an_unbounded_tree_matches_as_pygtrie_does(records: list[tuple[WorkerId, str]], asked: str) -> None:
    """One trie per worker, its longest stored prefix extended as far as a stored key goes."""
    index = tree(capacity=10_000)
    tries: dict[WorkerId, pygtrie.CharTrie] = {}
    for worker, letters in records:
        index.record(worker, prefix(letters))
        trie = tries.setdefault(worker, pygtrie.CharTrie())
        for end in range(1, len(letters) + 1):
            trie[letters[:end]] = end
    expected = {worker: trie.longest_prefix(asked).get(0) for worker, trie in tries.items()}

    assert {worker: hit for worker, hit in expected.items() if hit} == index.match(prefix(asked))


@pytest.mark.parametrize("budget", [500, 3000, 9000])
def test_the_budget_holds_after_every_record(budget: int) -> None:
    """Prompts of one family, over three workers, with trims between."""
    index = tree(max_bytes=budget)
    for i, letters in enumerate(_family()):
        index.record((A, B, C)[i % 3], prefix(letters))
        index.trim((A, B, C)[i % 2], prefix(letters), i % 4)
        index._check()

        assert index.size_bytes <= budget


def _family() -> Iterable[str]:
    return ("ab" * (i % 5) + "cdef"[i % 4 :] + "xyz"[: i % 3] for i in range(60))
