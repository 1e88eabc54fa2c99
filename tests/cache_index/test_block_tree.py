import numpy as np
import pytest

from cache_index.block_tree import CPU, GPU, LATELY, BlockTree, Node

A, B = 0, 1


def keys(letters: str) -> bytes:
    """The keys of a sequence with one block per letter; each covers all before it."""
    return b"".join(letters[: end + 1].rjust(8, "_")[-8:].encode() for end in range(len(letters)))


def hold(tree: BlockTree, letters: str, *, worker: int = A, tier: int = GPU, at: int = 0) -> list[tuple[int, int]]:
    """*worker* holds the blocks of *letters* from *at* on; answers where in runs they are, as (start, count)."""
    node, offset = (tree.root, 0) if at == 0 else last(tree, letters[:at])
    found = tree.grow(node, offset, keys(letters)[at * 8 :], worker)
    for one, first, count in found:
        one.hold(tier, worker, (1 << count) - 1 << first)
    return [(one.start + first, count) for one, first, count in found]


def last(tree: BlockTree, letters: str) -> tuple[Node, int]:
    """Nodes that follow *letters*."""
    node, shared = tree.path(keys(letters))[-1]
    return node, shared


def runs(tree: BlockTree, letters: str) -> list[tuple[int, int]]:
    return [(node.start, shared) for node, shared in tree.path(keys(letters))]


def test_a_run_is_one_node() -> None:
    """Its key, and the place by which it is found again."""
    tree = BlockTree()

    assert [(0, 4)] == hold(tree, "abcd")

    node, shared = tree.path(keys("abcd"))[0]

    assert 4 == shared
    assert int.from_bytes(b"____abc"[-8:].rjust(8, b"_"), "little") == node.key(2)
    assert (node, 2) == tree.find(node.place(2))
    assert 0b1111 == node.held(GPU, A)


def test_a_prompt_ends_within_a_run_or_goes_beyond_it() -> None:
    """The path ends where the prompt, the tree, or what they share does."""
    tree = BlockTree()
    hold(tree, "abcd")

    assert [(0, 2)] == runs(tree, "ab")
    assert [(0, 4)] == runs(tree, "abcdef")
    assert [(0, 3)] == runs(tree, "abcX")
    assert [] == runs(tree, "X")
    assert [] == runs(tree, "")


def test_runs_part_where_sequences_do() -> None:
    """Both keep what they share; the node of the upper part keeps its number."""
    tree = BlockTree()
    hold(tree, "abcdef")
    place = tree.path(keys("abcdef"))[0][0].place(4)

    assert [(0, 2), (2, 2)] == hold(tree, "abXY", worker=B)
    assert [(0, 2), (2, 4)] == runs(tree, "abcdef")
    assert [(0, 2), (2, 2)] == runs(tree, "abXY")

    found = tree.find(place)
    assert found is not None
    node, offset = found
    assert (2, 2) == (node.start, offset)
    assert (0b1111, 0) == (node.held(GPU, A), node.held(GPU, B))


def test_a_place_stays_true_however_often_its_run_is_split() -> None:
    """Cut from the end on, then from the front on."""
    tree = BlockTree()
    hold(tree, "abcdefgh")
    number = tree.path(keys("abcdefgh"))[0][0]
    places = [number.place(i) for i in range(8)]
    for cut in (6, 4, 2, 1, 3):
        hold(tree, "abcdefgh"[:cut] + "X", worker=B)

    positions = [(found[0].start + found[1]) for found in map(tree.find, places) if found]
    assert list(range(8)) == positions
    assert [1] * 8 == [found[0].held(GPU, A) >> found[1] & 1 for found in map(tree.find, places) if found]


def test_a_run_grows_while_it_is_its_workers_alone() -> None:
    """Generated tokens complete block after block; what another worker holds as well is left as it is."""
    tree = BlockTree()
    hold(tree, "ab")
    hold(tree, "abcd", at=2)

    assert [(0, 4)] == runs(tree, "abcd")

    hold(tree, "abcd", worker=B)
    hold(tree, "abcdef", at=4)

    assert [(0, 4), (4, 2)] == runs(tree, "abcdef")


def test_who_holds_some_of_a_run_does_not_hold_what_it_grows_by() -> None:
    """This holds on the GPU and in slower tiers."""
    tree = BlockTree()
    hold(tree, "ab")
    hold(tree, "ab", worker=B, tier=CPU)
    hold(tree, "a", worker=B)
    hold(tree, "abc", at=2)
    node = tree.path(keys("abc"))[0][0]

    assert (0b111, 0b001, 0b011) == (node.held(GPU, A), node.held(GPU, B), node.held(CPU, B))
    assert (1 << A | 1 << B, 1 << B, 0) == (node.workers(GPU), node.workers(CPU), node.workers(LATELY))


