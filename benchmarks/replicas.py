"""Loss of two gateways behind a load balancer against one, with Redis and without, and when one is killed.

Slices of recorded traffic go through a real HAProxy, each request to the next gateway, to simulated workers. The same
is asked of one gateway, of two that share a Redis, of two without, and of two with Redis of which one is killed in the
middle. What counts is the cached share of all prompt tokens, as the workers count it.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import os
import re
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from benchmarks.balancer import start_haproxy, start_redis
from benchmarks.peers.routing.asking import Answer, Door
from benchmarks.peers.routing.entrants import Pace, settings_of, tokenizer_folder
from benchmarks.peers.routing.outcome import percentile
from benchmarks.peers.routing.playing import play
from benchmarks.peers.routing.slices import SLICES, Session, Slicing
from benchmarks.peers.routing.workers import Work, WorkerOptions, Workers, since
from benchmarks.processes import Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude

KEY = "benchmark-key-0123456789abcdef"
PATIENCE_S = 300.0
LEAST_SHARE = 0.97
"""Smallest share of one gateway's hit rate."""
STUCK_S, BACK_S = 5.0, 10.0
"""Times after a gateway's end: until none of its load counts, and until hits have recovered."""
POLL_S = 0.1
LOADS = {"tau": 9.0, "agentic": 12.0}
"""The slices, and how many times as fast as recorded their sessions come and think."""
CONVERSATIONS = 16
"""Conversations of tau: as many as the caches hold. With 40 the fleet thrashes, and runs differ by 10 %."""
STRATEGIES = ("prefix_aware", "kv_aware")
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "redis", "numpy", "msgspec")
_BOOKINGS = re.compile(r"^warmgate_replica_bookings ([0-9.eE+-]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Setup:
    name: str
    gateways: int
    shares: bool
    """A Redis."""
    dies: bool = False
    """One of them."""


ONE = Setup("one", 1, shares=True)
TWO = Setup("two", 2, shares=True)
APART = Setup("two without Redis", 2, shares=False)
KILLED = Setup("two, one is killed", 2, shares=True, dies=True)
SETUPS = (ONE, TWO, APART, KILLED)


@dataclass(frozen=True, slots=True)
class Seen:
    """Observations beside the answers; times are seconds of the clock."""

    early: Sequence[Work]
    """Work of the workers when a killed gateway was (or would have been) gone for `BACK_S`."""
    stuck_s: float | None
    """Time from a gateway's end until none of its load counted for the other one; None: none was killed."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of one set-up. Times are seconds of the workers, but for *stuck_s*."""

    slice: str
    strategy: str
    setup: str
    requests: int
    failures: Mapping[str, int]
    hit_rate: float
    late_hit_rate: float
    """Hit rate from `BACK_S` after the kill on; of the others, over the same time."""
    ttft_p50_s: float
    ttft_p90_s: float
    stuck_s: float | None

    @classmethod
    def of(  # noqa: PLR0917  # in the order of its fields
        cls,
        name: str,
        strategy: str,
        setup: Setup,
        answers: Sequence[Answer],
        work: Sequence[Work],
        late: Sequence[Work],
        *,
        stuck_s: float | None,
        speed: float,
    ) -> "Run":
        ttft = sorted(answer.ttft_s * speed for answer in answers if answer.failure is None)
        failures = Counter(answer.failure for answer in answers if answer.failure is not None)
        return cls(
            name,
            strategy,
            setup.name,
            len(answers),
            failures,
            hit_rate(work),
            hit_rate(late),
            percentile(ttft, 50),
            percentile(ttft, 90),
            stuck_s,
        )


def hit_rate(work: Sequence[Work]) -> float:
    """Cached share of all prompt tokens; not a number where there were not."""
    prompts = sum(each.prompt_tokens for each in work)
    return sum(each.cached_tokens for each in work) / prompts if prompts else float("nan")


@dataclass(frozen=True, slots=True)
class Trial:
    """The load that every set-up gets."""

    name: str
    """Name of the slice."""
    sessions: Sequence[Session]
    workers: WorkerOptions
    shrink: int
    kill_at_s: float
    """Time of the kill by the clock, from the beginning."""

    def run(self, strategy: str, setup: Setup) -> Run:
        """Blocking. Raises ChildFailedError: something did not start."""
        with Processes() as processes:
            workers = Workers.start(processes, self.workers)
            store = start_redis(processes) if setup.shares else None
            folder = tokenizer_folder(processes)
            pace = Pace(self.workers.speed, self.shrink)
            gateways = [
                start_gateway(
                    processes,
                    sharing(settings_of(strategy, workers.urls, folder, pace), store, pace.speed),
                    name=f"gateway-{place}",
                )
                for place in range(setup.gateways)
            ]
            door = Door(start_haproxy(processes, [url for _, url in gateways]), timeout_s=PATIENCE_S, key=KEY)
            before = workers.work()
            answers, seen = uvloop.run(self._played(door, workers, gateways, setup))
            after = workers.work()
        late, work = since(seen.early, after), since(before, after)
        return Run.of(self.name, strategy, setup, answers, work, late, stuck_s=seen.stuck_s, speed=self.workers.speed)

    async def _played(
        self, door: Door, workers: Workers, gateways: Sequence[tuple[Child, str]], setup: Setup
    ) -> tuple[list[Answer], Seen]:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watched(workers, gateways, setup))
            answers = await play(self.sessions, door, speed=self.workers.speed)
        return answers, watching.result()

    async def _watched(self, workers: Workers, gateways: Sequence[tuple[Child, str]], setup: Setup) -> Seen:
        await asyncio.sleep(self.kill_at_s)
        begun, stuck_s = time.monotonic(), None
        if setup.dies:
            (victim, _), (_, survivor) = gateways
            os.kill(victim.process.pid, signal.SIGKILL)
            stuck_s = await _until_nothing_is_stuck(survivor, begun)
        await asyncio.sleep(max(0.0, begun + BACK_S - time.monotonic()))
        return Seen(await asyncio.to_thread(workers.work), stuck_s)


