"""One strategy before one load, and many of them on as many processes as there are to be."""

import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.progress import progress
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.scenarios.arrivals import ConstantConcurrency, SessionsAtRate
from benchmarks.scenarios.contexts import BLOCK_TOKENS, Contexts
from benchmarks.scenarios.conversations import Conversations
from benchmarks.scenarios.outcome import Outcome
from replay.run import Run
from replay.setting import Setting, TimingModel
from replay.trace import Trace
from replay.workload import ClosedLoop, OpenLoop, Workload

CACHE_TOKENS = 307_328
"""KV cache of one worker, as the pods of a published benchmark have it with a 32B model (llm-d, 8 pods)."""
STRATEGIES = ("round_robin", "prefix_aware", "kv_aware")
"""Strategies that are compared everywhere. Round robin is the case of no routing before a plain load balancer."""
NO_FILE = Path()
"""The requests are made up: no trace is read."""


class Load(Protocol):
    """The requests, and their times. The same seed gives the same requests to every policy."""

    def made(self, seed: int) -> tuple[Trace, Workload]: ...


@dataclass(frozen=True, slots=True)
class AtRate:
    """Questions come as a Poisson process, independently of those before."""

    contexts: Contexts
    per_s: float

    def made(self, seed: int) -> tuple[Trace, Workload]:
        trace = self.contexts.trace(seed)
        return trace, OpenLoop(trace.requests, random.Random(seed), speed=1.0, poisson_per_s=self.per_s)


@dataclass(frozen=True, slots=True)
class InFlight:
    """Keeps a number of questions running: a client with an answer asks again at once."""

    contexts: Contexts
    in_flight: int

    def made(self, seed: int) -> tuple[Trace, Workload]:
        trace = self.contexts.trace(seed)
        return trace, ConstantConcurrency(trace.requests, in_flight=self.in_flight)


@dataclass(frozen=True, slots=True)
class Users:
    """Keeps a number of users busy, each with one conversation after the other."""

    conversations: Conversations
    users: int

    def made(self, seed: int) -> tuple[Trace, Workload]:
        trace = self.conversations.trace(seed)
        return trace, ClosedLoop(trace.requests, random.Random(seed), users=self.users, speed=1.0)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Conversations begin as a Poisson process, independently of those before."""

    conversations: Conversations
    begin_per_s: float

    def made(self, seed: int) -> tuple[Trace, Workload]:
        trace = self.conversations.trace(seed)
        return trace, SessionsAtRate(trace.requests, random.Random(seed), begin_per_s=self.begin_per_s)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Simulated engines, one GPU each, at the rates of `engine_model.timing`."""

    workers: int
    cache_tokens: int = CACHE_TOKENS
    timing: TimingModel = "fifo"

    def setting(self) -> Setting:
        return Setting("", NO_FILE, self.workers, self.cache_tokens // BLOCK_TOKENS, timing=self.timing)


@dataclass(frozen=True, slots=True)
class Trial:
    load: Load
    fleet: Fleet
    strategy: str
    seed: int

    def outcome(self) -> Outcome:
        """Raises ``EngineError`` where a prompt does not fit into a worker's cache."""
        trace, workload = self.load.made(self.seed)
        setting = self.fleet.setting()
        run = Run(trace, setting, ENTRANTS[self.strategy], seed=self.seed, workload=workload)
        return Outcome.of(run.answers(), self.fleet.workers)


@dataclass(frozen=True, slots=True)
class Case:
    """A load before a fleet, to be tried with every strategy."""

    name: str
    load: Load
    fleet: Fleet


@dataclass(frozen=True, slots=True)
class Bench:
    """Number of repetitions, processes at a time, and strategies."""

    seeds: Sequence[int]
    processes: int = 1
    strategies: Sequence[str] = field(default=STRATEGIES)

    def outcomes(self, cases: Sequence[Case]) -> list[Mapping[str, list[Outcome]]]:
        """Return the outcomes of each strategy by seed, for each case in their order."""
        trials = [
            Trial(case.load, case.fleet, strategy, seed)
            for case in cases
            for strategy in self.strategies
            for seed in self.seeds
        ]
        what = cases[0].name if len(cases) == 1 else f"{len(cases)} cases of {cases[0].name}"
        found = iter(_all(trials, what, self.processes))
        return [{strategy: [next(found) for _ in self.seeds] for strategy in self.strategies} for _ in cases]

    def with_one_seed(self) -> "Bench":
        """Return a bench for tables that show how something moves, not how much it spreads."""
        return Bench(self.seeds[:1], self.processes, self.strategies)


def _all(trials: Sequence[Trial], what: str, processes: int) -> list[Outcome]:
    if processes == 1:
        return list(progress(map(Trial.outcome, trials), what, len(trials)))
    with ProcessPoolExecutor(processes) as pool:
        return list(progress(pool.map(Trial.outcome, trials), what, len(trials)))
