"""What the strategies gain on recorded traffic, in virtual time: the production router before simulated engines.

Every request goes through the objects that serve in production (`routing.fleet`, `routing.dispatcher`, a strategy, the
radix tree) to engines of the `fifo` timing model; only the clock is another. So half an hour of traffic on eight GPUs
takes seconds, and the same seed gives the same figures.

An open-loop trace is replayed at its own times, *speed* times as fast, or as a Poisson process. A closed-loop trace is
lived by a number of users, each of whom asks again some time after the last answer. The first tenth of the requests
warms the caches up and is not counted. TTFT counts from arrival.

Exit status: 0 the bars are met, 1 one is missed, 2 a trace does not fit the setting.
"""

import argparse
import dataclasses
import gzip
import heapq
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.report import ROOT, Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from cache_index import Prefix, RadixTree, WorkerId
from gateway.simulator.blocks import BlockPool
from gateway.simulator.engine import EngineError, EngineEvent, Finished, FirstToken
from gateway.simulator.fifo import FifoEngine
from gateway.simulator.request import EngineRequest
from gateway.simulator.virtual import VirtualFleet
from routing.booking import Booking, Ending, Outcome
from routing.dispatcher import Immediate
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies import NAMES, STRATEGIES
from routing.strategies.by_name import StrategiesByName

TRACES = ROOT / "benchmarks" / "traces"
BYTES_PER_TOKEN = 4  # What a fleet believes before it has learnt; so a block of the index is a block of the trace.
WARM_UP_SHARE = 0.1
TICK_S = 5.0
PRIOR_TOKENS_PER_S = 2000.0  # What a fleet believes at first; the engines compute 10,000.
TTFT_P90_LIMIT_S = 4.0
SPEED_STEP = 0.02
HIGHEST_SPEED = 64.0  # Beyond it a trace is one burst, and too short for a search.
SEARCHED = ("prefix_aware", "round_robin")
TTFT_BAR = 1.05  # RAG leaves nothing to win over round_robin at this load; there it must not lose.
SPEED_BAR = 2.0
PACKAGES = ("numpy", "msgspec")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request of a trace."""

    number: int
    session: str | None
    wait_s: float
    """Open loop: from the beginning of the trace. Closed loop: from the answer before."""
    prompt_tokens: int
    output_tokens: int
    prefix: Prefix
    blocks: tuple[int, ...]
    """Ids of the full blocks of the prompt; an id stands for its block and all before it."""


@dataclass(frozen=True, slots=True)
class Trace:
    block_tokens: int
    is_closed_loop: bool
    requests: Sequence[Recorded]


def read_trace(path: Path) -> Trace:
    """A trace of one request, or one session, per line; plain or gzipped.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON, or lacks a field.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        lines: list[dict[str, Any]] = [json.loads(line) for line in text]
    if not lines:
        raise ValueError(f"{path.name} is empty")
    try:
        return _trace(lines)
    except KeyError as missing:
        raise ValueError(f"{path.name}: a line has no field {missing}") from missing


def _trace(lines: list[dict[str, Any]]) -> Trace:
    is_closed_loop = "requests" in lines[0]
    asked = lines
    if is_closed_loop:
        asked = [{**request, "session": line["session"]} for line in lines for request in line["requests"]]
    # Every full block has an id, a partial one at the end may have: what is left over never makes a block.
    least = max(request["input_length"] / (len(request["hash_ids"]) + 1) for request in asked)
    block_tokens = 2 ** math.ceil(math.log2(least))
    return Trace(block_tokens, is_closed_loop, [_recorded(*one, block_tokens) for one in enumerate(asked)])