def sharing(settings: Mapping[str, Any], store: str | None, speed: float) -> dict[str, Any]:
    """*settings* for gateways with *store*, None: without; what they say in seconds is *speed* times as fast.

    Not so the signs of life: those of processes are as late as in earnest.
    """
    return {
        **settings,
        "server": {"host": "127.0.0.1", "port": free_port()},
        "teams": [{"name": "bench", "keys": [{"id": "bench", "secret": KEY}]}],
        "advanced": {"replica_tie_s": 0.02 / speed},
        "logging": {"requests": False},
        **({} if store is None else {"store": {"url": store, "replicas": 2}}),
    }


async def _until_nothing_is_stuck(url: str, begun: float) -> float:
    """Seconds from *begun* until the gateway at *url* counts nothing of others as load; infinite after a minute."""
    while time.monotonic() - begun < 60.0:
        if bookings_in(await asyncio.to_thread(_metrics, url)) == 0.0:
            return time.monotonic() - begun
        await asyncio.sleep(POLL_S)
    return float("inf")


def bookings_in(exposition: str) -> float:
    """Requests of other gateways that one counts as load."""
    found = _BOOKINGS.search(exposition)
    return float(found[1]) if found else 0.0


def _metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10.0) as reply:
        text: str = reply.read().decode()
    return text


# ---- the report


def trial_of(name: str, options: argparse.Namespace) -> Trial:
    cut = SLICES[name]
    size = options.conversations if name == "tau" else options.sessions
    turns = None if name == "tau" else options.turns
    sliced = cut.sessions(Slicing(size, turns, cut.shrink, options.seed))
    sessions = [session.at(options.load or LOADS[name]) for session in sliced]
    workers = WorkerOptions(
        count=options.workers,
        blocks=cut.rates.blocks // cut.shrink,
        prefill_tokens_per_s=cut.rates.prefill_tokens_per_s / cut.shrink,
        tpot_ms=cut.rates.tpot_ms,
        timing="chunked",
        speed=options.speed,
    )
    kill_at_s = options.kill_at_share * least_s(sessions, workers) / workers.speed
    return Trial(name, sessions, workers, cut.shrink, kill_at_s)


