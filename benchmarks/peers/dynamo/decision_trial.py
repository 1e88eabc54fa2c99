"""Measurement of a decision: from the token ids of a long prompt to the worker that gets it.

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
"""16,384 tokens."""
KINDS = ("turn", "system", "new")
CONVERSATIONS = 64
"""Number of conversations of that length; "turn" continues one each."""
PROMPTS = 25
REPEATS = 4

Decide = Callable[[list[int]], Awaitable[int]]
"""The worker that a prompt of these token ids should be sent to. Nothing is booked."""


@dataclass(slots=True)
class Decided:
    """Result of one process."""

    decision_us: dict[str, float] = field(default_factory=dict)
    """Median, from a list of token ids, by kind of prompt."""
    p99_us: dict[str, float] = field(default_factory=dict)
    packed_us: dict[str, float] = field(default_factory=dict)
    """Median, from ids that are packed already, where a side takes them."""
    parts_us: dict[str, float] = field(default_factory=dict)
    """Median of parts of a decision, of all kinds of prompts, where they can be distinguished."""
    wrong: int = 0
    """Decisions for a worker that has less of the prompt than another: none of them has anything to do."""


class Situation:
    """Workers with full caches, and the prompts that come. The same for the same arguments."""

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
    """Decide where each of *prompts* should go, several times, one after the other."""
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
