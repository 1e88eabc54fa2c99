"""An engine that keeps a plain dictionary of its cache, and a feed that keeps another; no sockets."""

import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import msgspec

from cache_index.event import Cleared, Event, Removed, Stored, Tier
from gateway.workers.kv_events.feed import Trust

BLOCK_SIZE = 4
TOPIC = b"kv@engine@tiny"
END_SEQ = b"\xff" * 8

Content = Counter[tuple[int, Tier]]
"""Copies per block, by its hash, and tier."""


class DictFeed:
    """Keeps what it is notified."""

    def __init__(self) -> None:
        self.content: Content = Counter()
        self.states: list[Trust] = []
        self.applied: list[Event] = []
        self.restarts = 0

    def apply(self, events: Sequence[Event]) -> None:
        self.applied.extend(events)
        for event in events:
            match event:
                case Stored():
                    self.content.update((block, event.tier) for block in event.hashes)
                case Removed():
                    self.content -= Counter((block, event.tier) for block in event.hashes)
                case Cleared():
                    self.content.clear()

    def restarted(self) -> None:
        self.content.clear()
        self.restarts += 1

    def trusted(self, state: Trust) -> None:
        self.states.append(state)


class DictEngine:
    """Says what it does, as vLLM does; each batch ends with a block of its own, by which its feed's state is known.

    What it held after each batch stays in `after`, by that block.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        first_seq: int = 0,
        kept: int = 1000,
        as_arrays: bool = False,
        topic_in_replay: bool = True,
    ) -> None:
        self._rng = rng
        self.first_seq = first_seq
        self._as_arrays = as_arrays
        self._topic_in_replay = topic_in_replay
        self.after: dict[int, Content] = {}
        self.parents: dict[int, int | None] = {}
        self.tokens: dict[int, list[int]] = {}
        self.ts = 1000.0
        self._kept = kept
        self._begin_life()

    def _begin_life(self) -> None:
        self.content: Content = Counter()
        self.ring: deque[tuple[int, bytes]] = deque(maxlen=self._kept)
        self._seq = self.first_seq
        self._mark: int | None = None
        self.has_burnt = False

    def restart(self) -> None:
        """Another life; nothing is said of it."""
        self._begin_life()
        self.ts += 10.0

    @property
    def said(self) -> int:
        """Batches of this life."""
        return self._seq - self.first_seq

    def burn(self) -> None:
        """Do something, and fail to say it: the sequence is used up, and nothing is kept."""
        self.step()
        self.ring.pop()
        self.has_burnt = True

    def step(self) -> list[bytes]:
        """Do something, and say it: the frames that are published."""
        events = [self._store() if self._rng.random() < 0.6 else self._remove() for _ in range(self._rng.randrange(3))]
        if self._rng.random() < 0.03:
            self.content.clear()
            events.append(["AllBlocksCleared"])
            self._mark = None
        if self._mark is not None:
            events.append(self._removed(self._mark, "CPU"))
        (self._mark,) = self._new_blocks(1, None)
        events.append(self._stored([self._mark], "CPU"))
        self.after[self._mark] = self.content.copy()
        self.ts += 0.125
        payload = msgspec.msgpack.encode([self.ts, [self._written(event) for event in events if event], 0])
        frames = [TOPIC, self._seq.to_bytes(8, "big"), payload]
        self.ring.append((self._seq, payload))
        self._seq += 1
        return frames

    def chain_to(self, block: int | None) -> list[int]:
        """All blocks from the first of a sequence to *block*."""
        chain = []
        while block is not None:
            chain.append(block)
            block = self.parents[block]
        return chain[::-1]

    def replay(self, start: int) -> list[list[bytes]]:
        """All answers, with the end marker."""
        topic = [TOPIC] if self._topic_in_replay else []
        end = [b""] if self._topic_in_replay else []
        answers = [[b"", *topic, seq.to_bytes(8, "big"), payload] for seq, payload in self.ring if seq >= start]
        return [*answers, [b"", *end, END_SEQ, b""]]

    def _store(self) -> list[Any]:
        held = [block for block, tier in self.content if tier is Tier.GPU]
        # Equal content once more: computed by a request that holds all before it.
        inner = [block for block in held if self.parents[block] in held]
        if inner and self._rng.random() < 0.3:
            return self._stored([self._rng.choice(inner)], "GPU")
        parent = self._rng.choice(held) if held and self._rng.random() < 0.7 else None
        return self._stored(self._new_blocks(self._rng.randint(1, 3), parent), "GPU")

    def _remove(self) -> list[Any] | None:
        held = [block for block, tier in self.content if tier is Tier.GPU]
        return self._removed(self._rng.choice(held), "GPU") if held else None

    def _new_blocks(self, count: int, parent: int | None) -> list[int]:
        """One behind the other."""
        blocks = [self._rng.getrandbits(64) for _ in range(count)]
        for block in blocks:
            self.parents[block] = parent
            self.tokens[block] = [self._rng.randrange(2**17) for _ in range(BLOCK_SIZE)]
            parent = block
        return blocks

    def _stored(self, blocks: list[int], medium: str) -> list[Any]:
        tier = Tier.GPU if medium == "GPU" else Tier.CPU
        self.content.update((block, tier) for block in blocks)
        tokens = [token for block in blocks for token in self.tokens[block]]
        return ["BlockStored", blocks, self.parents[blocks[0]], tokens, BLOCK_SIZE, None, medium]

    def _removed(self, block: int, medium: str) -> list[Any]:
        tier = Tier.GPU if medium == "GPU" else Tier.CPU
        self.content -= Counter({(block, tier): 1})
        return ["BlockRemoved", [block], medium]

    def _written(self, event: list[Any]) -> Any:
        if self._as_arrays:
            return event
        names = {
            "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
            "BlockRemoved": ("block_hashes", "medium"),
            "AllBlocksCleared": (),
        }[event[0]]
        return {"type": event[0], **dict(zip(names, event[1:], strict=True))}