def least_s(sessions: Sequence[Session], workers: WorkerOptions) -> float:
    """Return the shortest time of *sessions*, in seconds of the workers: pauses of the longest one, and its answers."""
    return max(
        session.begins_s + sum(turn.wait_s + turn.output_tokens * workers.tpot_ms / 1000 for turn in session.turns)
        for session in sessions
    )


def tell(report: Report, runs: Sequence[Run]) -> None:
    """Bars and a table of *runs*."""
    by_place = {(run.slice, run.strategy, run.setup): run for run in runs}
    for name, strategy in dict.fromkeys((run.slice, run.strategy) for run in runs):
        one, two, killed = (by_place.get((name, strategy, setup.name)) for setup in (ONE, TWO, KILLED))
        where = f"{name}, {strategy}"
        if one and two:
            share = two.hit_rate / one.hit_rate
            report.bars.append(Bar(f"{where}: hit rate of two with Redis, of one's", share, ">=", LEAST_SHARE))
        if killed and killed.stuck_s is not None:
            report.bars.append(
                Bar(f"{where}: seconds until nothing of a killed one is load", killed.stuck_s, "<=", STUCK_S)
            )
        if two and killed:
            share = killed.late_hit_rate / two.late_hit_rate
            what = f"{where}: hit rate from {BACK_S:g} s after a kill on, of that without"
            report.bars.append(Bar(what, share, ">=", LEAST_SHARE))
    rows = [
        (
            *(run.slice, run.strategy, run.setup, run.requests, sum(run.failures.values())),
            *(f"{run.hit_rate:.1%}", f"{run.late_hit_rate:.1%}", run.ttft_p50_s, run.ttft_p90_s, run.stuck_s),
        )
        for run in runs
    ]
    columns = (
        *("slice", "strategy", "gateways", "requests", "failed", "hit rate", "its end", "TTFT p50 s", "p90 s"),
        "stuck s",
    )
    report.tables.append(Table("Gateways behind HAProxy, each request to the next", columns, rows))
    report.figures["runs"] = runs


NOTES = (
    "Hit rate: cached share of all prompt tokens, as the workers count it. Its end: the same from 10 s after the kill "
    "on, and of the others over the same time.",
    "Stuck: seconds of the clock until the other gateway counts nothing of the killed one as load.",
    "Failed: answers that were cut. A gateway that is killed cuts those that it had begun; nothing else should.",
    "Without Redis gateways know only what they send themselves, under kv_aware also what engines tell.",
)


def measure(options: argparse.Namespace) -> Report:
    report = Report(
        "replicas", "Several gateways that agree", Circumstances.observe(seed=options.seed, packages=PACKAGES)
    )
    runs = []
    for name in options.slices:
        trial = trial_of(name, options)
        for strategy in options.strategies:
            for setup in SETUPS:
                runs.append(trial.run(strategy, setup))
                print(runs[-1], file=sys.stderr)
    tell(report, runs)
    report.notes += [*NOTES, f"{options.workers} simulated workers, {options.speed:g} times as fast as in earnest."]
    return report


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("replicas", __doc__)
    parser.add_argument("--slices", type=lambda text: text.split(","), default=list(LOADS))
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES))
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="of tau")
    parser.add_argument("--sessions", type=int, default=8, help="of coding agents")
    parser.add_argument("--turns", type=int, default=10, help="of each of them")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--load", type=float, default=None, help=f"times as fast as recorded; default: {LOADS}")
    parser.add_argument("--speed", type=float, default=2.0, help="seconds of the workers in one of the clock")
    parser.add_argument("--kill-at-share", type=float, default=0.4, help="of the time that a slice takes at least")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments()
    return conclude("replicas", lambda: measure(arguments), results=arguments.results, cannot_run=[ChildFailedError])


if __name__ == "__main__":
    sys.exit(main())
