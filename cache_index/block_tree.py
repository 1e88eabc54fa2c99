"""Path-compressed prefix tree of the blocks that each worker holds in each tier. All workers share one tree.

1. A node is a run of consecutive blocks and stores their keys as bytes. A worker may hold any of these blocks in any
   tier, because engines may evict in any order.
2. A node exists as long as a worker holds one of its blocks or a block of a node below it.
3. The place of a block consists of its node number and its position in the sequence. It stays valid as long as the
   block is held. If a node is split, the upper part keeps the number and refers to the lower part.
"""

import numpy as np

from cache_index.chain import U64, Words
from cache_index.holdings import Holdings
from cache_index.prefix import HASH_BYTES, common_blocks
from cache_index.slots import bits

# Measured with tracemalloc on CPython 3.11.
NODE_BYTES = 450

GPU, CPU, DISK, SHARED, LATELY = range(5)
"""Numbers of the storage tiers. `LATELY` is for blocks that a worker held until recently."""

_MAX_GROWING_BLOCKS = 512
"""Maximum length of a node that grows when blocks are reported one by one, in blocks. Each report copies the whole
node.
"""
_POSITION_BITS = 32
_POSITION = (1 << _POSITION_BITS) - 1


class Node:
    """Node of the prefix tree: a run of consecutive blocks. *start* is the position of the first block."""

    __slots__ = ("blocks", "children", "gpu", "number", "parent", "run", "slower", "spilled", "start")

    def __init__(self, number: int, parent: "Node | None", start: int, run: bytes) -> None:
        self.number = number
        self.parent = parent
        self.start = start
        self.run = run
        self.blocks = len(run) // HASH_BYTES
        self.children: dict[bytes, Node] | None = None
        """Child nodes, indexed by the key of their first block."""
        self.spilled: Node | None = None
        """Lower part of the node after a split, or None if the node was never split."""
        self.gpu = Holdings()
        self.slower: dict[int, Holdings] | None = None

    @property
    def whole(self) -> int:
        """Bitmask with a bit for each block of the node."""
        return (1 << self.blocks) - 1

    def place(self, offset: int) -> int:
        """Return the place (location in the tree) of the node's block at *offset*."""
        return (self.number << _POSITION_BITS) + self.start + offset

    def key(self, offset: int) -> int:
        """Return the key of the node's block at *offset*."""
        return int.from_bytes(self.run[offset * HASH_BYTES : (offset + 1) * HASH_BYTES], "little")

    def held(self, tier: int, slot: int) -> int:
        """Return the bitmask of the node's blocks that a worker holds in *tier*. *slot* is the worker's bit number."""
        if tier == GPU:
            return self.gpu.held_by(slot, self.whole)
        holdings = self.slower.get(tier) if self.slower else None
        return holdings.held_by(slot, self.whole) if holdings else 0

    def workers(self, tier: int) -> int:
        """Return the bitmask of the workers that hold any block of the node in *tier*."""
        holdings = self.gpu if tier == GPU else self.slower.get(tier) if self.slower else None
        return holdings.workers() if holdings else 0

    def hold(self, tier: int, slot: int, blocks: int) -> int:
        """Add the bitmask *blocks* to the blocks that a worker holds in *tier*. Return those that it already held."""
        if tier == GPU:
            return self.gpu.hold(slot, blocks, self.whole)
        if self.slower is None:
            self.slower = {}
        holdings = self.slower.get(tier)
        if holdings is None:
            holdings = self.slower[tier] = Holdings()
        return holdings.hold(slot, blocks, self.whole)

    def release(self, tier: int, slot: int, blocks: int) -> None:
        """Remove the bitmask *blocks* from the blocks that a worker holds in *tier*."""
        if tier == GPU:
            self.gpu.release(slot, blocks, self.whole)
        elif self.slower and tier in self.slower:
            self.slower[tier].release(slot, blocks, self.whole)
            if not self.slower[tier]:
                del self.slower[tier]
                self.slower = self.slower or None

    @property
    def is_needed(self) -> bool:
        """Whether the node has children or a worker holds one of its blocks."""
        return bool(self.children or self.gpu or self.slower)


