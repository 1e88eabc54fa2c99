"""Path-compressed radix tree of prefixes, shared by all workers. It evicts blocks of each worker in the order of its
engine.

1. A node is a run of consecutive blocks. A worker holds all blocks of a node or some of its leading blocks.
2. A worker that holds a block of a node holds all blocks of the nodes above it.
3. The holdings of a worker form a list in eviction order: least recently used first and, for the same use, tail before
   head. This is vLLM's order, which frees the blocks of a finished request in reverse
   (vllm/v1/core/kv_cache_manager.py, `free`). By rules 2 and 3, the worker has no holdings below the first one in the
   list, so the tail of this holding is evicted first.

A hash covers all blocks before it (cache_index/prefix.py), so bisection finds the place where two runs diverge.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cache_index.index import WorkerId
from cache_index.prefix import HASH_BYTES, Prefix, common_blocks
from cache_index.reuse import Reuse
from cache_index.slots import bits

# Measured with tracemalloc on CPython 3.11 (benchmarks/index.py compares the sum with the real figure).
NODE_BYTES: Final = 600
HOLDING_BYTES: Final = 140
LEARN_EVERY = 64
"""Number of uses between two calls of `Reuse.learn`."""


class _Node:
    """Run of consecutive blocks. ``full`` and ``held`` are bitmasks of the workers that hold all blocks or any block of
    the run.
    """

    __slots__ = ("blocks", "children", "full", "held", "holdings", "parent", "run")

    def __init__(self, run: bytes, parent: "_Node | None") -> None:
        self.run = run
        self.blocks = len(run) // HASH_BYTES
        self.parent = parent
        self.children: dict[bytes, _Node] = {}
        self.holdings: dict[int, _Holding] = {}
        self.full = 0
        self.held = 0

    def unused_since(self, use: int) -> int:
        """Return the bitmask of the workers that last used their blocks at use number *use* or earlier. O(workers)."""
        return sum([1 << slot for slot, holding in self.holdings.items() if holding.used <= use])


class _Holding:
    """Leading blocks of a node that one worker holds. It is an entry in the worker's list in order of use.

    ``node`` is None for blocks of generated text, which take up space but match nothing.
    """

    __slots__ = ("blocks", "newer", "node", "older", "used")

    def __init__(self, node: _Node | None, blocks: int, used: int) -> None:
        self.node = node
        self.blocks = blocks
        self.used = used
        self.older: _Holding = self
        self.newer: _Holding = self

    def unlink(self) -> None:
        self.older.newer = self.newer
        self.newer.older = self.older

    def link_after(self, other: "_Holding") -> None:
        self.older = other
        self.newer = other.newer
        other.newer.older = self
        other.newer = self


class _Holder:
    """State of one worker: its slot and capacity, and its entries in order of use, in a ring starting at *anchor*."""

    __slots__ = ("anchor", "bit", "capacity", "held", "slot")

    def __init__(self, slot: int, capacity: int) -> None:
        self.slot = slot
        self.bit = 1 << slot
        self.capacity = capacity
        self.held = 0
        self.anchor = _Holding(None, 0, 0)

    @property
    def oldest(self) -> _Holding:
        """Least recently used holding of the worker, or the anchor if the worker has no holdings."""
        return self.anchor.newer

    def append(self, holding: _Holding) -> None:
        holding.link_after(self.anchor.older)


@dataclass(frozen=True, slots=True)
class Run:
    """Run of *blocks* consecutive blocks of one worker, from depth *depth* of the tree. *last* is the hash of the last
    block.
    """

    depth: int
    blocks: int
    last: bytes


class RadixTree:
    """Predicted cache contents of all workers, within *max_bytes* of memory. The class implements `CacheIndex`.

    A worker holds at most as many blocks as its capacity, which is *default_capacity* until `resize` is called.
    """

    def __init__(self, *, max_bytes: int, default_capacity: int) -> None:
        self.max_bytes = max_bytes
        self.default_capacity = default_capacity
        self._root = _Node(b"", None)
        self._holders: dict[WorkerId, _Holder] = {}
        self._workers: list[WorkerId] = []
        self._free_slots: list[int] = []
        self.uses = 0
        """Number of calls of `record` so far."""
        self.reuse: Final = Reuse()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def held(self, worker: WorkerId) -> int:
        holder = self._holders.get(worker)
        return holder.held if holder else 0

    def match(self, prefix: Prefix, *, since: int = 0) -> Mapping[WorkerId, int]:
        """Return the number of leading blocks of *prefix* that each worker holds, without those last used at use number
        *since* or earlier. O(nodes on the path + workers), or O(nodes on the path * workers) if *since* is above 0.
        """
        hashes, blocks = prefix.hashes, prefix.blocks
        workers = self._workers
        hits: dict[WorkerId, int] = {}
        child = self._root.children.get(hashes[:HASH_BYTES])
        if child is None:
            return hits
        alive, position = child.held, 0
        while True:
            shared = common_blocks(child.run, 0, hashes, position)
            if since:
                unused = alive & child.unused_since(since)
                alive ^= unused
                if position:
                    hits.update((workers[slot], position) for slot in bits(unused))
            staying = alive & child.full if shared == child.blocks else 0
            for slot in bits(alive ^ staying):
                holding = child.holdings.get(slot)
                hits[workers[slot]] = position + min(holding.blocks, shared) if holding else position
            position += shared
            alive = staying
            if not alive or position == blocks:
                break
            at = position * HASH_BYTES
            following = child.children.get(hashes[at : at + HASH_BYTES])
            if following is None:
                break
            child = following
        for slot in bits(alive):
            hits[workers[slot]] = position
        return hits

    def capacity(self, worker: WorkerId) -> int:
        holder = self._holders.get(worker)
        return self.default_capacity if holder is None else holder.capacity

    def room(self, worker: WorkerId) -> int:
        return self.capacity(worker) - self.held(worker)

    def oldest_chance(self, worker: WorkerId) -> float:
        holder = self._holders.get(worker)
        if holder is None or not holder.held:
            return 0.0
        return self.reuse.chance(self.uses - holder.oldest.used)

    def oldest_use(self, worker: WorkerId) -> int | None:
        holder = self._holders.get(worker)
        return None if holder is None or not holder.held else holder.oldest.used

    def record(self, worker: WorkerId, prefix: Prefix, *, output_blocks: int | None = None) -> int:
        """Record that *worker* used all blocks of *prefix*. O(nodes on the path + evicted runs)."""
        holder = self._holder(worker)
        self.uses += 1
        if self.uses % LEARN_EVERY == 0:
            self.reuse.learn()
        is_asked = output_blocks is None
        if output_blocks:
            self._bytes += HOLDING_BYTES
            holder.held += output_blocks
            holder.append(_Holding(None, output_blocks, self.uses))
        before = holder.held
        for node in reversed(self._path(prefix.hashes)):
            self._use(holder, node, is_asked=is_asked)
        gained = holder.held - before
        if holder.held > holder.capacity:
            self._evict_over_capacity(holder)
        if self._bytes > self.max_bytes:
            self._evict_over_budget()
        return gained

    def trim(self, worker: WorkerId, prefix: Prefix, keep: int) -> None:
        holder = self._holders.get(worker)
        if holder is None:
            return
        for node, start in reversed(self._walk(prefix.hashes)):
            holding = node.holdings.get(holder.slot)
            if holding is None or start + node.blocks <= keep:
                continue
            if any(below.held & holder.bit for below in node.children.values()):
                return
            self._shrink(holder, holding, min(holding.blocks, max(0, keep - start)))

    def resize(self, worker: WorkerId, capacity: int) -> None:
        holder = self._holder(worker)
        holder.capacity = capacity
        self._evict_over_capacity(holder)

    def evict_unused_since(self, use: int, *, max_runs: int) -> bool:
        """Evict blocks that were last used at use number *use* or earlier, at most *max_runs* runs of them. Return
        whether none of these blocks is left. O(evicted runs + workers).
        """
        for holder in self._holders.values():
            while holder.oldest is not holder.anchor and holder.oldest.used <= use:
                if not max_runs:
                    return False
                max_runs -= 1
                self._shrink(holder, holder.oldest, 0)
        return True

    def drop(self, worker: WorkerId) -> None:
        holder = self._holders.pop(worker, None)
        if holder is None:
            return
        while holder.oldest is not holder.anchor:
            self._shrink(holder, holder.oldest, 0)
        self._free_slots.append(holder.slot)

    def tree_of(self, worker: WorkerId) -> list[Run]:
        """Return the runs of blocks that *worker* holds, parents before children. O(runs of the worker)."""
        holder = self._holders.get(worker)
        return [] if holder is None else _runs(self._root, holder.slot)

    def _holder(self, worker: WorkerId) -> _Holder:
        holder = self._holders.get(worker)
        if holder is None:
            slot = self._free_slots.pop() if self._free_slots else len(self._workers)
            self._workers[slot : slot + 1] = [worker]
            holder = self._holders[worker] = _Holder(slot, self.default_capacity)
        return holder

    def _walk(self, hashes: bytes) -> list[tuple[_Node, int]]:
        """Return the nodes that lie completely within *hashes*, each with its depth in blocks."""
        found: list[tuple[_Node, int]] = []
        child = self._root.children.get(hashes[:HASH_BYTES])
        at = 0
        while child is not None and hashes.startswith(child.run, at):
            found.append((child, at // HASH_BYTES))
            at += len(child.run)
            child = child.children.get(hashes[at : at + HASH_BYTES])
        return found

    def _path(self, hashes: bytes) -> list[_Node]:
        """Find or create the nodes whose blocks together are exactly *hashes*. Nodes are split where necessary."""
        path: list[_Node] = []
        node, at, end = self._root, 0, len(hashes)
        while at < end:
            child = node.children.get(hashes[at : at + HASH_BYTES])
            if child is None:
                node = self._grow(node, hashes[at:])
            elif hashes[at : at + len(child.run)] == child.run:  # startswith() takes five times as long
                node = child
            else:
                node = self._split(child, common_blocks(child.run, 0, hashes, at // HASH_BYTES))
            path.append(node)
            at += len(node.run)
        return path

    def _grow(self, parent: _Node, run: bytes) -> _Node:
        leaf = parent.children[run[:HASH_BYTES]] = _Node(run, parent)
        self._bytes += NODE_BYTES + len(run)
        return leaf

    def _split(self, node: _Node, blocks: int) -> _Node:
        """Split *node* after its first *blocks* blocks and return the upper part. O(workers that hold the node)."""
        cut = blocks * HASH_BYTES
        parent = node.parent
        assert parent is not None, "the root has no run to split"
        upper = _Node(node.run[:cut], parent)
        parent.children[upper.run[:HASH_BYTES]] = upper
        node.run = node.run[cut:]
        node.blocks -= blocks
        node.parent = upper
        upper.children[node.run[:HASH_BYTES]] = node
        upper.held = node.held
        upper.full = node.full
        for slot, holding in list(node.holdings.items()):
            if holding.blocks <= blocks:
                del node.holdings[slot]
                node.held &= ~(1 << slot)
                holding.node = upper
                upper.holdings[slot] = holding
                if holding.blocks == blocks:
                    upper.full |= 1 << slot
                continue
            above = _Holding(upper, blocks, holding.used)
            above.link_after(holding)
            upper.holdings[slot] = above
            upper.full |= 1 << slot
            holding.blocks -= blocks
            self._bytes += HOLDING_BYTES
        self._bytes += NODE_BYTES
        if not node.holdings:
            self._prune(node)
        return upper

    def _use(self, holder: _Holder, node: _Node, *, is_asked: bool) -> None:
        """Record that the worker *holder* used all blocks of *node*."""
        holding = node.holdings.get(holder.slot)
        if holding is None:
            holding = _Holding(node, 0, self.uses)
            node.holdings[holder.slot] = holding
            node.held |= holder.bit
            self._bytes += HOLDING_BYTES
        else:
            holding.unlink()
            if is_asked:
                self.reuse.asked(self.uses - holding.used, holding.blocks)
            holding.used = self.uses
        holder.held += node.blocks - holding.blocks
        holding.blocks = node.blocks
        node.full |= holder.bit
        holder.append(holding)

    def _shrink(self, holder: _Holder, holding: _Holding, blocks: int) -> None:
        """Keep only the first *blocks* blocks of *holding*. Remove an empty holding and a node without holdings."""
        holder.held -= holding.blocks - blocks
        node = holding.node
        if node is not None and blocks < holding.blocks:
            node.full &= ~holder.bit
        holding.blocks = blocks
        if blocks:
            return
        holding.unlink()
        self._bytes -= HOLDING_BYTES
        if node is None:
            return
        del node.holdings[holder.slot]
        node.held &= ~holder.bit
        if not node.holdings:
            self._prune(node)

    def _prune(self, node: _Node) -> None:
        """Remove a node that no worker holds. The node has no children, by rule 2 of this module."""
        parent = node.parent
        assert parent is not None, "the root is never held"
        del parent.children[node.run[:HASH_BYTES]]
        self._bytes -= NODE_BYTES + len(node.run)

    def _evict_over_capacity(self, holder: _Holder) -> None:
        while holder.held > holder.capacity:
            oldest = holder.oldest
            excess = holder.held - holder.capacity
            if oldest.node is not None:
                self.reuse.evicted(self.uses - oldest.used, min(excess, oldest.blocks))
            self._shrink(holder, oldest, max(0, oldest.blocks - excess))

    def _evict_over_budget(self) -> None:
        """Evict the least recently used runs of all workers until the memory budget is met. O(workers) per run."""
        while self._bytes > self.max_bytes:
            holder = min((each for each in self._holders.values() if each.held), key=lambda each: each.oldest.used)
            self._shrink(holder, holder.oldest, 0)

    def _check(self) -> None:
        """Check all invariants of the tree. Raise AssertionError if one is violated. O(tree)."""
        total = 0
        nodes: list[tuple[_Node, int]] = [(child, -1) for child in self._root.children.values()]
        blocks = dict.fromkeys((holder.slot for holder in self._holders.values()), 0)
        while nodes:
            node, allowed = nodes.pop()
            assert node.run, "a node has blocks"
            assert node.holdings, "a node has holders"
            held = sum(1 << slot for slot in node.holdings)
            full = sum(1 << slot for slot, holding in node.holdings.items() if holding.blocks == node.blocks)
            assert (held, full) == (node.held, node.full), "masks agree with the holdings"
            assert held & allowed == held, "a holder of a node holds all of its parent"
            for slot, holding in node.holdings.items():
                assert 0 < holding.blocks <= node.blocks
                assert holding.node is node
                blocks[slot] += holding.blocks
            total += NODE_BYTES + len(node.run) + HOLDING_BYTES * len(node.holdings)
            for key, child in node.children.items():
                assert (node, key) == (child.parent, child.run[:HASH_BYTES])
                nodes.append((child, full))
        for holder in self._holders.values():
            ring = list(_ring(holder))
            total += HOLDING_BYTES * sum(holding.node is None for holding in ring)
            unknown = sum(holding.blocks for holding in ring if holding.node is None)
            assert blocks[holder.slot] + unknown == holder.held <= holder.capacity
            assert [holding.used for holding in ring] == sorted(holding.used for holding in ring)
        assert total == self._bytes, f"{total} bytes counted, {self._bytes} kept"


def _ring(holder: _Holder) -> Iterator[_Holding]:
    holding = holder.oldest
    while holding is not holder.anchor:
        yield holding
        holding = holding.newer


def _runs(root: _Node, slot: int) -> list[Run]:
    runs: list[Run] = []
    pending = [(0, child) for child in root.children.values()]
    while pending:
        depth, node = pending.pop()
        holding = node.holdings.get(slot)
        if holding is None:
            continue
        end = holding.blocks * HASH_BYTES
        runs.append(Run(depth, holding.blocks, node.run[end - HASH_BYTES : end]))
        pending.extend((depth + node.blocks, child) for child in node.children.values())
    return runs
