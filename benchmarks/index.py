"""Time and memory of the indexes of cached prefixes, compared with `pygtrie` and Dynamo's `RadixTree`.

The index of sent prompts: 64 workers hold a million blocks of 16 tokens (64 bytes of text). Prompts of 8,192 tokens
share one of 8 system prompts of 1,024 tokens, and a third of the prompts continue an earlier prompt. `pygtrie` gets the
same prompts as one trie per worker, keyed by the same block hashes, without eviction. Because `pygtrie` is slower, it
gets fewer queries.

The index of KV events: 64 workers report half a million blocks of 16 tokens, in events of 16 to 272 blocks. Warmgate
decodes the msgpack that vLLM sends and hashes the tokens. Dynamo gets the JSON that its Python binding accepts, with
token hashes computed in advance. Both programs run in turn, each time in a new process, and get the same queries.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run, for example without Dynamo.
"""

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pygtrie

from benchmarks import event_index
from benchmarks.peers.environment import NotInstalledError
from benchmarks.processes import ChildFailedError
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from cache_index import Hasher, Prefix, RadixTree, WorkerId

BLOCK_BYTES = 64
PROMPT_BLOCKS = 512  # 8,192 tokens of 16 to the block
SYSTEM_BLOCKS = 64
SYSTEM_PROMPTS = 8
LATER_TURN_SHARE = 1 / 3
MATCH_BAR_US = 200.0
PACKAGES = ("numpy", "msgspec", "pygtrie")


class Prompts:
    """Endless supply of text prompts, with the worker that gets each prompt."""

    def __init__(self, workers: Sequence[WorkerId], rng: random.Random) -> None:
        self._workers = workers
        self._rng = rng
        self._systems = [rng.randbytes(SYSTEM_BLOCKS * BLOCK_BYTES) for _ in range(SYSTEM_PROMPTS)]
        self._seen: list[tuple[WorkerId, bytes]] = []

    def next(self) -> tuple[WorkerId, bytes]:
        rng = self._rng
        if self._seen and rng.random() < LATER_TURN_SHARE:
            worker, before = rng.choice(self._seen)
            kept = rng.randrange(SYSTEM_BLOCKS, PROMPT_BLOCKS) * BLOCK_BYTES
            text = before[:kept] + rng.randbytes(PROMPT_BLOCKS * BLOCK_BYTES - kept)
        else:
            worker = rng.choice(self._workers)
            text = rng.choice(self._systems) + rng.randbytes((PROMPT_BLOCKS - SYSTEM_BLOCKS) * BLOCK_BYTES)
        self._seen.append((worker, text))
        return worker, text


class Tries:
    """Index that uses a ready-made library: a `pygtrie.Trie` per worker over tuples of block hashes."""

    def __init__(self, workers: Iterable[WorkerId]) -> None:
        self._tries = {worker: pygtrie.Trie() for worker in workers}

    def record(self, worker: WorkerId, prefix: Prefix) -> None:
        self._tries[worker][_key(prefix)] = True

    def match(self, prefix: Prefix) -> dict[WorkerId, int]:
        key = _key(prefix)
        hits = {worker: _depth(trie, key) for worker, trie in self._tries.items()}
        return {worker: blocks for worker, blocks in hits.items() if blocks}


def _key(prefix: Prefix) -> tuple[bytes, ...]:
    hashes = prefix.hashes
    return tuple(hashes[i : i + 8] for i in range(0, len(hashes), 8))


def _depth(trie: pygtrie.Trie, key: tuple[bytes, ...]) -> int:
    depth = -1  # the root is the first step
    try:
        for _ in trie.walk_towards(key):
            depth += 1
    except KeyError:
        pass
    return max(0, depth)


def main() -> int:
    arguments = parse_arguments()
    return conclude(
        "index",
        lambda: run(arguments),
        results=arguments.results,
        cannot_run=[NotInstalledError, ChildFailedError],
    )


