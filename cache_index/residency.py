"""Index of the blocks that engines report: which worker holds which block in which tier.

1. A block is identified by its key, which is the `TokenHasher` hash of the block and all blocks before it. Prompts are
   hashed in the same way. An engine's own hashes are mapped to blocks by its events and are valid only for this engine.
2. A worker holds a block in a tier from its stored event to its removed event. Copies are counted: a block that was
   stored twice must be removed twice. A run from the first block of a sequence is an exception. vLLM reports a reused
   prefix like this if a request asks for it (`kv_cache_report_mode: full`), without making a copy. Counted as a copy,
   it would stay forever. If it is a copy after all, it is forgotten too early, but a miss is cheaper than a false hit.
3. Engines may evict in any order, so a worker may hold a block without the block before it.
4. Blocks in a shared tier are available to all workers of the model as long as one of them reports them.

One `Pool` per worker and tier maps the engine's hashes to blocks in a `BlockTree`, which all pools share.
"""

from array import array
from collections.abc import Mapping

from cache_index.block_tree import CPU, DISK, GPU, NODE_BYTES, SHARED, BlockTree, Node
from cache_index.counts import Counts
from cache_index.engine import ENGINE_BYTES, NUMBERS, Engine
from cache_index.event import Event, Removed, Stored, Tier
from cache_index.hit import Hit
from cache_index.index import WorkerId
from cache_index.orphans import OrphanRun, Orphans
from cache_index.places import NEW_BYTES
from cache_index.prefix import HASH_BYTES, Prefix
from cache_index.slots import WorkerSlots, bits
from cache_index.tokens import TOKEN_BYTES, TokenHasher, TokenIds, pack, scope_of

ORPHANS_SHARE = 1 / 8
"""Share of the memory budget for blocks that wait for their unknown parent block."""
FORGOTTEN_SHARE = 1 / 8
"""Share of a pool's blocks to drop when memory is needed. Dropping fewer would repeat the pass over the pool."""

MAX_NEW_NODES = 2
"""Maximum number of nodes that one run of blocks adds to the tree: a node for the run, and a node for a split."""

_NOTHING = Hit(0)
_OWN = (Tier.GPU, Tier.CPU, Tier.DISK)


