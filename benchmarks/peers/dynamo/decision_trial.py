"""Measurement of routing decisions, from the token ids of a long prompt to the chosen worker.

The same steps for every index, in a process of its own. Standard library only, because the environments of
peers import it as well.
"""

import argparse
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.dynamo.caches import Announcement, Caches, Prompt

PROMPT_BLOCKS = 1024
"""Length of a prompt in blocks, which are 16,384 tokens."""
KINDS = ("turn", "system", "new")
CONVERSATIONS = 64
"""Number of conversations of that length. Each prompt of the kind "turn" continues one of them."""
PROMPTS = 25
REPEATS = 4

Decide = Callable[[list[int]], Awaitable[int]]
"""Function that returns the best worker for a prompt of the given token ids, without reserving it."""


@dataclass(slots=True)
class Decided:
    """Result of one process of the trial."""

    decision_us: dict[str, float] = field(default_factory=dict)
    """Median microseconds of a decision from a list of token ids, by kind of prompt."""
    p99_us: dict[str, float] = field(default_factory=dict)
    packed_us: dict[str, float] = field(default_factory=dict)
    """Median microseconds of a decision from packed token ids, if the program accepts these."""
    parts_us: dict[str, float] = field(default_factory=dict)
    """Median microseconds of the parts of a decision, over all kinds of prompts, if the parts can be measured."""
    wrong: int = 0
    """Number of decisions for a worker that holds less of the prompt than another, although all workers are idle."""


class Situation:
    """Workers with full caches, and prompts. The same arguments give the same situation."""

    def __init__(self, *, seed: int, workers: int, systems: int, blocks: int) -> None:
        caches = Caches(seed, workers=workers, systems=systems)
        self.workers = workers
        self.reported: Sequence[Announcement] = [
            *caches.fill(blocks),
            *caches.lengthen(CONVERSATIONS, PROMPT_BLOCKS),
        ]
        kinds = [kind for kind in KINDS if systems or kind != "system"]
        self.prompts: Sequence[Prompt] = [caches.ask(kind, PROMPT_BLOCKS) for kind in kinds for _ in range(PROMPTS)]


async def measure(decide: Decide, prompts: Sequence[Prompt]) -> Decided:
    """Decide several times for each of *prompts*, one after the other."""
    found = Decided()
    for kind in dict.fromkeys(prompt.kind for prompt in prompts):
        times_us: list[float] = []
        for prompt, token_ids in _asked([prompt for prompt in prompts if prompt.kind == kind]):
            began = time.perf_counter()
            worker = await decide(token_ids)
            times_us.append((time.perf_counter() - began) * 1e6)
            found.wrong += prompt.held.get(worker, 0) < max(prompt.held.values(), default=0)
        found.decision_us[kind] = statistics.median(times_us)
        found.p99_us[kind] = statistics.quantiles(times_us, n=100)[-1]
    return found


def _asked(prompts: Sequence[Prompt]) -> Iterator[tuple[Prompt, list[int]]]:
    asked = [(prompt, prompt.token_ids) for prompt in prompts]
    for _ in range(REPEATS):
        yield from asked


def situation_of(arguments: argparse.Namespace) -> Situation:
    return Situation(seed=arguments.seed, workers=arguments.workers, systems=arguments.systems, blocks=arguments.blocks)
