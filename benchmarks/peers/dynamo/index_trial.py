"""Measurement of an index of caches, with the same steps for every index, in a separate process.

Standard library only, because the environments of peers import it as well.
"""

import gc
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.peers.dynamo.caches import Announcement, Caches, Prompt
from benchmarks.peers.dynamo.stopwatch import timed_us

CHUNK = 32
"""Number of announcements that are encoded before they are applied. A low number keeps their memory small."""
SAMPLES = 8
"""Number of memory readings while the caches fill."""
LOOKUP_BLOCKS = 272
LOOKUP_PROMPTS = 50
LOOKUP_REPEATS = 4
SINGLE_SHARE = 0.05
"""Number of blocks reported one by one, as a share of the blocks reported in runs."""
STEP_EVENTS = 8
"""Number of requests of a worker that complete a block in the same step of its engine."""
REMOVED_SHARE = 0.1
"""Share of the announcements that are removed in each of the two ways of reporting."""
REMOVED_HASHES = 32
"""Number of blocks that are reported as removed at once."""

T = TypeVar("T")


class Index(Protocol):
    """Index of the cached blocks of workers, with the interface of the benchmark. Workers are numbers."""

    def stored(self, step: Sequence[Announcement]) -> list[bytes]:
        """Return the messages of *step*, all of one worker; encoding is not timed."""
        ...

    def removed(self, hashes: Sequence[int], *, one_by_one: bool) -> list[bytes]:
        """Return the messages for removed blocks. With *one_by_one*, each block has a separate event."""
        ...

    def apply(self, worker: int, message: bytes) -> None: ...

    def prefix(self, token_ids: list[int]) -> Any:
        """Return the block hashes that the index uses for matching."""
        ...

    def match(self, prefix: Any) -> Any:
        """Return the number of leading blocks that each worker holds, in the format of the index."""
        ...

    def hits(self, matched: Any) -> dict[int, int]:
        """Return the same result in a common format for comparison. This is not timed."""
        ...


@dataclass(slots=True)
class Work:
    """Number of repetitions of an operation, and their total time."""

    blocks: int = 0
    messages: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Processor time of all threads, in seconds."""


@dataclass(slots=True)
class Measured:
    """Result of one process of the trial."""

    stored: Work = field(default_factory=Work)
    """Work of storing blocks in runs of 16 to 272."""
    stored_singly: Work = field(default_factory=Work)
    """Work of storing blocks one by one, as generated tokens complete them."""
    removed: Work = field(default_factory=Work)
    removed_singly: Work = field(default_factory=Work)
    bytes_per_block: list[float] = field(default_factory=list)
    """Growth of resident memory per block and worker, at each eighth of the trial."""
    match_us: dict[str, float] = field(default_factory=dict)
    """Median microseconds of a match from existing hashes, by kind of prompt."""
    hash_and_match_us: dict[str, float] = field(default_factory=dict)
    """Median microseconds of a match from a list of token ids, by kind of prompt."""
    wrong: int = 0
    """Number of matches that differ from the contents of the caches."""


def measure(index: Index, *, seed: int, workers: int, systems: int, blocks: int) -> Measured:
    """Fill *index*, query it, and remove part of its blocks. A block counts once for every worker that holds it."""
    caches = Caches(seed, workers=workers, systems=systems)
    reported = list(caches.fill(blocks))
    found = Measured()
    _fill(index, reported, found)
    kinds = ("whole", "system", "new") if systems else ("whole", "new")
    for kind in kinds:
        prompts = [caches.ask(kind, LOOKUP_BLOCKS) for _ in range(LOOKUP_PROMPTS)]
        found.wrong += wrong(index, prompts)
        found.match_us[kind], found.hash_and_match_us[kind] = _look_up(index, prompts)
    newest_first = reversed(reported)
    for work, one_by_one in ((found.removed, False), (found.removed_singly, True)):
        gone = list(islice(newest_first, int(len(reported) * REMOVED_SHARE)))
        _remove(index, gone, work, one_by_one=one_by_one)
        for announcement in gone:
            caches.take_back(announcement)
    _fill_singly(index, caches, int(blocks * SINGLE_SHARE), found)
    for kind in (*kinds, "gone"):
        found.wrong += wrong(index, [caches.ask(kind, LOOKUP_BLOCKS) for _ in range(LOOKUP_PROMPTS)])
    return found


def wrong(index: Index, prompts: Iterable[Prompt]) -> int:
    """Return for how many of *prompts* the answer differs from the caches."""
    return sum(index.hits(index.match(index.prefix(prompt.token_ids))) != prompt.held for prompt in prompts)


def _fill(index: Index, reported: Sequence[Announcement], found: Measured) -> None:
    for announcement in reported[:CHUNK]:
        index.stored([announcement])  # what encoding needs is allocated before memory is read
    gc.collect()
    before = resident_bytes()
    total = sum(announcement.blocks for announcement in reported)
    for chunk in chunks(reported, CHUNK):
        messages = [(each.worker, message) for each in chunk for message in index.stored([each])]
        _apply(index, messages, found.stored)
        found.stored.blocks += sum(announcement.blocks for announcement in chunk)
        if found.stored.blocks * SAMPLES // total > len(found.bytes_per_block):
            found.bytes_per_block.append((resident_bytes() - before) / found.stored.blocks)


def _fill_singly(index: Index, caches: Caches, blocks: int, found: Measured) -> None:
    for chunk in chunks(caches.generate(blocks, at_once=STEP_EVENTS), CHUNK):
        messages = [(step[0].worker, message) for step in chunk for message in index.stored(step)]
        _apply(index, messages, found.stored_singly)
        found.stored_singly.blocks += sum(announcement.blocks for step in chunk for announcement in step)


def _remove(index: Index, gone: Iterable[Announcement], work: Work, *, one_by_one: bool) -> None:
    for chunk in chunks(gone, CHUNK):
        messages = [
            (announcement.worker, message)
            for announcement in chunk
            # An engine evicts the end of a sequence before its beginning.
            for hashes in chunks(reversed(announcement.hashes), REMOVED_HASHES)
            for message in index.removed(hashes, one_by_one=one_by_one)
        ]
        _apply(index, messages, work)
        work.blocks += sum(announcement.blocks for announcement in chunk)


def _apply(index: Index, messages: Sequence[tuple[int, bytes]], work: Work) -> None:
    apply = index.apply
    began, began_cpu = time.perf_counter(), time.process_time()
    for worker, message in messages:
        apply(worker, message)
    work.wall_s += time.perf_counter() - began
    work.cpu_s += time.process_time() - began_cpu
    work.messages += len(messages)


def _look_up(index: Index, prompts: Sequence[Prompt]) -> tuple[float, float]:
    """Return median microseconds of matches from existing hashes and from token ids."""
    asked = [prompt.token_ids for prompt in prompts]
    prefixes = [index.prefix(token_ids) for token_ids in asked]
    match_us = timed_us(index.match, prefixes * LOOKUP_REPEATS)
    both_us = timed_us(lambda token_ids: index.match(index.prefix(token_ids)), asked * LOOKUP_REPEATS)
    return statistics.median(match_us), statistics.median(both_us)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield *items* in lists of *size*. The last list can be shorter."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def resident_bytes() -> int:
    """Return the resident memory of this process, as counted by Linux."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