class BlockTree:
    """Path-compressed prefix tree of blocks. Workers are bit numbers (see `WorkerSlots`), and sets of blocks are
    bitmasks (see `Holdings`).
    """

    def __init__(self) -> None:
        self.root = Node(0, None, 0, b"")
        self._nodes: dict[int, Node] = {}
        self._made = 0
        self._blocks = 0
        self.pool_bytes = 0
        """Memory of all pools that refer to this tree, in bytes. The pools update this number."""

    @property
    def size_bytes(self) -> int:
        """Memory used by the tree and its pools, in bytes, estimated from object sizes."""
        return len(self._nodes) * NODE_BYTES + self._blocks * HASH_BYTES + self.pool_bytes

    def find(self, place: int) -> tuple[Node, int] | None:
        """Return the node and the offset of the block at *place* in the tree, or None if the block was removed."""
        node = self._nodes.get(place >> _POSITION_BITS)
        position = place & _POSITION
        while node is not None and position >= node.start + node.blocks:
            node = node.spilled
        return None if node is None else (node, position - node.start)

    def grow(self, node: Node, offset: int, keys: bytes, slot: int) -> list[tuple[Node, int, int]]:
        """Find or add the blocks *keys* after the first *offset* blocks of *node*, so that worker *slot* can hold them.

        Return their locations as (node, first offset, number of blocks). O(nodes + keys).
        """
        found: list[tuple[Node, int, int]] = []
        at, end = 0, len(keys)
        while at < end:
            if offset == node.blocks:
                child = node.children.get(keys[at : at + HASH_BYTES]) if node.children else None
                if child is None:
                    found.append(self._append(node, keys[at:], slot))
                    break
                node, offset = child, 0
            shared = common_blocks(node.run, offset, keys, at // HASH_BYTES)
            if shared:
                found.append((node, offset, shared))
                offset += shared
                at += shared * HASH_BYTES
            if at < end and offset < node.blocks:
                self._split(node, offset)
        return found

    def path(self, hashes: bytes) -> list[tuple[Node, int]]:
        """Return the nodes whose blocks match *hashes*, each with its number of matching leading blocks. O(nodes)."""
        found: list[tuple[Node, int]] = []
        children, at, end = self.root.children, 0, len(hashes)
        while children and at < end:
            child = children.get(hashes[at : at + HASH_BYTES])
            if child is None:
                break
            shared = common_blocks(child.run, 0, hashes, at // HASH_BYTES)
            found.append((child, shared))
            if shared < child.blocks:
                break
            at += shared * HASH_BYTES
            children = child.children
        return found

    def prune(self, node: Node | None) -> None:
        """Remove *node* if it is no longer needed, and then every ancestor that is no longer needed."""
        while node is not None and node.number in self._nodes and not node.is_needed:
            parent = node.parent
            assert parent is not None
            assert parent.children is not None, "a parent has children"
            del parent.children[node.run[:HASH_BYTES]]
            if parent.spilled is node:
                parent.spilled = None
            del self._nodes[node.number]
            self._blocks -= node.blocks
            node = parent

    def nodes_at(self, places: Words) -> list[Node]:
        """Return the nodes that contain the blocks at *places*, and possibly their descendants. O(places), vectorized,
        plus O(nodes).
        """
        found: dict[int, Node] = {}
        for number in _distinct(places >> U64(_POSITION_BITS)).tolist():
            node = self._nodes.get(number)
            while node is not None and node.number not in found:
                found[node.number] = node
                node = node.spilled
        return list(found.values())

    def _append(self, node: Node, keys: bytes, slot: int) -> tuple[Node, int, int]:
        """Append *keys*, which are not in the tree yet, to *node* or to a new child. Return the new location."""
        blocks = len(keys) // HASH_BYTES
        self._blocks += blocks
        before = node.blocks
        if not node.children and node.gpu.full == 1 << slot and before + blocks <= _MAX_GROWING_BLOCKS:
            self._lengthen(node, keys)
            return node, before, blocks
        self._made += 1
        child = self._nodes[self._made] = Node(self._made, node, node.start + before, keys)
        if node.children is None:
            node.children = {}
        node.children[keys[:HASH_BYTES]] = child
        return child, 0, blocks

    def _lengthen(self, node: Node, keys: bytes) -> None:
        whole = node.whole
        node.run += keys
        node.blocks = len(node.run) // HASH_BYTES
        node.gpu.lengthened(whole)
        for holdings in node.slower.values() if node.slower else ():
            holdings.lengthened(whole)

    def _split(self, node: Node, blocks: int) -> None:
        """Split *node* after its first *blocks* blocks. O(workers that hold the node + children of the node)."""
        cut, whole = blocks * HASH_BYTES, node.whole
        self._made += 1
        lower = self._nodes[self._made] = Node(self._made, node, node.start + blocks, node.run[cut:])
        lower.children, lower.spilled = node.children, node.spilled
        for child in lower.children.values() if lower.children else ():
            child.parent = lower
        lower.gpu = node.gpu.split(blocks, whole)
        if node.slower:
            lower.slower = {tier: holdings.split(blocks, whole) for tier, holdings in node.slower.items()}
            lower.slower = {tier: holdings for tier, holdings in lower.slower.items() if holdings} or None
            node.slower = {tier: holdings for tier, holdings in node.slower.items() if holdings} or None
        node.run = node.run[:cut]
        node.blocks = blocks
        node.children = {lower.run[:HASH_BYTES]: lower}
        node.spilled = lower
        self.prune(lower)

    def check(self, held: dict[tuple[int, int, int], int]) -> None:
        """Check all invariants, and check that the workers hold exactly the blocks in *held*. O(tree).

        *held* has bitmasks of blocks by node number, tier and worker slot.

        Raises:
            AssertionError: if an invariant is violated.
        """
        found: dict[tuple[int, int, int], int] = {}
        nodes, blocks = [self.root], 0
        seen = 0
        while nodes:
            node = nodes.pop()
            blocks += node.blocks
            assert node.blocks * HASH_BYTES == len(node.run)
            for tier, holdings in {GPU: node.gpu, **(node.slower or {})}.items():
                holdings.check(node.whole)
                assert holdings or tier == GPU, "empty holdings are removed"
                workers = holdings.workers()
                found |= {(node.number, tier, slot): holdings.held_by(slot, node.whole) for slot in bits(workers)}
            for key, child in (node.children or {}).items():
                assert (key, child.start) == (child.run[:HASH_BYTES], node.start + node.blocks)
                assert child.parent is node
                assert child.is_needed
                assert self._nodes[child.number] is child
                nodes.append(child)
                seen += 1
            assert node.spilled is None or node.spilled in (node.children or {}).values()
        assert held == found
        assert (seen, blocks) == (len(self._nodes), self._blocks)


def _distinct(numbers: Words) -> Words:
    """Sort *numbers* in place and return them without duplicates. np.unique is not used, because its first call imports
    numpy.ma, which takes 9 ms.
    """
    numbers.sort()
    is_first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], is_first[1:])
    distinct: Words = numbers[is_first]
    return distinct
