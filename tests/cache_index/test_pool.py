import pytest

from cache_index.block_tree import GPU, BlockTree
from cache_index.counts import Counts
from cache_index.pool import Pool


class Worker:
    """A pool and the tree that it leads to. Sequences are written as letters, one for each block."""

    def __init__(self) -> None:
        self.tree = BlockTree()
        self.counts = Counts()
        self.pool = Pool(self.tree, GPU, 0, self.counts)

    def put(self, hashes: list[int], letters: str, *, copies: bool = True) -> None:
        keys = b"".join(letters[: end + 1].encode().rjust(8)[-8:] for end in range(len(letters)))
        self.pool.put(hashes, self.tree.grow(self.tree.root, 0, keys, 0), copies=copies)
        self.check()

    def remove(self, engine_hash: int) -> bool:
        taken = self.pool.remove(engine_hash)
        self.check()
        return taken

    def check(self) -> None:
        self.tree.check({(number, GPU, 0): held for number, held in self.pool.check().items()})

    def held(self, letters: str) -> list[bool]:
        """Whether each block of a sequence is held."""
        keys = b"".join(letters[: end + 1].encode().rjust(8)[-8:] for end in range(len(letters)))
        path = self.tree.path(keys)
        return [bool(node.held(GPU, 0) >> i & 1) for node, shared in path for i in range(shared)]


def test_a_block_is_held_from_put_to_take() -> None:
    """The order of removal makes no difference."""
    worker = Worker()
    worker.put([1, 2, 3], "abc")

    assert 3 == len(worker.pool)
    assert worker.remove(2)
    assert [True, False, True] == worker.held("abc")
    assert not worker.remove(2)
    assert worker.remove(1)
    assert worker.remove(3)
    assert [] == worker.held("abc")
    assert 0 == worker.tree.size_bytes


def test_a_block_has_a_place_as_long_as_it_is_held() -> None:
    """The next run continues from it."""
    worker = Worker()
    worker.put([1, 2], "ab")
    place = worker.pool.place(2)
    assert place is not None
    found = worker.tree.find(place)

    assert found is not None
    assert (0, 1) == (found[0].start, found[1])

    worker.remove(2)

    assert worker.pool.place(2) is None


def test_each_copy_has_to_be_taken() -> None:
    """Three of one block, one of the other."""
    worker = Worker()
    worker.put([1, 2], "ab")
    worker.pool.put([2], [(worker.tree.path(b"       a      ab")[0][0], 1, 1)], copies=True)
    worker.pool.put([2], [(worker.tree.path(b"       a      ab")[0][0], 1, 1)], copies=True)

    assert 2 == worker.counts.repeated
    assert [True] * 3 == [worker.remove(2) for _ in range(3)]
    assert [True, False] == worker.held("ab")
    assert not worker.remove(2)


def test_a_run_may_bring_copies_and_blocks_that_were_missing() -> None:
    """The first block was taken, the second is there still."""
    worker = Worker()
    worker.put([1, 2], "ab")
    worker.remove(1)
    worker.put([1, 2], "ab")

    assert [True, True] == worker.held("ab")
    assert 1 == worker.counts.repeated
    assert [True] * 3 == [worker.remove(engine_hash) for engine_hash in (2, 1, 2)]


def test_what_is_no_copy_is_only_counted() -> None:
    """A prefix that is reported again."""
    worker = Worker()
    worker.put([1, 2], "ab")
    worker.put([1, 2, 3], "abc", copies=False)

    assert (2, 0) == (worker.counts.announced_again, worker.counts.repeated)
    assert worker.remove(2)
    assert [True, False, True] == worker.held("abc")


def test_a_block_with_two_hashes_is_held_as_long_as_either() -> None:
    """Three, to be exact; each is known by itself and each has copies of its own."""
    worker = Worker()
    worker.put([1], "a")
    worker.put([2], "a")
    worker.put([3], "a")
    worker.put([2], "a")

    assert 3 == len(worker.pool)
    assert [True] * 3 == [worker.remove(engine_hash) for engine_hash in (2, 1, 2)]
    assert [True] == worker.held("a")
    assert worker.remove(3)
    assert [] == worker.held("a")


def test_a_hash_that_comes_to_stand_for_another_block_leaves_the_first() -> None:
    """Whether the worker held the other already or not; a block that has another hash stays."""
    worker = Worker()
    worker.put([1, 2], "ab")
    worker.put([12], "a")
    worker.put([1], "x")

    assert ([True, True], [True]) == (worker.held("ab"), worker.held("x"))

    worker.put([7], "y")
    worker.put([2], "y")

    assert ([True], [True]) == (worker.held("a"), worker.held("y"))
    assert [True, False] == worker.held("ab")
    assert 2 == worker.counts.contradicted


@pytest.mark.parametrize("count", [1, 3])
def test_the_oldest_blocks_can_be_forgotten(count: int) -> None:
    """Their copies are forgotten as well."""
    worker = Worker()
    for i in range(5):
        worker.put([i], "abcde"[i])
    worker.put([0], "a")
    worker.pool.forget_oldest(count)
    worker.check()

    assert [[]] * count + [[True]] * (5 - count) == [worker.held(letter) for letter in "abcde"]
    assert 5 - count == len(worker.pool)


def test_nothing_is_left_of_a_pool_that_was_cleared() -> None:
    """No copies or aliases are left; later blocks count from one."""
    worker = Worker()
    worker.put([1, 2], "ab")
    worker.put([3], "a")
    worker.put([1], "a")
    worker.put([5, 6], "ax")
    worker.pool.clear()
    worker.check()

    assert (0, 0) == (len(worker.pool), worker.tree.size_bytes)

    worker.put([1], "a")
    worker.remove(1)

    assert [] == worker.held("a")
