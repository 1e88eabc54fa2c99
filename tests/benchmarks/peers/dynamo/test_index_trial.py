import json
from array import array
from collections.abc import Sequence
from mmap import PAGESIZE, mmap
from typing import Any

import pytest

from benchmarks.peers.dynamo.caches import BLOCK_TOKENS, TOKEN_BYTES, Announcement
from benchmarks.peers.dynamo.index_trial import SAMPLES, chunks, measure, resident_bytes

BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES


class Exact:
    """An index that names a block by a chain of the tokens up to it, for each worker."""

    def __init__(self) -> None:
        self.chains: dict[tuple[int, int], int] = {}
        self.holders: dict[int, set[int]] = {}

    def stored(self, step: Sequence[Announcement]) -> list[bytes]:
        reported = [(each.parent, each.hashes, each.tokens.hex()) for each in step]
        return [json.dumps({"stored": reported}).encode()]

    def removed(self, hashes: Sequence[int], *, one_by_one: bool) -> list[bytes]:
        reported = [[value] for value in hashes] if one_by_one else [list(hashes)]
        return [json.dumps({"removed": each}).encode() for each in reported]

    def apply(self, worker: int, message: bytes) -> None:
        event = json.loads(message)
        for parent, hashes, tokens in event.get("stored", ()):
            before = 0 if parent is None else self.chains[worker, parent]
            for value, chain in zip(hashes, chained(before, bytes.fromhex(tokens)), strict=True):
                self.chains[worker, value] = chain
                self.holders.setdefault(chain, set()).add(worker)
        for value in event.get("removed", ()):
            self.remove(worker, value)

    def remove(self, worker: int, value: int) -> None:
        self.holders[self.chains.pop((worker, value))].discard(worker)

    def prefix(self, token_ids: list[int]) -> Any:
        return chained(0, array("I", token_ids).tobytes())

    def match(self, prefix: Any) -> Any:
        racing = set(self.holders.get(prefix[0], ()))
        held: dict[int, int] = {}
        for depth, chain in enumerate(prefix, start=1):
            racing &= self.holders.get(chain, set())
            held |= dict.fromkeys(racing, depth)
        return held

    def hits(self, matched: Any) -> dict[int, int]:
        return dict(matched)


def chained(before: int, tokens: bytes) -> list[int]:
    chains = []
    for block in range(0, len(tokens), BLOCK_BYTES):
        before = hash((before, tokens[block : block + BLOCK_BYTES]))
        chains.append(before)
    return chains


class KeepsEverything(Exact):
    def remove(self, worker: int, value: int) -> None:
        """Nothing is removed."""


class HalvesHits(Exact):
    def hits(self, matched: Any) -> dict[int, int]:
        return {worker: blocks // 2 for worker, blocks in matched.items()}


def test_an_exact_index_is_never_wrong_and_everything_is_timed() -> None:
    """All works are done, and memory is read on the way."""
    index = Exact()
    found = measure(index, seed=1, workers=2, systems=2, blocks=4_000)

    assert 0 == found.wrong
    assert 4_000 <= found.stored.blocks < 4_272
    assert 200 == found.stored_singly.blocks
    assert found.removed.blocks > 0
    assert found.removed_singly.blocks == found.removed_singly.messages
    assert found.removed.messages < found.removed.blocks
    left = 4_200 - found.removed.blocks - found.removed_singly.blocks
    assert left <= len(index.chains) < left + 272
    assert 1 <= len(found.bytes_per_block) <= SAMPLES
    assert min(found.stored.wall_s, found.stored_singly.wall_s, found.removed.wall_s) > 0
    assert {"whole", "system", "new"} == set(found.match_us) == set(found.hash_and_match_us)


def test_without_system_prompts_no_one_asks_for_them() -> None:
    """The other kinds stay."""
    found = measure(Exact(), seed=1, workers=2, systems=0, blocks=3_000)

    assert {"whole", "new"} == set(found.match_us)


@pytest.mark.parametrize("index", [KeepsEverything(), HalvesHits()], ids=lambda index: type(index).__name__)
def test_an_index_that_answers_otherwise_is_found_out(index: Exact) -> None:
    """Speed for wrong answers is not one."""
    assert 0 < measure(index, seed=1, workers=2, systems=2, blocks=4_000).wrong


def test_memory_is_that_of_this_process() -> None:
    """It grows with what is mapped and written to (an allocation may be served from memory freed before)."""
    with mmap(-1, 50_000_000) as kept:
        before = resident_bytes()
        for page in range(0, 50_000_000, PAGESIZE):
            kept[page] = 1

        assert 40_000_000 < resident_bytes() - before


def test_chunks_lose_nothing() -> None:
    """The last is as long as it has to be."""
    assert [[0, 1, 2], [3, 4, 5], [6]] == list(chunks(range(7), 3))
