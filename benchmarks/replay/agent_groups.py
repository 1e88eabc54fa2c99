"""Generated sessions of coding agents that spawn groups of sub-agents, from published statistics.

No recorded trace with sub-agents is small and free enough to be shipped. The numbers below come from these sources:

* Weka: sessions of coding agents with sub-agents, published by SemiAnalysis as `cc-traces-weka` data sets. The tools of
  an agent take 12,439 to 12,974 tokens in the first traces, its system prompt 2,771 to 4,243 tokens.
* catalog: the workload catalog of inference-perf, `workload-catalog/code-generation` and `agentic-trace-replay`.
* synthetic: the defaults of inference-perf's generator, `docs/synthetic_agentic.md`.
* pauses: half of the next requests after 2 s, nine of ten after 24 s (vllm-project/router, issue 285).

The sizes of groups, a median of 7 and one group of ten above 51, are those that the design of the router assumes.
"""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from replay.trace import Recorded, Trace

BLOCK_TOKENS = 512
Z_90 = 1.2816
"""Standard deviations between the median and the 90th percentile of a normal distribution."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Log-normal distribution by its median and its 90th percentile, with limits."""

    median: float
    p90: float
    least: float
    most: float

    @classmethod
    def of_moments(cls, mean: float, deviation: float, least: float, most: float) -> "LogNormal":
        """Return the distribution with a mean and a standard deviation."""
        variance = math.log(1 + (deviation / mean) ** 2)
        median = mean * math.exp(-variance / 2)
        return cls(median, median * math.exp(Z_90 * math.sqrt(variance)), least, most)

    def draw(self, rng: random.Random) -> float:
        sigma = math.log(self.p90 / self.median) / Z_90
        return min(self.most, max(self.least, rng.lognormvariate(math.log(self.median), sigma)))


SYSTEM_TOKENS = 16_384
"""Tools and system prompt of an agent (Weka). All parents share one, and all sub-agents another."""
CONTEXT_TOKENS = LogNormal.of_moments(28_000, 20_000, 2_000, 100_000)
"""Context that a parent gives to all sub-agents of a group. Together with the system prompt, it has on average as many
tokens as calls share, 44,600 (catalog, agentic-trace-replay)."""
TURN_TOKENS = LogNormal.of_moments(1_500, 1_200, 100, 10_000)
"""New tokens of a request: a sub-agent's own task, or the results of tools (catalog, code-generation)."""
OUTPUT_TOKENS = LogNormal.of_moments(425, 825, 50, 2_000)
"""Tokens of an answer (catalog, code-generation, whose limit is 10,000)."""
PAUSE_S = LogNormal(2.0, 24.0, 0.1, 120.0)
GROUP_SIZE = LogNormal(7.0, 51.0, 2.0, 96.0)
CALLS = (1, 5)
"""Fewest and most requests of a sub-agent: three on average (synthetic: two rounds of tools and an answer)."""
GROUPS = (1, 3)
"""Fewest and most groups that a session spawns, one after the other."""
OWN_CALLS = (2, 5)
"""Fewest and most requests of a parent before each group and after the last."""


class _Writer:
    """Requests of a trace with ids of blocks. An id is used for one block after one prefix alone."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ids = itertools.count()
        self.requests: list[Recorded] = []

    def blocks(self, tokens: float) -> tuple[int, ...]:
        """Return new ids for the full blocks of *tokens* tokens."""
        return tuple(next(self._ids) for _ in range(int(tokens) // BLOCK_TOKENS))

    def session(self, name: str, blocks: tuple[int, ...], *, group: str | None = None) -> "_Session":
        return _Session(self, self._rng, name, blocks, group)


class _Session:
    """Prompt of a session, to which every request and its answer is appended."""

    def __init__(
        self, writer: _Writer, rng: random.Random, name: str, blocks: tuple[int, ...], group: str | None
    ) -> None:
        self._writer = writer
        self._rng = rng
        self._name = name
        self._blocks = blocks
        self._tokens = len(blocks) * BLOCK_TOKENS
        self._group = group
        self._begun = False

    def ask(self, *, spawns: str | None = None, more_tokens: float = 0.0) -> int:
        """Append a request with *more_tokens* besides the usual new ones. Return the tokens of its answer."""
        self._grow(TURN_TOKENS.draw(self._rng) + more_tokens)
        output = int(OUTPUT_TOKENS.draw(self._rng))
        wait_s = PAUSE_S.draw(self._rng) if self._begun else 0.0
        self._begun = True
        number = len(self._writer.requests)
        prompt, tokens = self._blocks, self._tokens
        self._grow(output)
        # An engine does not compute the last token that it generates.
        filled = (tokens + output - 1) // BLOCK_TOKENS
        answer = self._blocks[len(prompt) : filled]
        self._writer.requests.append(
            Recorded(number, self._name, wait_s, tokens, output, prompt, answer, self._group, spawns)
        )
        return output

    def _grow(self, tokens: float) -> None:
        self._tokens += int(tokens)
        self._blocks += self._writer.blocks(self._tokens - len(self._blocks) * BLOCK_TOKENS)


def generated(seed: int, sessions: int) -> Trace:
    """Return a closed loop of *sessions* sessions, each of which spawns groups of sub-agents."""
    rng = random.Random(seed)
    writer = _Writer(rng)
    parents, agents = writer.blocks(SYSTEM_TOKENS), writer.blocks(SYSTEM_TOKENS)
    for number in range(sessions):
        _write_session(writer, rng, str(number), parents, agents)
    return Trace(BLOCK_TOKENS, True, writer.requests)


def _write_session(
    writer: _Writer, rng: random.Random, name: str, parents: tuple[int, ...], agents: tuple[int, ...]
) -> None:
    """Write one session and, after its own requests, the sessions of all its sub-agents."""
    parent = writer.session(name, parents)
    reports = 0.0
    groups = [f"{name}/{number}" for number in range(rng.randint(*GROUPS))]
    spawned = []
    for group in groups:
        for _ in range(rng.randint(*OWN_CALLS) - 1):
            parent.ask(more_tokens=reports)
            reports = 0.0
        parent.ask(spawns=group, more_tokens=reports)
        size = round(GROUP_SIZE.draw(rng))
        spawned.append((group, size))
        # The parent reads a short report of each sub-agent.
        reports = size * 250.0
    for _ in range(rng.randint(*OWN_CALLS)):
        parent.ask(more_tokens=reports)
        reports = 0.0
    for group, size in spawned:
        _write_group(writer, rng, group, size, agents)


def _write_group(writer: _Writer, rng: random.Random, group: str, size: int, agents: tuple[int, ...]) -> None:
    shared = agents + writer.blocks(CONTEXT_TOKENS.draw(rng))
    for number in range(size):
        agent = writer.session(f"{group}/{number}", shared, group=group)
        for _ in range(rng.randint(*CALLS)):
            agent.ask()


def shared_blocks(trace: Trace) -> dict[str, int]:
    """Return the number of leading blocks that all prompts of each group share, by group."""
    found: dict[str, tuple[int, ...]] = {}
    for request in trace.requests:
        if request.group is not None:
            before = found.get(request.group, request.blocks)
            found[request.group] = before[: sum(1 for _ in _common(before, request.blocks))]
    return {group: len(blocks) for group, blocks in found.items()}


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> Iterator[int]:
    return (a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
