"""Host memory of one engine with copies of KV blocks, as in vLLM's OffloadingConnector.

The module follows four rules of vLLM (vllm/distributed/kv_transfer/kv_connector/v1/offloading, vllm/v1/kv_offload/cpu):

1. A block is copied to the host when the GPU has computed it, and not when the GPU evicts it. Until the eviction, both
   hold the block. A host tier that is not larger than the GPU's cache therefore adds little.
2. The least recently used block is evicted first. A request uses all blocks of its prompt, also those that it finds on
   the GPU. The last block of a sequence counts as used first, so the end of a sequence is evicted before its beginning.
3. A block that is being loaded, or that belongs to the sequence being stored, is not evicted. If too few blocks can be
   evicted, nothing is stored.
4. Loading copies a block and leaves it in the host tier. One load runs at a time, because all loads share one link.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class HostSink(Protocol):
    """Receiver of every change of a host tier, in order."""

    def offloaded(self, hashes: Sequence[Hashable]) -> None:
        """Handle blocks of which the host tier has received a copy."""
        ...

    def dropped(self, hashes: Sequence[Hashable]) -> None:
        """Handle blocks whose copies the host tier has evicted."""
        ...


class NoHostSink:
    """Ignores all changes."""

    def offloaded(self, hashes: Sequence[Hashable]) -> None:
        pass

    def dropped(self, hashes: Sequence[Hashable]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class LoadTiming:
    """Durations of loads from the host tier to the GPU."""

    tokens_per_s: float = 200_000.0
    """Number of tokens loaded per second, by default for 24 GiB/s (PCIe 4) and 128 KiB of KV cache per token."""
    fixed_s: float = 0.0
    """Seconds that each load takes in addition to the time for its blocks."""

    def __post_init__(self) -> None:
        if not self.tokens_per_s > 0:
            raise ValueError(f"tokens_per_s must be above 0, got {self.tokens_per_s}")
        if not self.fixed_s >= 0:
            raise ValueError(f"fixed_s must not be negative, got {self.fixed_s}")

    def load_s(self, tokens: int) -> float:
        """Return the seconds of a load of *tokens* tokens without concurrent loads, or 0 for no tokens."""
        return self.fixed_s + tokens / self.tokens_per_s if tokens else 0.0


@dataclass(frozen=True, slots=True)
class PullTiming:
    """Durations of pulls from the host tier of another engine, over a network."""

    latency_s: float = 0.030
    """Seconds to ask the other engine which blocks it has, and to prepare the transfer."""
    tokens_per_s: float = 100_000.0
    """Number of tokens pulled per second, including the load to the GPU."""

    def __post_init__(self) -> None:
        if not self.tokens_per_s > 0:
            raise ValueError(f"tokens_per_s must be above 0, got {self.tokens_per_s}")
        if not self.latency_s >= 0:
            raise ValueError(f"latency_s must not be negative, got {self.latency_s}")

    def pull_s(self, tokens: int) -> float:
        """Return the seconds of a pull of *tokens* tokens without concurrent pulls."""
        return self.latency_s + tokens / self.tokens_per_s


class PeerTier(Protocol):
    """Host tier of another engine, as seen by an engine that pulls blocks from it."""

    def match(self, hashes: Sequence[Hashable]) -> int:
        """Return the number of leading blocks of *hashes* that the host tier holds. The lookup changes no state."""
        ...

    def touch(self, hashes: Sequence[Hashable]) -> None:
        """Record a use of the sequence *hashes*, which starts with the first block of a prompt."""
        ...


class HostTier:
    """Copies of at most *capacity* blocks in host memory. Operations are linear in the blocks passed to them, plus
    O(evicted + pinned blocks).
    """

    def __init__(
        self,
        capacity: int,
        timing: LoadTiming | None = None,
        *,
        sink: HostSink | None = None,
        pull_timing: PullTiming | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._timing = timing if timing is not None else LoadTiming()
        self._pull_timing = pull_timing if pull_timing is not None else PullTiming()
        self._sink: HostSink = sink if sink is not None else NoHostSink()
        self._blocks: OrderedDict[Hashable, None] = OrderedDict()
        """Blocks in the host tier, least recently used block first."""
        self._pins: Counter[Hashable] = Counter()
        """Number of running loads of each block."""
        self._link_free_at = 0.0

    def __len__(self) -> int:
        return len(self._blocks)

    def match(self, hashes: Sequence[Hashable]) -> int:
        """Return the number of leading blocks of *hashes* that the host tier holds. The lookup changes no state."""
        blocks = self._blocks
        return next((number for number, block in enumerate(hashes) if block not in blocks), len(hashes))

    def touch(self, hashes: Sequence[Hashable]) -> None:
        """Record a use of the sequence *hashes*, which starts with the first block of a prompt."""
        blocks = self._blocks
        for block in reversed(hashes):
            if block in blocks:
                blocks.move_to_end(block)

    def store(self, hashes: Sequence[Hashable]) -> None:
        """Copy those blocks of the sequence *hashes* that are not in the host tier yet, if all of them fit."""
        new = [block for block in hashes if block not in self._blocks]
        if not new:
            return
        evicted = self._evictable(len(self._blocks) + len(new) - self.capacity, set(hashes))
        if evicted is None:
            return
        for block in evicted:
            del self._blocks[block]
        if evicted:
            self._sink.dropped(evicted)
        self._blocks.update(dict.fromkeys(new))
        self.touch(hashes)
        self._sink.offloaded(new)

    def begin_load(self, hashes: Sequence[Hashable], tokens: int, now: float) -> float:
        """Begin to load the blocks *hashes*, which have *tokens* tokens. Return the time when they will be on the GPU.

        The blocks are pinned until `end_load` is called.
        """
        if not hashes:
            return now
        self._pins.update(hashes)
        self._link_free_at = max(now, self._link_free_at) + self._timing.load_s(tokens)
        return self._link_free_at

    def begin_pull(self, tokens: int, now: float) -> float:
        """Begin to pull *tokens* tokens from another engine. Return the time when they will be on the GPU.

        The blocks enter this host tier when the engine stores the prompt. Pulls and loads share one link.
        """
        self._link_free_at = max(now, self._link_free_at) + self._pull_timing.pull_s(tokens)
        return self._link_free_at

    def end_load(self, hashes: Sequence[Hashable]) -> None:
        """Unpin the blocks of a load that has ended or was given up. The copying of a given up load still continues."""
        self._pins.subtract(hashes)
        for block in hashes:
            if self._pins[block] <= 0:
                del self._pins[block]

    def clear(self) -> None:
        """Remove all blocks without notifying the sink, because the block pool reports that all tiers were cleared."""
        self._blocks.clear()

    def _evictable(self, count: int, kept: set[Hashable]) -> list[Hashable] | None:
        """Return the *count* blocks to evict, which are not in *kept*, or None if there are too few blocks."""
        found: list[Hashable] = []
        if count <= 0:
            return found
        for block in self._candidates(kept):
            found.append(block)
            if len(found) == count:
                return found
        return None

    def _candidates(self, kept: set[Hashable]) -> Iterator[Hashable]:
        return (block for block in self._blocks if block not in kept and block not in self._pins)
