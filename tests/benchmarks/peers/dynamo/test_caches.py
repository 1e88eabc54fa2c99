import itertools
from array import array
from collections.abc import Iterable

import pytest

from benchmarks.peers.dynamo.caches import BLOCK_TOKENS, TOKEN_BYTES, Announcement, Caches, Prompt, Run

BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES


class Engines:
    """The same caches written down in full: for each worker, every sequence of tokens that it holds."""

    def __init__(self) -> None:
        self.sequences: dict[tuple[int, int], bytes] = {}

    def hear(self, announcements: Iterable[Announcement]) -> None:
        for reported in announcements:
            before = b"" if reported.parent is None else self.sequences[reported.worker, reported.parent]
            for place, value in enumerate(reported.hashes, start=1):
                self.sequences[reported.worker, value] = before + reported.tokens[: place * BLOCK_BYTES]

    def forget(self, reported: Announcement) -> None:
        for value in reported.hashes:
            del self.sequences[reported.worker, value]

    def held(self, prompt: Prompt) -> dict[int, int]:
        """Leading blocks of *prompt* by worker, found by comparing tokens."""
        tokens = array("I", prompt.token_ids).tobytes()
        held: dict[int, int] = {}
        for (worker, _), sequence in self.sequences.items():
            if tokens.startswith(sequence):
                held[worker] = max(held.get(worker, 0), len(sequence) // BLOCK_BYTES)
        return held


def test_the_same_seed_fills_the_same_caches() -> None:
    """Every router gets the same, and another seed is another run."""
    first, again, other = (list(Caches(seed, workers=4, systems=2).fill(2_000)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert [reported.tokens for reported in first] == [reported.tokens for reported in again]


def test_an_announcement_is_as_long_as_the_benchmark_says() -> None:
    """16 to 272 blocks of 16 tokens below 2^17, and as many hashes as blocks."""
    reported = list(Caches(1, workers=8, systems=4).fill(20_000))

    assert 16 <= min(each.blocks for each in reported)
    assert 272 >= max(each.blocks for each in reported)
    assert 200 < max(each.blocks for each in reported)
    assert all(len(each.hashes) == each.blocks == len(each.tokens) // BLOCK_BYTES for each in reported)
    assert 2**17 > max(max(array("I", each.tokens)) for each in reported)
    assert 2**16 < max(array("I", reported[0].tokens))


def test_caches_are_filled_as_far_as_asked() -> None:
    """To within one announcement."""
    filled = sum(reported.blocks for reported in Caches(1, workers=4, systems=2).fill(5_000))

    assert 5_000 <= filled < 5_000 + 272


def test_equal_content_has_equal_hashes_on_all_workers() -> None:
    engines = Engines()
    engines.hear(Caches(3, workers=6, systems=2).fill(6_000))
    by_hash: dict[int, set[bytes]] = {}
    for (_, value), sequence in engines.sequences.items():
        by_hash.setdefault(value, set()).add(sequence)

    assert {1} == {len(sequences) for sequences in by_hash.values()}
    assert len(by_hash) == len(set(engines.sequences.values()))
    assert len(by_hash) < len(engines.sequences)


def test_without_system_prompts_no_block_is_on_two_workers() -> None:
    reported = list(Caches(3, workers=6, systems=0).fill(6_000))
    hashes = [value for each in reported for value in each.hashes]

    assert len(hashes) == len(set(hashes))


@pytest.mark.parametrize("kind", ["turn", "system", "new", "whole"])
def test_what_is_held_of_a_prompt_is_what_was_notified_of_it(kind: str) -> None:
    """Token by token, for every worker."""
    caches, engines = Caches(5, workers=6, systems=2), Engines()
    engines.hear(caches.fill(8_000))
    prompts = [caches.ask(kind, 272) for _ in range(10)]

    assert [272 * BLOCK_TOKENS] * 10 == [len(prompt.token_ids) for prompt in prompts]
    assert [engines.held(prompt) for prompt in prompts] == [prompt.held for prompt in prompts]


def test_each_kind_of_prompt_is_held_as_its_name_says() -> None:
    """A turn to 15/16, a whole one wholly, a system prompt by several workers, a new one by no one."""
    caches = Caches(5, workers=6, systems=2)
    list(caches.fill(8_000))
    turn, system, new, whole = (caches.ask(kind, 272).held for kind in ("turn", "system", "new", "whole"))

    assert 255 == max(turn.values())
    assert {64} == set(system.values())
    assert 1 < len(system)
    assert {} == new
    assert 272 == max(whole.values())


def test_a_prompt_that_no_one_can_go_on_from_is_refused() -> None:
    """Rather than one that is held less than its kind says."""
    caches = Caches(5, workers=6, systems=0)
    list(caches.fill(100))

    with pytest.raises(ValueError, match="no conversation has 5000 blocks"):
        caches.ask("whole", 5_000)
    with pytest.raises(ValueError, match="no system prompts"):
        caches.ask("system", 100)
    with pytest.raises(ValueError, match="nothing was taken back"):
        caches.ask("gone", 100)


def test_what_is_taken_back_is_held_no_longer() -> None:
    """Newest first, as nothing is evicted before what goes on from it."""
    caches, engines = Caches(7, workers=3, systems=1), Engines()
    reported = list(caches.fill(4_000))
    engines.hear(reported)
    asked = [caches.ask("whole", 200) for _ in range(20)]
    for each in reversed(reported[len(reported) // 2 :]):
        engines.forget(each)
        caches.take_back(each)
    known = [caches.ask("whole", 200) for _ in range(20)]

    assert [engines.held(prompt) for prompt in known] == [prompt.held for prompt in known]
    assert any(engines.held(prompt) != prompt.held for prompt in asked)
    gone = [caches.ask("gone", 200) for _ in range(20)]
    assert [engines.held(prompt) for prompt in gone] == [prompt.held for prompt in gone]
    assert all(len(prompt.token_ids) > max(prompt.held.values(), default=0) * BLOCK_TOKENS for prompt in gone)


def test_answers_grow_by_single_blocks_of_a_worker_at_a_time() -> None:
    """Each goes on from something that the worker holds."""
    caches, engines = Caches(7, workers=2, systems=1), Engines()
    engines.hear(caches.fill(6_000))
    steps = list(caches.generate(40, at_once=4))

    assert [4] * 10 == [len(step) for step in steps]
    assert [1] * 10 == [len({reported.worker for reported in step}) for step in steps]
    assert {1} == {reported.blocks for reported in itertools.chain(*steps)}
    engines.hear(itertools.chain(*steps))  # a parent that is not held would be a KeyError


def test_caches_can_be_given_long_conversations() -> None:
    caches, engines = Caches(7, workers=2, systems=1), Engines()
    engines.hear(caches.lengthen(3, 1_024))

    assert 3 == len(caches.conversations)
    assert 1_024 <= min(sum(run.blocks for run in runs) for _, runs in caches.conversations)
    assert 960 == max(caches.ask("turn", 1_024).held.values())


def test_a_run_cut_short_has_the_first_of_its_tokens() -> None:
    """A prompt may end within what a worker computed."""
    assert Run(9, 5).tokens[: 3 * BLOCK_BYTES] == Run(9, 3).tokens
    assert Run(9, 5).hashes[:3] == Run(9, 3).hashes