class Residency:
    """Blocks that engines report for all workers, by tier. The index uses at most *max_bytes* of memory.

    *hasher* must be the one that hashes prompts. If memory runs out, the oldest blocks in the largest slower tier are
    dropped. If there are no such blocks, new blocks are ignored. Dropped and ignored blocks are counted.
    """

    def __init__(self, hasher: TokenHasher, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.counts = Counts()
        self._hasher = hasher
        self._tree = BlockTree()
        self._orphans = Orphans(max_bytes=int(max_bytes * ORPHANS_SHARE), counts=self.counts)
        self._engines: dict[WorkerId, Engine] = {}
        self._slots = WorkerSlots()
        self._models: dict[str, int] = {}
        """Bitmask of the workers of each model, by model name."""

    def join(self, worker: WorkerId, *, model: str) -> None:
        """Record that *worker* serves *model*, so that the worker can use shared blocks before its first event."""
        engine = self._engines.get(worker)
        if engine is None:
            self._engines[worker] = engine = Engine(self._slots.assign(worker), model, self._tree, self.counts)
        else:
            self._models[engine.model] &= ~engine.bit
            engine.model = model
        self._models[model] = self._models.get(model, 0) | engine.bit

    def apply(self, worker: WorkerId, event: Event, *, model: str = "") -> None:
        """Apply a cache event from the engine of *worker*. *model* has the form of the argument of `scope_of`. O(blocks
        of *event*).
        """
        engine = self._engines.get(worker)
        if engine is None or engine.model != model:
            self.join(worker, model=model)
            engine = self._engines[worker]
        if isinstance(event, Stored):
            self._stored(engine, event)
        elif isinstance(event, Removed):
            self._removed(engine, event)
        else:
            engine.clear()
            self._orphans.drop(engine.slot)

    def drop(self, worker: WorkerId) -> None:
        """Remove *worker* and all blocks that it reported. O(runs), plus a vectorized pass over the blocks."""
        engine = self._engines.pop(worker, None)
        if engine is None:
            return
        engine.clear()
        engine.slower[Tier.SHARED].clear()
        self._orphans.drop(engine.slot)
        self._models[engine.model] &= ~engine.bit
        self._slots.give_back(engine.slot)

    def match(self, prefix: Prefix) -> Mapping[WorkerId, Hit]:
        """Return the number of leading blocks of *prefix* that each worker can use. Workers without any of these blocks
        are left out.

        A missing block ends the match, because a block is useful only if all blocks before it are present. O(nodes on
        the path + workers).
        """
        path = self._tree.path(prefix.hashes)
        if not path:
            return {}
        if any([node.slower for node, _ in path]):  # noqa: C419  # faster
            return self._match_all_tiers(path)
        hits: dict[WorkerId, Hit] = {}
        alive, before = path[0][0].gpu.workers(), 0
        for node, shared in path:
            gpu = node.gpu
            leaving = alive & ~gpu.full
            for slot, held in gpu.partial.items() if leaving and gpu.partial else ():
                if leaving >> slot & 1:
                    leaving ^= 1 << slot
                    blocks = before + min(shared, _leading(held))
                    if blocks:
                        hits[self._slots.worker(slot)] = Hit(blocks)
            if leaving and before:
                hits.update(dict.fromkeys(self._slots.workers(leaving), Hit(before)))
            alive &= gpu.full
            before += shared
        hits.update(dict.fromkeys(self._slots.workers(alive), Hit(before)))
        return hits

    def match_in(self, prefix: Prefix, tier: Tier) -> Mapping[WorkerId, int]:
        """Return how many leading blocks of *prefix* each worker holds in *tier* alone. O(path + workers)."""
        number, path = NUMBERS[tier], self._tree.path(prefix.hashes)
        hits: dict[WorkerId, int] = {}
        alive, before = path[0][0].workers(number) if path else 0, 0
        for node, shared in path:
            for slot in bits(alive):
                held = _leading(node.held(number, slot))
                if held < shared:
                    alive ^= 1 << slot
                    if before + held:
                        hits[self._slots.worker(slot)] = before + held
            before += shared
        hits.update(dict.fromkeys(self._slots.workers(alive), before))
        return hits

    def held(self, worker: WorkerId) -> int:
        """Return the number of blocks that *worker*'s engine has reported in all tiers except the shared one."""
        return sum(self.held_in(worker, tier) for tier in _OWN)

    def held_in(self, worker: WorkerId, tier: Tier) -> int:
        """Return the number of blocks that *worker*'s engine has reported in *tier*. Copies are not counted."""
        engine = self._engines.get(worker)
        if engine is None:
            return 0
        return len(engine.gpu if tier is Tier.GPU else engine.slower[tier])

    def capacity_of(self, worker: WorkerId, tier: Tier) -> int | None:
        """Return the number of blocks that *tier*, a slower tier of *worker*, can hold.

        It is the largest number of blocks that the tier has held when it removed one. None: it has removed none yet.
        """
        engine = self._engines.get(worker)
        return None if engine is None else engine.capacities.get(tier)

    def engine_hash(self, worker: WorkerId, prefix: Prefix) -> int | None:
        """Return the hash that the engine of *worker* uses for the first block of *prefix*. O(blocks of the worker).

        None: the block is not on its GPU.
        """
        engine, path = self._engines.get(worker), self._tree.path(prefix.hashes)
        return None if engine is None or not path else engine.gpu.hash_at(path[0][0].place(0))

    def block_size(self, worker: WorkerId) -> int | None:
        """Return the most frequent block size of *worker* in tokens, or None if the engine of *worker* has not reported
        a block yet.
        """
        sizes = self.block_sizes(worker)
        return max(sizes, key=sizes.__getitem__) if sizes else None

    def block_sizes(self, worker: WorkerId) -> Mapping[int, int]:
        """Return the number of blocks of each block size in tokens that *worker* reported. LMCache blocks are larger
        than engine blocks.
        """
        engine = self._engines.get(worker)
        return engine.block_sizes if engine else {}

    @property
    def waiting(self) -> int:
        """Number of blocks that wait for an unknown parent block."""
        return len(self._orphans)

    @property
    def size_bytes(self) -> int:
        """Memory used by the index, in bytes, estimated from object sizes."""
        return len(self._engines) * ENGINE_BYTES + self._tree.size_bytes + self._orphans.size_bytes

    def _stored(self, engine: Engine, event: Stored) -> None:
        hashes, extras = event.hashes, event.extras
        ids = _packed(event)
        if ids is None or not _are_hashes(hashes) or (extras is not None and len(extras) != len(hashes)):
            self.counts.refused += 1
            return
        if not self._make_room(len(hashes)):
            return
        if not ids:
            self._stored_by_hash(engine, event)
            return
        run = OrphanRun(engine.slot, event.parent or 0, hashes, event.tier, ids, event.block_size, extras)
        if event.parent is None:
            scope = scope_of(engine.model, event.adapter, event.salt)
            root = self._hasher.root(scope, event.block_size)
            self._extend(engine, run, self._tree.root, 0, root, copies=False)
        elif not self._follow(engine, run):
            self._orphans.park(run)
            return
        self._attach(engine, hashes)

    def _stored_by_hash(self, engine: Engine, event: Stored) -> None:
        """Store blocks that were reported without tokens, with the tokens that the same hashes have in another tier."""
        for engine_hash in event.hashes:
            run = OrphanRun(engine.slot, engine_hash, [engine_hash], event.tier)
            if not self._follow(engine, run):
                self._orphans.park(run)

    def _follow(self, engine: Engine, run: OrphanRun) -> bool:
        """Store *run* if the block that the run waits for is known. Return whether it was stored."""
        found = engine.find(run.awaited)
        if found is None:
            return False
        node, offset = found
        if run.ids:
            self._extend(engine, run, node, offset + 1, node.key(offset), copies=True)
        else:
            engine.pool(run.tier).put(run.hashes, [(node, offset, 1)], copies=True)
        return True

    def _extend(self, engine: Engine, run: OrphanRun, node: Node, offset: int, after: int, *, copies: bool) -> None:
        """Store *run* after the first *offset* blocks of *node*. *after* is the key of the last of these blocks."""
        position = node.start + offset
        keys = self._hasher.chain(after, position, run.ids, block_size=run.block_size, extras=run.extras)
        found = self._tree.grow(node, offset, keys, engine.slot)
        engine.learn_block_size(run.block_size, len(run.hashes))
        pool = engine.pool(run.tier)
        if not run.gone:
            pool.put(run.hashes, found, copies=copies)
            return
        blocks = [(one, first + at, 1) for one, first, count in found for at in range(count)]
        gone = [
            (engine_hash, one.place(at))
            for engine_hash, (one, at, _) in zip(run.hashes, blocks, strict=True)
            if engine_hash in run.gone
        ]
        left = [
            (engine_hash, block)
            for engine_hash, block in zip(run.hashes, blocks, strict=True)
            if engine_hash not in run.gone
        ]
        pool.put([engine_hash for engine_hash, _ in left], [block for _, block in left], copies=copies)
        for engine_hash, place in gone:
            engine.remember(engine_hash, place)
        self._tree.prune(found[-1][0])

    def _attach(self, engine: Engine, hashes: list[int]) -> None:
        """Store the runs that wait for any of *hashes*, and then all runs that wait for the blocks just stored."""
        waiting = self._orphans.claim(engine.slot, hashes)
        while waiting:
            run = waiting.pop()
            left = len(run.hashes) - len(run.gone)
            if self._make_room(left) and self._follow(engine, run):
                self.counts.attached += left
                waiting += self._orphans.claim(engine.slot, run.hashes)

    def _make_room(self, blocks: int) -> bool:
        """Free memory for *blocks* blocks, if necessary by dropping blocks in slower tiers. Return whether there is
        enough memory.
        """
        most = self.max_bytes - self._orphans.max_bytes - len(self._engines) * ENGINE_BYTES
        need = blocks * (NEW_BYTES + HASH_BYTES) + MAX_NEW_NODES * NODE_BYTES
        while need + self._tree.size_bytes > most:
            slower = (pool for engine in self._engines.values() for pool in engine.slower.values())
            largest = max(slower, key=len)
            before = len(largest)
            if not before:
                self.counts.crowded_out += blocks
                return False
            largest.forget_oldest(1 + int(before * FORGOTTEN_SHARE))
            self.counts.forgotten += before - len(largest)
        return True

    def _removed(self, engine: Engine, event: Removed) -> None:
        for engine_hash in event.hashes:
            if engine.remove(engine_hash, event.tier):
                continue
            if self._orphans.remove(engine.slot, engine_hash, event.tier):
                self.counts.unparked += 1
            else:
                self.counts.unknown_removals += 1

    def _match_all_tiers(self, path: list[tuple[Node, int]]) -> Mapping[WorkerId, Hit]:
        hits: dict[WorkerId, Hit] = {}
        loads: dict[int, Hit] = {}
        first = path[0][0]
        alive = self._shared(first)[0] | first.workers(GPU) | first.workers(CPU) | first.workers(DISK)
        before = 0
        for node, shared in path:
            reach, in_shared = self._shared(node)
            for slot in bits(alive & ~node.gpu.full):
                gpu, cpu, disk = node.held(GPU, slot), node.held(CPU, slot), node.held(DISK, slot)
                more = _usable(gpu, cpu, disk, in_shared if reach >> slot & 1 else 0, most=shared)
                hit = loads[slot] = _sum(before, loads.get(slot), more)
                if more.blocks < shared:
                    alive ^= 1 << slot
                    if hit.blocks:
                        hits[self._slots.worker(slot)] = hit
            before += shared
        for slot in bits(alive):
            hits[self._slots.worker(slot)] = _sum(before, loads.get(slot), _NOTHING)
        return hits

    def _shared(self, node: Node) -> tuple[int, int]:
        """Return the bitmasks of the workers that can load shared blocks of *node*, and of these blocks."""
        claimed = node.workers(SHARED)
        if not claimed:
            return 0, 0
        blocks = 0
        for slot in bits(claimed):
            blocks |= node.held(SHARED, slot)
        any_of_them = self._slots.worker(claimed.bit_length() - 1)
        return self._models[self._engines[any_of_them].model], blocks

    def _check(self) -> None:
        """Check all invariants of the index. Raise AssertionError if one is violated. O(index)."""
        held: dict[tuple[int, int, int], int] = {}
        models: dict[str, int] = {}
        for worker, engine in self._engines.items():
            held |= engine.check()
            models[engine.model] = models.get(engine.model, 0) | engine.bit
            assert self._slots.worker(engine.slot) == worker
        self._tree.check(held)
        if not held:
            assert self._tree.size_bytes == 0
        self._orphans.check()
        assert models == {model: workers for model, workers in self._models.items() if workers}


def _packed(event: Stored) -> TokenIds | None:
    """Return the packed tokens of *event*. The result is empty if the event has only hashes, and None if the tokens do
    not fill the blocks.
    """
    ids = event.token_ids
    if not isinstance(ids, bytes):
        try:
            ids = pack(ids)
        except ValueError:
            return None
    return ids if not ids or len(ids) == len(event.hashes) * event.block_size * TOKEN_BYTES else None


def _are_hashes(hashes: list[int]) -> bool:
    """Return whether all *hashes* are unsigned 64-bit integers."""
    try:
        array("Q", hashes)
    except OverflowError:
        return False
    return True


def _leading(blocks: int) -> int:
    """Return the number of leading blocks that are set in the bitmask *blocks*."""
    return (~blocks & (blocks + 1)).bit_length() - 1


def _usable(gpu: int, cpu: int, disk: int, shared: int, *, most: int) -> Hit:
    """Return the cache hit within the first *most* blocks, given the bitmask of a worker's blocks in each tier."""
    blocks = min(most, _leading(gpu | cpu | disk | shared))
    left = (1 << blocks) - 1 & ~gpu
    from_cpu, left = left & cpu, left & ~cpu
    from_disk, left = left & disk, left & ~disk
    return Hit(blocks, from_cpu.bit_count(), from_disk.bit_count(), left.bit_count())


def _sum(before: int, loads: Hit | None, more: Hit) -> Hit:
    """Add *before* blocks to the cache hit *more*. *loads* has the blocks among them that are not on the GPU."""
    if loads is None:
        return Hit(before + more.blocks, more.cpu, more.disk, more.shared)
    return Hit(before + more.blocks, loads.cpu + more.cpu, loads.disk + more.disk, loads.shared + more.shared)