def _recorded(number: int, request: dict[str, Any], block_tokens: int) -> Recorded:
    blocks = tuple(request["hash_ids"][: request["input_length"] // block_tokens])
    return Recorded(
        number,
        request.get("session"),
        request["think_s"] if "think_s" in request else request["timestamp"] / 1000,
        request["input_length"],
        max(1, request["output_length"]),
        # An id names a block and all before it, which is all that a hash of a prefix has to do.
        Prefix(np.array(blocks, np.uint64).tobytes()),
        blocks,
    )


def boundless_hit_rate(trace: Trace) -> float:
    """Share of all prompt tokens that one cache without limit would have held, in the order of the trace."""
    seen: set[int] = set()
    hit = 0
    for request in trace.requests:
        leading = next((i for i, block in enumerate(request.blocks) if block not in seen), len(request.blocks))
        # An engine computes at least the last token of a prompt.
        hit += min(leading, (request.prompt_tokens - 1) // trace.block_tokens) * trace.block_tokens
        seen.update(request.blocks)
    return hit / sum(request.prompt_tokens for request in trace.requests)


@dataclass(frozen=True, slots=True)
class Setting:
    """A trace, how it is replayed, and before what."""

    title: str
    trace: Path
    workers: int
    blocks: int
    """KV cache of a worker, in blocks of the trace."""
    speed: float = 1.0
    poisson_per_s: float | None = None
    """Requests per second at speed 1; None for the recorded times."""
    users: int = 1
    """For closed loops."""

    def __post_init__(self) -> None:
        for name in ("workers", "blocks", "speed", "poisson_per_s", "users"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value}")


SETTINGS = (
    Setting("Chat: mooncake conversation", TRACES / "mooncake_conversation_6000.jsonl", 8, 5712, speed=2.0),
    Setting("Bursts of the same prefix: mooncake synthetic", TRACES / "mooncake_synthetic_2000.jsonl", 8, 690, 1.5),
    Setting("Coding agents", TRACES / "agentic_248_sessions_blk1024.jsonl.gz", 8, 1000, users=128),
    Setting("RAG: ragpulse", TRACES / "ragpulse_3553_blk64.jsonl.gz", 4, 8192, poisson_per_s=6.0),
)


class Workload(Protocol):
    """Who asks when."""

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        """Requests that come whatever the answers, with the time of each."""
        ...

    def answered(self, request: Recorded, now: float) -> tuple[float, Recorded] | None:
        """What follows from the answer to *request*."""
        ...


class OpenLoop:
    """Requests come when they come, *speed* times as fast as recorded, or at random *poisson_per_s* times a second."""

    def __init__(
        self, requests: Sequence[Recorded], rng: random.Random, *, speed: float, poisson_per_s: float | None = None
    ) -> None:
        if poisson_per_s is None:
            times = _spread_in_bins([request.wait_s for request in requests], rng)
        else:
            times = itertools.accumulate(rng.expovariate(poisson_per_s) for _ in requests)
        self._arrivals = [(at / speed, request) for at, request in zip(times, requests, strict=True)]

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._arrivals

    def answered(self, request: Recorded, now: float) -> tuple[float, Recorded] | None:  # noqa: ARG002
        return None


def _spread_in_bins(times: Sequence[float], rng: random.Random) -> Iterator[float]:
    """Recorders round: the times of a bin, which is as wide as the smallest gap, are spread evenly inside it."""
    width = min((b - a for a, b in itertools.pairwise(times) if b > a), default=0.0)
    return iter(sorted(at + rng.random() * width for at in times))


class ClosedLoop:
    """Each of *users* goes through one session after the other, until none is left; they come during one longest pause.

    Sessions are taken in the order of the trace. The fewer are left, the quieter it gets.
    """

    def __init__(self, requests: Sequence[Recorded], rng: random.Random, *, users: int, speed: float) -> None:
        sessions = [list(session) for _, session in itertools.groupby(requests, key=lambda request: request.session)]
        longest_s = max(request.wait_s for request in requests)
        self._speed = speed
        self._first = [(rng.random() * longest_s / speed, session[0]) for session in sessions[:users]]
        self._waiting = iter(sessions[users:])
        self._following = {a.number: b for session in sessions for a, b in itertools.pairwise(session)}

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._first

    def answered(self, request: Recorded, now: float) -> tuple[float, Recorded] | None:
        following = self._following.get(request.number)
        if following is None:
            session = next(self._waiting, None)
            return (now, session[0]) if session else None
        return now + following.wait_s / self._speed, following


def workload_of(trace: Trace, setting: Setting, seed: int) -> Workload:
    rng = random.Random(seed)
    if trace.is_closed_loop:
        return ClosedLoop(trace.requests, rng, users=setting.users, speed=setting.speed)
    return OpenLoop(trace.requests, rng, speed=setting.speed, poisson_per_s=setting.poisson_per_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """A request's end. Its place in the order of arrivals decides whether it counts."""

    arrival: int
    worker: str
    ttft_s: float
    prompt_tokens: int
    cached_tokens: int


@dataclass(slots=True)
class _Asked:
    """A request under way."""

    recorded: Recorded
    arrival: int
    at: float
    booking: Booking
    ttft_s: float = math.nan
    cached_tokens: int = 0


class Replay:
    """One strategy before one workload."""

    def __init__(
        self,
        trace: Trace,
        setting: Setting,
        strategy: str,
        *,
        seed: int,
        prior_tokens_per_s: float = PRIOR_TOKENS_PER_S,
    ) -> None:
        workers = [WorkerId(f"worker{i}") for i in range(setting.workers)]
        self._workload = workload_of(trace, setting, seed)
        self._engines = VirtualFleet(
            {worker: FifoEngine(BlockPool(setting.blocks, trace.block_tokens)) for worker in workers}
        )
        self._fleet = Fleet(
            RadixTree(max_bytes=2**40, default_capacity=setting.blocks),
            block_bytes=trace.block_tokens * BYTES_PER_TOKEN,
            prefill_tokens_per_s=prior_tokens_per_s,
        )
        self._fleet.set_workers(workers, 0.0)
        for worker in workers:
            self._fleet.set_capacity(worker, blocks=setting.blocks, block_size=trace.block_tokens)
        rng = random.Random(seed)
        self._dispatcher = Immediate(self._fleet, StrategiesByName(strategy, lambda name: STRATEGIES[name](rng)))
        self._serial = itertools.count()
        self._arrivals: list[tuple[float, int, Recorded]] = []
        self._asked: dict[str, _Asked] = {}
        self._answers: list[Answer] = []

    def run(self) -> list[Answer]:
        """All answers, in the order in which they ended."""
        for at, recorded in self._workload.begin():
            self._expect(at, recorded)
        next_tick = TICK_S
        while (now := self._next_at()) < math.inf:
            if next_tick <= now:
                self._fleet.tick(next_tick)
                next_tick += TICK_S
                continue
            events = self._engines.advance(now)
            for _, event in events:
                self._hear(event)
            if not events:
                at, _, recorded = heapq.heappop(self._arrivals)
                self._ask(recorded, at)
        return self._answers

    def _next_at(self) -> float:
        event_at = self._engines.next_event_at()
        return min(math.inf if event_at is None else event_at, self._arrivals[0][0] if self._arrivals else math.inf)

    def _expect(self, at: float, recorded: Recorded) -> None:
        heapq.heappush(self._arrivals, (at, next(self._serial), recorded))

    def _ask(self, recorded: Recorded, now: float) -> None:
        fleet = self._fleet
        prompt_bytes = recorded.prompt_tokens * BYTES_PER_TOKEN
        request = Request(
            recorded.prefix,
            prompt_bytes,
            prompt_bytes / fleet.bytes_per_token.ratio,
            fleet.output_length.expected(None),
            session=recorded.session,
        )
        self._dispatcher.submit(request, now)
        (dispatch,) = self._dispatcher.poll(now)
        assert dispatch.booking is not None, "no worker ever leaves"
        name = str(recorded.number)
        self._asked[name] = _Asked(recorded, len(self._asked), now, dispatch.booking)
        self._engines.submit(
            dispatch.booking.worker,
            EngineRequest(name, recorded.prompt_tokens, recorded.output_tokens, recorded.blocks),
            now,
        )

    def _hear(self, event: EngineEvent) -> None:
        asked = self._asked[event.request_id]
        match event:
            case FirstToken(at=at, cached_tokens=cached_tokens):
                asked.ttft_s, asked.cached_tokens = at - asked.at, cached_tokens
                self._fleet.first_byte(asked.booking, at)
            case Finished(at=at):
                self._finish(asked, at)

    def _finish(self, asked: _Asked, now: float) -> None:
        recorded, booking = asked.recorded, asked.booking
        outcome = Outcome(Ending.ANSWERED, recorded.prompt_tokens, asked.cached_tokens, recorded.output_tokens)
        self._fleet.release(booking, outcome, now)
        self._answers.append(
            Answer(asked.arrival, booking.worker, asked.ttft_s, recorded.prompt_tokens, asked.cached_tokens)
        )
        following = self._workload.answered(recorded, now)
        if following is not None:
            self._expect(*following)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the answers that count came to."""

    requests: int
    hit_rate: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> "Summary":
        counted = [answer for answer in answers if answer.arrival >= WARM_UP_SHARE * len(answers)]
        ttft = sorted(answer.ttft_s for answer in counted)
        return cls(
            len(counted),
            sum(answer.cached_tokens for answer in counted) / sum(answer.prompt_tokens for answer in counted),
            sum(ttft) / len(ttft),
            *(ttft[len(ttft) * percent // 100] for percent in (50, 90, 99)),
        )


def highest_speed(passes: Callable[[float], bool]) -> float:
    """The highest speed that *passes*, to within a step, where all below it pass as well; 0 if none does."""
    low, high = 0.0, 1.0
    while high < HIGHEST_SPEED and passes(high):
        low, high = high, 2 * high
    while high - low > SPEED_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Bench:
    """What is to be compared, and how often."""

    strategies: Sequence[str]
    seeds: Sequence[int]
    prior_tokens_per_s: float = PRIOR_TOKENS_PER_S

    def summary(self, trace: Trace, setting: Setting, strategy: str, seed: int) -> Summary:
        replay = Replay(trace, setting, strategy, seed=seed, prior_tokens_per_s=self.prior_tokens_per_s)
        return Summary.of(replay.run())

    def compare(self, trace: Trace, setting: Setting, report: Report) -> None:
        """Every strategy in one setting, into *report*."""
        found = {
            strategy: [self.summary(trace, setting, strategy, seed) for seed in self.seeds]
            for strategy in self.strategies
        }
        report.tables.append(_comparison(trace, setting, found))
        report.figures[setting.title] = found
        means = {strategy: statistics.median(each.ttft_mean_s for each in runs) for strategy, runs in found.items()}
        ours = means.pop("prefix_aware", None)
        if ours is not None and means:
            what = f"{setting.title}: prefix_aware's mean TTFT, share of the best other strategy's"
            report.bars.append(Bar(what, ours / min(means.values()), "<=", TTFT_BAR))

    def search_capacity(self, trace: Trace, setting: Setting, report: Report) -> None:
        """How much faster than recorded the strategies of `SEARCHED` can be driven, into *report*."""
        speeds = {
            strategy: [self._highest_speed(trace, setting, strategy, seed) for seed in self.seeds]
            for strategy in self.strategies
            if strategy in SEARCHED
        }
        title = f"{setting.title}: highest speed at which TTFT p90 is at most {TTFT_P90_LIMIT_S:g} s"
        rows = [(strategy, Spread.of(values)) for strategy, values in speeds.items()]
        report.tables.append(Table(title, ("strategy", "times the recorded speed"), rows))
        report.figures[title] = speeds
        if set(SEARCHED) <= speeds.keys():
            ours, turns = (statistics.median(speeds[strategy]) for strategy in SEARCHED)
            ratio = ours / max(SPEED_STEP, turns)
            what = f"{setting.title}: prefix_aware's highest speed, times round_robin's"
            report.bars.append(Bar(what, ratio, ">=", SPEED_BAR))

    def _highest_speed(self, trace: Trace, setting: Setting, strategy: str, seed: int) -> float:
        def passes(speed: float) -> bool:
            at_speed = dataclasses.replace(setting, speed=speed)
            return self.summary(trace, at_speed, strategy, seed).ttft_p90_s <= TTFT_P90_LIMIT_S

        return highest_speed(passes)


def _comparison(trace: Trace, setting: Setting, found: Mapping[str, Sequence[Summary]]) -> Table:
    names = [field.name for field in dataclasses.fields(Summary)][1:]
    rows: list[tuple[Cell | Spread, ...]] = [
        (strategy, runs[0].requests, *(Spread.of(getattr(each, name) for each in runs) for name in names))
        for strategy, runs in found.items()
    ]
    columns = ("strategy", "requests", "hit rate", "TTFT mean s", "p50 s", "p90 s", "p99 s")
    return Table(f"{setting.title} ({_described(trace, setting)})", columns, rows)


def _described(trace: Trace, setting: Setting) -> str:
    if trace.is_closed_loop:
        asked = f"{setting.users} users"
    elif setting.poisson_per_s is not None:
        asked = f"Poisson, {setting.poisson_per_s * setting.speed:g} requests per second"
    else:
        asked = f"{setting.speed:g} times the recorded speed"
    return (
        f"{asked}, {setting.workers} workers of {setting.blocks:,} blocks of {trace.block_tokens:,} tokens, "
        f"boundless cache: {boundless_hit_rate(trace):.1%}"
    )


def run(options: argparse.Namespace) -> Report:
    """Raises ``OSError`` or ``ValueError`` for a bad trace or setting, ``EngineError`` where a prompt does not fit."""
    if options.seeds < 1:
        raise ValueError(f"seeds must be at least 1, not {options.seeds}")
    seeds = range(options.seed, options.seed + options.seeds)
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report("replay", "Strategies on recorded traffic, in virtual time", circumstances)
    bench = Bench(options.strategies, seeds, options.prior_tokens_per_s)
    for setting in settings_of(options):
        begun = time.monotonic()
        trace = read_trace(setting.trace)
        bench.compare(trace, setting, report)
        if options.capacity_search and not trace.is_closed_loop and setting.poisson_per_s is None:
            bench.search_capacity(trace, setting, report)
        print(f"{setting.title}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    report.notes = [
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}. Time is virtual: no machine matters.",
        "Engines of the `fifo` timing model: one prefill at a time, 10,000 uncached tokens per second, slowed by 0.4 % "
        "by each running decode; 12 ms per output token and 0.4 ms more for each request beside it.",
        "Hit rate: cached share of all prompt tokens. Boundless cache: what one cache without limit would have held.",
    ]
    return report


def settings_of(options: argparse.Namespace) -> list[Setting]:
    """The settings for the record, or the one of `--trace`, with what the options say otherwise."""
    settings = [setting for setting in SETTINGS if options.trace in {None, setting.trace}]
    if not settings:
        settings = [Setting(options.trace.name, options.trace, 8, 5712)]
    given = {name: getattr(options, name) for name in ("workers", "blocks", "speed", "poisson_per_s", "users")}
    changes = {name: value for name, value in given.items() if value is not None}
    return [dataclasses.replace(setting, **changes) for setting in settings]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("replay", __doc__)
    parser.add_argument("--trace", type=_trace_path, help="name of a shipped trace, or a file; default: all settings")
    parser.add_argument("--speed", type=float, help="how many times as fast as recorded")
    parser.add_argument("--poisson-per-s", type=float, help="requests per second at random, instead of recorded times")
    parser.add_argument("--users", type=int, help="of a closed loop")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--blocks", type=int, help="KV cache of a worker, in blocks of the trace")
    parser.add_argument("--strategies", type=_strategies, default=list(NAMES), help="names with commas between")
    parser.add_argument(
        "--prior-tokens-per-s", type=float, default=PRIOR_TOKENS_PER_S, help="what the router believes at first"
    )
    parser.add_argument(
        "--capacity-search", action="store_true", help="where times are recorded, find the highest speed"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many, from --seed on")
    return parser.parse_args(arguments)


def _trace_path(text: str) -> Path:
    shipped = [path for path in TRACES.iterdir() if text in {path.name, path.name.split(".")[0]}]
    return shipped[0] if shipped else Path(text)


def _strategies(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no strategy {unknown[0]!r}; there are {', '.join(NAMES)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "replay", lambda: run(options), results=options.results, cannot_run=(OSError, ValueError, EngineError)
    )


if __name__ == "__main__":
    sys.exit(main())
