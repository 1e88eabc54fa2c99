"""Blocks of one worker in one storage tier, indexed by the block hashes of its engine."""

from cache_index.block_tree import BlockTree, Node
from cache_index.counts import Counts
from cache_index.places import Places


class Pool:
    """Blocks that an engine stored in a tier and has not removed, according to its events.

    1. A block that was stored twice must be removed twice. vLLM keeps equal blocks of concurrent requests apart and
       reports each one (vllm/v1/core/block_pool.py, `BlockHashToBlockMap`).
    2. Two engine hashes can stand for the same block of the index, because an engine may hash content that it does not
       report, such as the path of an adapter. The worker holds the block as long as it holds one of the hashes.
    3. One hash cannot stand for two blocks. If an engine reports this, the later block replaces the earlier one,
       possibly after a delay.
    """

    __slots__ = ("_aliases", "_bytes", "_copies", "_counts", "_places", "_slot", "_tier", "_tree")

    def __init__(self, tree: BlockTree, tier: int, slot: int, counts: Counts) -> None:
        self._tree = tree
        self._tier = tier
        self._slot = slot
        self._counts = counts
        self._places = Places()
        self._bytes = 0
        """Size of `_places` in bytes, as included in the total memory of the tree."""
        self._copies: dict[int, int] = {}
        """Number of additional copies of a block, by engine hash."""
        self._aliases: dict[int, int] = {}
        """Number of additional engine hashes of a block, by block key."""

    def __len__(self) -> int:
        return len(self._places)

    def place(self, engine_hash: int) -> int | None:
        """Return the place of a block in the tree, or None if the pool does not contain the block."""
        return self._places.get(engine_hash)

    def hash_at(self, place: int) -> int | None:
        """Return the engine's hash of the block at *place* in the tree, or None if it is not in the pool. O(blocks)."""
        return self._places.hash_at(place)

    def put(self, hashes: list[int], found: list[tuple[Node, int, int]], *, copies: bool) -> None:
        """Store *hashes* at the locations *found* in the tree. If *copies* is true, a block that is already held gets
        another copy.
        """
        places = self._places
        at = 0
        for node, offset, count in found:
            part = hashes[at : at + count] if count < len(hashes) else hashes
            at += count
            again = node.hold(self._tier, self._slot, (1 << count) - 1 << offset)
            if again:
                self._put_again(part, node, offset, again, copies=copies)
            else:
                places.put(part, node.place(offset))
        for place in places.lost():
            self._counts.contradicted += 1
            self._release(place)
        self._account()

    def _put_again(self, hashes: list[int], node: Node, offset: int, again: int, *, copies: bool) -> None:
        """Store *hashes*, some of which are already held. The bitmask *again* marks the held ones."""
        for at, engine_hash in enumerate(hashes, offset):
            was_held = again >> at & 1
            place = self._places.get(engine_hash) if was_held else None
            if place is not None and self._tree.find(place) == (node, at):
                if copies:
                    self._counts.repeated += 1
                    self._copies[engine_hash] = self._copies.get(engine_hash, 0) + 1
                else:
                    self._counts.announced_again += 1
                continue
            if was_held:
                key = node.key(at)
                self._aliases[key] = self._aliases.get(key, 0) + 1
            self._places.put([engine_hash], node.place(at))

    def remove(self, engine_hash: int) -> bool:
        """Remove one copy of a block. Return whether the pool had a copy."""
        copies = self._copies
        if copies and engine_hash in copies:
            copies[engine_hash] -= 1
            if not copies[engine_hash]:
                del copies[engine_hash]
            return True
        place = self._places.pop(engine_hash)
        if place is None:
            return False
        self._release(place)
        self._account()
        return True

    def forget_oldest(self, blocks: int) -> None:
        """Remove all copies of about *blocks* blocks, starting with the runs that were reported first. O(pool)."""
        for engine_hash in self._places.oldest(blocks):
            self._copies.pop(engine_hash, None)
            self.remove(engine_hash)

    def clear(self) -> None:
        """Remove all blocks of the pool. O(runs), plus a vectorized pass over the blocks."""
        nodes = self._tree.nodes_at(self._places.all())
        for node in nodes:
            node.release(self._tier, self._slot, node.whole)
        for node in nodes:
            self._tree.prune(node)
        self._places = Places()
        self._account()
        self._copies.clear()
        self._aliases.clear()

    def _release(self, place: int) -> None:
        """Remove one engine hash of the block at *place* in the tree. The last hash releases the block."""
        found = self._tree.find(place)
        assert found is not None, "a held block has a node"
        node, offset = found
        if self._aliases:
            key = node.key(offset)
            if key in self._aliases:
                self._aliases[key] -= 1
                if not self._aliases[key]:
                    del self._aliases[key]
                return
        node.release(self._tier, self._slot, 1 << offset)
        self._tree.prune(node)

    def _account(self) -> None:
        size_bytes = self._places.size_bytes
        self._tree.pool_bytes += size_bytes - self._bytes
        self._bytes = size_bytes

    def check(self) -> dict[int, int]:
        """Check all invariants of the pool. Return the bitmask of held blocks by node number. O(blocks).

        Raises:
            AssertionError: if an invariant is violated.
        """
        held: dict[int, int] = {}
        aliases: dict[int, int] = {}
        for place in self._places.all().tolist():
            found = self._tree.find(place)
            assert found is not None
            node, offset = found
            if held.get(node.number, 0) >> offset & 1:
                key = node.key(offset)
                aliases[key] = aliases.get(key, 0) + 1
            held[node.number] = held.get(node.number, 0) | 1 << offset
        assert aliases == self._aliases
        self._account()
        assert all(copies > 0 and self.place(engine_hash) for engine_hash, copies in self._copies.items())
        return held