def test_a_long_run_is_not_grown() -> None:
    """512 blocks are enough to copy each time."""
    tree = BlockTree()
    first = b"".join(i.to_bytes(8, "little") for i in range(1, 511))
    node, _, _ = tree.grow(tree.root, 0, first, A)[0]
    node.hold(GPU, A, node.whole)
    tree.grow(node, 510, b"12345678abcdefgh", A)
    node.hold(GPU, A, node.whole)

    assert 512 == node.blocks
    assert node is not tree.grow(node, 512, b"ABCDEFGH", A)[0][0]


def test_what_lies_behind_a_hole_is_found() -> None:
    """A worker may hold blocks without those before."""
    tree = BlockTree()
    hold(tree, "abcd")
    node = tree.path(keys("abcd"))[0][0]
    node.release(GPU, A, 0b0110)
    hold(tree, "abcdXY", at=4)

    assert 0b1001 == tree.path(keys("abcdXY"))[0][0].held(GPU, A)
    assert [(0, 4), (4, 2)] == runs(tree, "abcdXY")


def test_tiers_are_kept_apart() -> None:
    """Nothing is left of a tier without holdings."""
    tree = BlockTree()
    hold(tree, "abcd")
    hold(tree, "ab", tier=CPU)
    node = tree.path(keys("abcd"))[0][0]
    hold(tree, "abX", tier=LATELY)
    upper, lower = (one for one, _ in tree.path(keys("abcd")))

    assert node is upper
    assert (0b11, 0b11, 0b11) == (upper.held(GPU, A), upper.held(CPU, A), upper.held(LATELY, A))
    assert (0b11, 0) == (lower.held(GPU, A), lower.held(CPU, A))
    assert lower.slower is None

    upper.release(CPU, A, 0b11)
    upper.release(LATELY, A, 0b11)
    upper.release(LATELY, A, 0b11)

    assert upper.slower is None


def test_a_node_goes_with_its_last_holder_and_takes_those_above_along() -> None:
    """Unless somebody holds them, or something else is below them."""
    tree = BlockTree()
    hold(tree, "abcd")
    hold(tree, "abXY")
    upper, lower = (one for one, _ in tree.path(keys("abcd")))
    other = tree.path(keys("abXY"))[1][0]
    place = upper.place(3)
    upper.release(GPU, A, 0b11)
    tree.prune(upper)

    assert [(0, 2), (2, 2)] == runs(tree, "abcd")

    lower.release(GPU, A, 0b11)
    tree.prune(lower)

    assert [(0, 2)] == runs(tree, "abcd")
    assert tree.find(place) is None

    other.release(GPU, A, 0b11)
    tree.prune(other)
    tree.prune(other)

    assert [] == runs(tree, "abcd")
    assert 0 == tree.size_bytes
    tree.check({})


def test_a_split_leaves_no_tail_that_no_one_holds() -> None:
    """Its last blocks were evicted before another sequence parted from the run."""
    tree = BlockTree()
    hold(tree, "abcd")
    node = tree.path(keys("abcd"))[0][0]
    node.release(GPU, A, 0b1100)
    hold(tree, "abX", worker=B)

    assert [(0, 2)] == runs(tree, "abcd")
    assert [(0, 2), (2, 1)] == runs(tree, "abX")


def test_all_nodes_of_a_worker_are_found_by_the_places_of_its_blocks() -> None:
    """It also finds nodes that were part of another one when the places were recorded."""
    tree = BlockTree()
    hold(tree, "abcdef")
    node = tree.path(keys("abcdef"))[0][0]
    places = np.array([node.place(0), node.place(5)], dtype=np.uint64)
    hold(tree, "abX", worker=B)
    hold(tree, "abcdY", worker=B)

    assert {0, 2, 4} == {one.start for one in tree.nodes_at(places)}


def test_check_notices_what_does_not_hold() -> None:
    """The tests of random events rely on it."""
    tree = BlockTree()
    hold(tree, "ab")
    node = tree.path(keys("ab"))[0][0]
    tree.check({(node.number, GPU, A): 0b11})
    with pytest.raises(AssertionError):
        tree.check({(node.number, GPU, A): 0b01})
    with pytest.raises(AssertionError):
        tree.check({})
