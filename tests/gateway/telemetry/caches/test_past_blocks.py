"""Blocks that a worker computes again; one block per letter."""

import random

from cache_index import Hasher, WorkerId
from gateway.telemetry.caches.past_blocks import PastBlocks
from tests.routing.examples import A, B, prompt

TEXT = "abcdefghijklmnopqrstuvwxyz"


def test_only_what_the_same_worker_has_computed_is_known() -> None:
    """26 blocks; every eighth one is remembered."""
    past = PastBlocks()

    assert [0, 24, 0] == [past.learn(worker, prompt(TEXT).hashes) for worker in (A, A, B)]


def test_a_continuation_is_known_up_to_where_it_continues() -> None:
    past = PastBlocks()
    past.learn(A, prompt(TEXT[:16]).hashes)

    assert 16 == past.learn(A, prompt(TEXT).hashes)
    assert 24 == past.learn(A, prompt(TEXT).hashes)


def test_a_long_continuation_is_known_up_to_where_it_continues() -> None:
    """More blocks than are looked up one by one."""
    past, hashes = PastBlocks(), Hasher(bytes(32), block_bytes=8).prefix(random.Random(0).randbytes(8 * 800)).hashes
    past.learn(A, hashes[: 8 * 480])

    assert [480, 800] == [past.learn(A, hashes) for _ in range(2)]


def test_another_beginning_is_unknown() -> None:
    """A hash covers all blocks before it."""
    past = PastBlocks()
    past.learn(A, prompt(TEXT).hashes)

    assert 0 == past.learn(A, prompt("Z" + TEXT[1:]).hashes)


def test_prompts_of_fewer_than_eight_blocks_are_not_remembered() -> None:
    past = PastBlocks()

    assert [0, 0] == [past.learn(A, prompt("abcdefg").hashes) for _ in range(2)]


def test_old_blocks_are_forgotten_and_recent_ones_are_not() -> None:
    """The filters have 4,096 slots; the older one is dropped when 1,024 slots of the newer one are used."""
    past, rng, hasher = PastBlocks(slots=4096), random.Random(0), Hasher(bytes(32), block_bytes=8)
    prompts = [hasher.prefix(rng.randbytes(8 * 800)).hashes for _ in range(40)]
    for hashes in prompts:
        past.learn(WorkerId("a"), hashes)

    assert 800 == past.learn(WorkerId("a"), prompts[-1])
    assert past.learn(WorkerId("a"), prompts[0]) < 80
