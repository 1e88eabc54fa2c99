import pytest

from cache_index.counts import Counts
from cache_index.event import Tier
from cache_index.orphans import OrphanRun, Orphans

A, B = 0, 1


def orphans(max_bytes: int = 100_000) -> tuple[Orphans, Counts]:
    counts = Counts()
    return Orphans(max_bytes=max_bytes, counts=counts), counts


def run(awaited: int, *hashes: int, worker: int = A, tier: Tier = Tier.GPU) -> OrphanRun:
    return OrphanRun(worker, awaited, list(hashes), tier, bytes(4 * len(hashes)), 1)


def by_hash(engine_hash: int, tier: Tier = Tier.CPU) -> OrphanRun:
    return OrphanRun(A, engine_hash, [engine_hash], tier)


def test_a_run_waits_for_its_parent() -> None:
    """It is claimed once, by its worker only."""
    waiting, counts = orphans()
    one, other = run(1, 2, 3), run(1, 4)
    waiting.park(one)
    waiting.park(other)
    waiting.park(run(9, 10))

    assert (4, 4) == (len(waiting), counts.parked)
    assert [] == waiting.claim(B, [1])
    assert [] == waiting.claim(A, [2, 3])
    assert [one, other] == waiting.claim(A, [1, 1, 5])
    assert [] == waiting.claim(A, [1])
    assert 1 == len(waiting)
    waiting.check()


def test_a_removed_block_is_marked_in_the_run_that_it_waits_in() -> None:
    """One copy at a time, in its tier; what was not there is not removed."""
    waiting, _ = orphans()
    gpu, again, cpu = run(1, 2, 3), run(1, 2), by_hash(2)
    for one in (gpu, again, cpu):
        waiting.park(one)

    assert [True, True, False] == [waiting.remove(A, 2, Tier.GPU) for _ in range(3)]
    assert [True, False] == [waiting.remove(A, 2, Tier.CPU) for _ in range(2)]
    assert not waiting.remove(A, 7, Tier.GPU)
    assert not waiting.remove(B, 3, Tier.GPU)
    assert {2} == gpu.gone
    waiting.check()


def test_a_run_without_blocks_goes_unless_something_waits_for_it() -> None:
    """The runs that wait below it need its tokens."""
    waiting, _ = orphans()
    waiting.park(run(1, 2))
    waiting.park(run(2, 3))
    waiting.park(run(1, 4))
    waiting.remove(A, 2, Tier.GPU)
    waiting.remove(A, 4, Tier.GPU)

    assert [[2]] == [one.hashes for one in waiting.claim(A, [1])]
    assert 1 == len(waiting)
    waiting.check()


def test_what_was_reported_by_hash_alone_goes_when_it_is_removed() -> None:
    """Nothing can be below it."""
    waiting, _ = orphans()
    waiting.park(by_hash(2))
    waiting.remove(A, 2, Tier.CPU)

    assert (0, 0) == (len(waiting), waiting.size_bytes)


def test_the_oldest_runs_make_room() -> None:
    """Two of 744 bytes fit; what is larger than everything is not taken."""
    waiting, counts = orphans(max_bytes=1500)
    for i in range(4):
        waiting.park(run(i, 100 + i))
    waiting.remove(A, 102, Tier.GPU)
    waiting.park(run(2, *range(200, 300)))

    assert [[], [], [], [103]] == [[h for one in waiting.claim(A, [i]) for h in one.hashes] for i in range(4)]
    assert 102 == counts.given_up
    waiting.check()


def test_a_run_with_one_hash_for_two_blocks_is_refused() -> None:
    """A removal would be ambiguous."""
    waiting, counts = orphans()
    waiting.park(run(1, 2, 2))

    assert (0, 1, 0) == (len(waiting), counts.refused, counts.parked)


def test_a_worker_that_leaves_takes_its_runs_along() -> None:
    """Those of others stay."""
    waiting, _ = orphans()
    waiting.park(run(1, 2, 3))
    waiting.park(run(5, 6))
    waiting.park(run(1, 2, worker=B))
    waiting.drop(A)
    waiting.drop(A)

    assert 1 == len(waiting)
    assert [[2]] == [one.hashes for one in waiting.claim(B, [1])]
    waiting.check()


def test_check_notices_what_does_not_hold() -> None:
    """The tests of random events rely on it."""
    waiting, _ = orphans()
    one = run(1, 2, 3)
    waiting.park(one)
    one.gone.add(2)
    with pytest.raises(AssertionError):
        waiting.check()