class Bench:
    """Both indexes, filled with the same prompts."""

    def __init__(self, worker_count: int, blocks: int, seed: int) -> None:
        rng = random.Random(seed)
        self._workers = [WorkerId(f"http://10.0.0.{i}:8000") for i in range(worker_count)]
        self.hasher = Hasher(rng.randbytes(32), block_bytes=BLOCK_BYTES)
        self.tree = RadixTree(max_bytes=2**40, default_capacity=blocks)
        self.tries = Tries(self._workers)
        self.prompts = Prompts(self._workers, rng)
        self.tree_bytes = self.trie_bytes = 0
        while self.held < blocks:
            # Prefixes are made beforehand: what is traced is only what the structures keep.
            self._fill([self.prefixed() for _ in range(64)])

    @property
    def held(self) -> int:
        return sum(self.tree.held(worker) for worker in self._workers)

    def prefixed(self) -> tuple[WorkerId, Prefix]:
        worker, text = self.prompts.next()
        return worker, self.hasher.prefix(text)

    def _fill(self, chunk: list[tuple[WorkerId, Prefix]]) -> None:
        with _tracing() as kept:
            for worker, prefix in chunk:
                self.tree.record(worker, prefix)
        self.tree_bytes += kept[0]
        with _tracing() as kept:
            for worker, prefix in chunk:
                self.tries.record(worker, prefix)
        self.trie_bytes += kept[0]


def run(arguments: argparse.Namespace) -> Report:
    """Run the measurements and return the report."""
    tools = {} if arguments.without_dynamo else {"Dynamo": ", ".join(event_index.DYNAMO.requirements)}
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tools)
    report = Report("index", "The prefix indexes", circumstances)
    beside_pygtrie(report, arguments.workers, arguments.blocks, arguments.matches, arguments.seed)
    if not arguments.without_dynamo:
        event_index.beside_dynamo(report, arguments)
    return report


def beside_pygtrie(report: Report, worker_count: int, blocks: int, matches: int, seed: int) -> None:
    """Add the costs of the index of sent prompts to *report*, compared with `pygtrie`."""
    bench = Bench(worker_count, blocks, seed)
    tree, tries, hasher, held = bench.tree, bench.tries, bench.hasher, bench.held
    memory = [
        ("radix tree, as it estimates itself", tree.size_bytes / held, tree.size_bytes / 2**20),
        ("radix tree, traced", bench.tree_bytes / held, bench.tree_bytes / 2**20),
        ("pygtrie, traced", bench.trie_bytes / held, bench.trie_bytes / 2**20),
    ]
    asked = [bench.prompts.next()[1] for _ in range(matches)]
    prefixes = [hasher.prefix(text) for text in asked]
    differing = sum(tree.match(prefix) != tries.match(prefix) for prefix in prefixes[:20])
    both_us = [_timed_us(lambda text: tree.match(hasher.prefix(text)), text) for text in asked]
    rows = [
        _row("hash all blocks", [_timed_us(hasher.prefix, text) for text in asked]),
        _row("match", [_timed_us(tree.match, prefix) for prefix in prefixes]),
        _row("hash and match", both_us),
        _row("match, pygtrie", [_timed_us(tries.match, prefix) for prefix in prefixes[: max(10, matches // 50)]]),
    ]
    fresh = [bench.prefixed() for _ in range(200)]
    rows += [
        _row("record, per block", [_timed_us(tree.record, *one) / PROMPT_BLOCKS for one in fresh]),
        _row("record, per block, pygtrie", [_timed_us(tries.record, *one) / PROMPT_BLOCKS for one in fresh]),
    ]
    report.bars += [
        Bar("hash and match of an 8,192-token prompt, p50, microseconds", _percentile(both_us, 50), "<=", MATCH_BAR_US),
        Bar("matches that differ from pygtrie's", differing, "==", 0),
    ]
    times = f"What was sent: {worker_count} workers, {held:,} blocks, prompts of {PROMPT_BLOCKS} blocks (microseconds)"
    report.tables += [
        Table(times, ("", "p50", "p90", "p99"), rows),
        Table("What was sent: memory", ("", "bytes per held block", "MiB"), memory),
    ]
    report.notes.append("Held blocks count a block once for each worker that holds it. pygtrie evicts nothing.")
    report.figures |= {"held_blocks": held, "both_us": both_us}


def _timed_us(do: Callable[..., object], *arguments: object) -> float:
    begun = time.perf_counter()
    do(*arguments)
    return (time.perf_counter() - begun) * 1e6


@contextmanager
def _tracing() -> Iterator[list[int]]:
    """Append to the list the bytes that the block allocated and did not free."""
    kept: list[int] = []
    tracemalloc.start()
    try:
        yield kept
        kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


def _row(name: str, values_us: list[float]) -> tuple[str, float, float, float]:
    return name, _percentile(values_us, 50), _percentile(values_us, 90), _percentile(values_us, 99)


def _percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser("index", __doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=1_000_000, help="held blocks, over all workers")
    parser.add_argument("--matches", type=int, default=2_000)
    parser.add_argument("--without-dynamo", action="store_true", help="only what needs no installation")
    event_index.add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
