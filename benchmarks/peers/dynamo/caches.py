"""Invented caches of many engines and their KV events. The same seed gives the same caches for every measured index.

The module uses only the standard library, because the environments of peers import it too. Data that can be computed
again is not stored, so that the memory of the process is the memory of the index.
"""

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BLOCK_TOKENS = 16
FEWEST_BLOCKS, MOST_BLOCKS = 16, 272
"""Minimum and maximum number of blocks in one announcement."""
SYSTEM_BLOCKS = 64
LATER_TURN_SHARE = 1 / 3
MOST_TURNS_BLOCKS = 1024
"""Maximum length in blocks of conversations that continue."""
TOKEN_BYTES = 4
TOKEN_BITS = 17  # a vocabulary of 131,072: half of its ids take 5 bytes in msgpack, the other half 3
HASH_FACTOR = 0x9E3779B97F4A7C15  # odd, so that different products modulo 2^64 come of different numbers
POSITION_BITS = 12


class Run(NamedTuple):
    """Blocks that were computed together. The same key and the same preceding tokens stand for the same tokens."""

    key: int
    blocks: int

    @property
    def hashes(self) -> list[int]:
        """Return the engine's block hashes, which cover all preceding blocks. Engines with the same seed have equal
        hashes.
        """
        return [self.hash_at(place) for place in range(self.blocks)]

    def hash_at(self, place: int) -> int:
        return ((self.key << POSITION_BITS) + place) * HASH_FACTOR & 0xFFFF_FFFF_FFFF_FFFF

    @property
    def tokens(self) -> bytes:
        """Return token ids as little-endian uint32. A shortened run returns its first tokens."""
        size = self.blocks * BLOCK_TOKENS * TOKEN_BYTES
        bits = int.from_bytes(random.Random(self.key).randbytes(size), "little")
        mask = ((1 << TOKEN_BITS) - 1).to_bytes(TOKEN_BYTES, "little") * (size // TOKEN_BYTES)
        return (bits & int.from_bytes(mask, "little")).to_bytes(size, "little")


class Announcement(NamedTuple):
    """KV event: *worker* has stored *runs*, one after the other, after the block *parent*."""

    worker: int
    parent: int | None
    runs: tuple[Run, ...]

    @property
    def blocks(self) -> int:
        return sum(run.blocks for run in self.runs)

    @property
    def hashes(self) -> list[int]:
        return [value for run in self.runs for value in run.hashes]

    @property
    def tokens(self) -> bytes:
        """Return token ids as little-endian uint32."""
        return b"".join(run.tokens for run in self.runs)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt, with the number of leading blocks that each worker holds. Workers without such blocks are absent."""

    kind: str
    runs: tuple[Run, ...]
    held: dict[int, int]

    @property
    def token_ids(self) -> list[int]:
        return array("I", b"".join(run.tokens for run in self.runs)).tolist()


class Caches:
    """Caches of *workers* engines, filled by invented conversations.

    Every conversation begins with one of *systems* system prompts of 64 blocks; with none of them, no two workers have
    a block in common. A third of the announcements goes on from an earlier one of the same worker.
    """

    def __init__(self, seed: int, *, workers: int, systems: int) -> None:
        self._rng = random.Random(seed)
        self._next_key = seed << 32
        self._workers = workers
        self._systems = [self._run(SYSTEM_BLOCKS) for _ in range(systems)]
        self._holders: dict[int, set[int]] = {}
        self.conversations: list[tuple[int, tuple[Run, ...]]] = []
        """Worker and runs of each conversation."""

    def fill(self, blocks: int) -> Iterator[Announcement]:
        """Yield the events of the engines until they hold about *blocks* blocks."""
        reported = 0
        while reported < blocks:
            announcement = self._later_turn() if self._rng.random() < LATER_TURN_SHARE else self._first_turn()
            reported += announcement.blocks
            yield announcement

    def ask(self, kind: str, blocks: int) -> Prompt:
        """A prompt of *blocks* blocks.

        *kind* is "turn": all but the last 1/16 of it is a conversation that one worker has; "system": it begins with a
        system prompt, and the rest is new; "new": no one has any of it; "whole": one worker had all of it, and has it
        still unless it was taken back; "gone": one worker had all of it, and some of it was taken back, and this one
        may be shorter.

        Raises:
            ValueError: no worker has a conversation that is long enough, there is no system prompt, nothing is gone.
        """
        if kind == "gone":
            runs = self._gone(blocks)
            return Prompt(kind, runs, self._held(runs))
        known: tuple[Run, ...] = ()
        if kind == "system":
            if not self._systems:
                raise ValueError("these caches have no system prompts")
            known = (self._rng.choice(self._systems),)
        elif kind in {"turn", "whole"}:
            known = self._conversation_of(blocks if kind == "whole" else blocks - blocks // 16)
        new = blocks - sum(run.blocks for run in known)
        runs = (*known, self._run(new)) if new else known
        return Prompt(kind, runs, self._held(runs))

    def lengthen(self, conversations: int, blocks: int) -> Iterator[Announcement]:
        """Yield the events for *conversations* more conversations of about *blocks* blocks each."""
        for _ in range(conversations):
            yield self._first_turn()
            while self._length(-1) < blocks:
                yield self._go_on(len(self.conversations) - 1)

    def generate(self, blocks: int, *, at_once: int) -> Iterator[list[Announcement]]:
        """Yield events for *blocks* generated blocks, each reported alone. Blocks of a step belong to one worker."""
        alive: dict[int, list[tuple[Run, ...]]] = {}
        for worker, runs in self.conversations:
            if worker in self._holders[runs[-1].key]:
                alive.setdefault(worker, []).append(runs)
        busy = sorted(worker for worker, conversations in alive.items() if len(conversations) >= at_once)
        for _ in range(blocks // at_once):
            worker = self._rng.choice(busy)
            own = alive[worker]
            step = []
            for place in self._rng.sample(range(len(own)), at_once):
                step.append(self._announce(worker, own[place], (self._run(1),)))
                own[place] = (*own[place], *step[-1].runs)
            yield step

    def take_back(self, announcement: Announcement) -> None:
        """Record that the worker has evicted the blocks of an announcement."""
        for run in announcement.runs:
            self._holders[run.key].discard(announcement.worker)

    def _first_turn(self) -> Announcement:
        worker = self._rng.randrange(self._workers)
        own = self._run(self._rng.randint(FEWEST_BLOCKS, MOST_BLOCKS - SYSTEM_BLOCKS))
        if not self._systems:
            return self._tell(worker, (), (own,))
        system = self._rng.choice(self._systems)
        if worker in self._holders.get(system.key, ()):
            return self._tell(worker, (system,), (own,))
        return self._tell(worker, (), (system, own))

    def _later_turn(self) -> Announcement:
        if not self.conversations:
            return self._first_turn()
        conversation = self._rng.randrange(len(self.conversations))
        return self._first_turn() if self._length(conversation) >= MOST_TURNS_BLOCKS else self._go_on(conversation)

    def _go_on(self, conversation: int) -> Announcement:
        worker, runs = self.conversations.pop(conversation)
        return self._tell(worker, runs, (self._run(self._rng.randint(FEWEST_BLOCKS, MOST_BLOCKS)),))

    def _tell(self, worker: int, before: tuple[Run, ...], runs: tuple[Run, ...]) -> Announcement:
        self.conversations.append((worker, (*before, *runs)))
        return self._announce(worker, before, runs)

    def _announce(self, worker: int, before: tuple[Run, ...], runs: tuple[Run, ...]) -> Announcement:
        for run in runs:
            self._holders.setdefault(run.key, set()).add(worker)
        return Announcement(worker, before[-1].hash_at(before[-1].blocks - 1) if before else None, runs)

    def _run(self, blocks: int) -> Run:
        self._next_key += 1
        return Run(self._next_key, blocks)

    def _length(self, conversation: int) -> int:
        return sum(run.blocks for run in self.conversations[conversation][1])

    def _conversation_of(self, blocks: int) -> tuple[Run, ...]:
        """Return the first *blocks* blocks of a conversation that a worker holds."""
        long_enough = [runs for _, runs in self.conversations if sum(run.blocks for run in runs) >= blocks]
        if not long_enough:
            raise ValueError(f"no conversation has {blocks} blocks")
        return _cut(self._rng.choice(long_enough), blocks)

    def _gone(self, blocks: int) -> tuple[Run, ...]:
        """Return at most *blocks* blocks of a conversation that its worker has partly evicted."""
        had = [(worker, _cut(runs, blocks)) for worker, runs in self.conversations]
        gone = [runs for worker, runs in had if any(worker not in self._holders[run.key] for run in runs)]
        if not gone:
            raise ValueError("nothing was taken back")
        return self._rng.choice(gone)

    def _held(self, runs: Sequence[Run]) -> dict[int, int]:
        held: dict[int, int] = {}
        depth = 0
        for run in runs:
            holders = self._holders.get(run.key, set())
            for worker in holders:
                if held.get(worker, 0) == depth:
                    held[worker] = depth + run.blocks
            depth += run.blocks
        return held


def _cut(runs: Sequence[Run], blocks: int) -> tuple[Run, ...]:
    """Return the first *blocks* blocks of *runs*, which have at least that many."""
    cut: list[Run] = []
    for run in runs:
        if blocks > 0:
            cut.append(Run(run.key, min(run.blocks, blocks)))
        blocks -= run.blocks
    return tuple(cut)
