"""Our virtual-time replay beside Dynamo's own, on the same trace: `python -m benchmarks.peers.dynamo_replay`.

Both get the same requests at the same times, and caches of as many blocks of the same size. Engines are each side's
own: Dynamo's mocker (continuous batching with chunks, as in vLLM) and our `chunked` model. The rates of Dynamo's are
measured with requests that are alone, and set so that a prompt and a token take there what they take in all our
replays; ours then gets what a second measurement found. What is left of the difference shows where both sides replay
the same policy: by turns, and Dynamo's own cost as we describe it (`dynamo_1`).

Exit status: 0 the bars are met, 1 one is missed, 2 Dynamo is not there or its replay failed.
"""

import argparse
import dataclasses
import json
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.dynamo.rounds import Program
from benchmarks.peers.dynamo.rounds import run as run_program
from benchmarks.peers.environment import PEERS, NotInstalledError, install
from benchmarks.processes import ChildFailedError, Processes
from benchmarks.replay.entrant import ENTRANTS
from benchmarks.replay.recorded import CONVERSATION, trace_path
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.engine import Engine, EngineError
from engine_model.timing import Timing
from replay.entrant import Entrant
from replay.run import Answer, Run
from replay.setting import Setting
from replay.summary import Summary
from replay.trace import Recorded, Trace, read_trace
from replay.workload import OpenLoop

DYNAMO = PEERS["dynamo"]
BATCHED_TOKENS = 8192
"""Tokens of a step, on both sides: the default of Dynamo's engine."""
SEQUENCES = 256
ALONE_EVERY_S = 300.0
SHORT, LONG = BATCHED_TOKENS, 8 * BATCHED_TOKENS
"""Prompts that are measured alone: whole steps, so that what a step costs is part of the rate."""
DECODED = 101
MEAN_BAR = 1.0
BY_TURNS = "Dynamo: round robin"
THEIRS: Mapping[str, Mapping[str, Any] | None] = {
    BY_TURNS: None,
    "Dynamo: kv_router": {},
    "Dynamo: kv_router, credit 2": {"overlap_score_credit": 2.0},
    "Dynamo: kv_router, prefill 4 times": {"prefill_load_scale": 4.0},
    "Dynamo: kv_router, queue": {"router_queue_threshold": 1.0},
    "Dynamo: kv_router, queue by wspt": {"router_queue_threshold": 1.0, "router_queue_policy": "wspt"},
}
"""Options of its router, beside its defaults."""
OURS = ("round_robin", "dynamo_1", "dynamo_4", "prefix_aware", "kv_aware")
COLUMNS = ("hit", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "imbalance")


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of an engine, for requests that are alone in it."""

    prefill_tokens_per_s: float
    tpot_s: float

    @property
    def timing(self) -> Timing:
        """Return the timing model: the rate includes the fixed cost of a step, and decodes add nothing."""
        return Timing(self.prefill_tokens_per_s, 0.0, 0.0, self.tpot_s, 0.0)


WANTED = Rates(Timing().prefill_tokens_per_s, Timing().tpot_s)


@dataclass(frozen=True, slots=True)
class Timed(Entrant):
    """An entrant before engines as Dynamo's are."""

    rates: Rates = WANTED

    def engine(self, setting: Setting, pool: BlockPool, worker: int = 0) -> Engine:  # noqa: ARG002
        return ChunkedEngine(pool, self.rates.timing, max_num_batched_tokens=BATCHED_TOKENS, max_num_seqs=SEQUENCES)


class Dynamo:
    """Its replay, with the settings of a cluster."""

    def __init__(self, processes: Processes, setting: Setting, block_tokens: int) -> None:
        self._processes = processes
        self._setting = setting
        self._block_tokens = block_tokens
        self._program = Program.of(DYNAMO, "offline")
        self.speedups = {"speedup_ratio": 1.0, "decode_speedup_ratio": 1.0}

    def slow_down(self) -> None:
        """Set its engine's speed so that a request that is alone takes what it takes in our replays."""
        found = self.rates()
        speedup = WANTED.prefill_tokens_per_s / found.prefill_tokens_per_s
        # The second ratio is beside the first, for tokens of answers.
        self.speedups = {"speedup_ratio": speedup, "decode_speedup_ratio": found.tpot_s / WANTED.tpot_s / speedup}

    def rates(self) -> Rates:
        """Return the rates as measured with two requests, each of them alone."""
        blocks = LONG // self._block_tokens
        asked = [
            Recorded(
                number,
                None,
                number * ALONE_EVERY_S,
                tokens,
                DECODED,
                tuple(range(number * blocks, number * blocks + tokens // self._block_tokens)),
            )
            for number, tokens in enumerate((SHORT, LONG))
        ]
        short, long = self.replay([(recorded.wait_s, recorded) for recorded in asked], None)
        prefill_s = long["ttft_s"] - short["ttft_s"]
        return Rates((LONG - SHORT) / prefill_s, (short["e2e_s"] - short["ttft_s"]) / (DECODED - 1))

    def replay(
        self, arrivals: Sequence[tuple[float, Recorded]], router: Mapping[str, Any] | None
    ) -> list[Mapping[str, float]]:
        """Every request of *arrivals*, in their order, with the outcome of it.

        Raises:
            ChildFailedError: its replay failed.
        """
        folder = self._processes.directory
        trace, job = folder / "trace.jsonl", folder / "job.json"
        trace.write_text(mooncake(arrivals, self._block_tokens), encoding="utf-8")
        asked = {
            "trace": str(trace),
            "block_tokens": self._block_tokens,
            "workers": self._setting.workers,
            "engine": {
                "block_size": self._block_tokens,
                "num_gpu_blocks": self._setting.blocks,
                "max_num_batched_tokens": BATCHED_TOKENS,
                "max_num_seqs": SEQUENCES,
                **self.speedups,
            },
            "router": router,
        }
        job.write_text(json.dumps(asked), encoding="utf-8")
        found = run_program(self._processes, self._program, {"job": job})
        return sorted(map(_in_seconds, found["requests"]), key=lambda request: request["arrival_s"])


def _in_seconds(row: Sequence[float]) -> Mapping[str, float]:
    arrival_ms, prompt_tokens, cached_tokens, ttft_ms, e2e_ms, output_tokens, worker = row
    return {
        "arrival_s": arrival_ms / 1000,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached_tokens,
        "ttft_s": ttft_ms / 1000,
        "e2e_s": e2e_ms / 1000,
        "output_tokens": output_tokens,
        "worker": worker,
    }


def mooncake(arrivals: Iterable[tuple[float, Recorded]], block_tokens: int) -> str:
    """One line of JSON per request, in Mooncake's form. A block that is not full has an id of its own."""
    asked = list(arrivals)
    own = 1 + max((block for _, recorded in asked for block in recorded.blocks), default=0)
    lines = [
        json.dumps(
            {
                "timestamp": round(at * 1000),
                "input_length": recorded.prompt_tokens,
                "output_length": recorded.output_tokens,
                "hash_ids": [
                    *recorded.blocks,
                    *([own + place] if recorded.prompt_tokens > len(recorded.blocks) * block_tokens else []),
                ],
            }
        )
        for place, (at, recorded) in enumerate(asked)
    ]
    return "\n".join(lines) + "\n"


def summary_of(found: Sequence[Mapping[str, float]], workers: int) -> Summary:
    """Summarize requests in the order of their arrivals; the first tenth is not counted, as in our replays."""
    answers = [
        Answer(
            place,
            int(request["worker"]),
            request["ttft_s"],
            0.0,
            int(request["prompt_tokens"]),
            int(request["cached_tokens"]),
        )
        for place, request in enumerate(found)
    ]
    return Summary.of(answers, workers)


def ours(trace: Trace, setting: Setting, strategy: str, rates: Rates, seed: int) -> Summary:
    """Raises EngineError: a prompt does not fit into a cache."""
    entrant = ENTRANTS[strategy]
    timed = Timed(entrant.policy, entrant.tokens_per_s, rates)
    return Summary.of(Run(trace, setting, timed, seed=seed).answers(), setting.workers)


def run(options: argparse.Namespace) -> Report:
    """Raises NotInstalledError, ChildFailedError, or what a bad trace raises."""
    install(DYNAMO)
    report = Report(
        "peers_dynamo_replay",
        "Replays of the same trace: Dynamo's and ours",
        Circumstances.observe(seed=options.seed, packages=("numpy", "msgspec")),
    )
    setting = Setting(options.trace.name, options.trace, options.workers, options.blocks, options.speed)
    trace = read_trace(options.trace).part(0, options.limit)
    if trace.is_closed_loop:
        raise ValueError(f"{options.trace.name} has no times of its own")
    # As a `Run` does it, so that both sides get the same times.
    arrivals = OpenLoop(trace.requests, random.Random(options.seed), speed=setting.speed).begin()
    with Processes() as processes:
        dynamo = Dynamo(processes, setting, trace.block_tokens)
        dynamo.slow_down()
        rates = dynamo.rates()
        found = {}
        for name, router in THEIRS.items():
            found[name] = summary_of(dynamo.replay(list(arrivals), router), setting.workers)
            print(name, found[name], file=sys.stderr)
    for strategy in OURS:
        found[f"ours: {strategy}"] = ours(trace, setting, strategy, rates, options.seed)
        print(strategy, found[f"ours: {strategy}"], file=sys.stderr)
    tell(report, setting, found, rates, dynamo.speedups)
    return report


def tell(
    report: Report, setting: Setting, found: Mapping[str, Summary], rates: Rates, speedups: Mapping[str, float]
) -> None:
    best = min((name for name in THEIRS if name in found), key=lambda name: found[name].ttft_mean_s)
    ratio = found["ours: kv_aware"].ttft_mean_s / found[best].ttft_mean_s
    report.bars.append(Bar(f"kv_aware: TTFT mean, share of that of {best}", ratio, "<=", MEAN_BAR))
    rows = [
        (name, summary.requests, *(getattr(summary, column) for column in COLUMNS)) for name, summary in found.items()
    ]
    columns = ("router", "requests", "hit rate", "TTFT mean s", "p50 s", "p90 s", "p99 s", "imbalance")
    engines = f"{setting.workers} workers of {setting.blocks:,} blocks"
    title = f"{setting.title}, {setting.speed:g} times the recorded speed, {engines}"
    report.tables.append(Table(title, columns, rows))
    report.notes += [
        f"Engines: {rates.prefill_tokens_per_s:,.0f} tokens of prefill per second and {rates.tpot_s * 1000:.3g} ms per "
        "output token for a request that is alone, measured of Dynamo's engine and given to ours; "
        f"{BATCHED_TOKENS:,} tokens and {SEQUENCES} requests in a step.",
        "What differs: in Dynamo's engine a step costs something by itself, and an output token more with every block "
        "that is in use; in ours neither does. Its router hears of blocks at once and knows them before any request; "
        "ours learns how fast engines are. `dynamo_1` and `dynamo_4` are Dynamo's cost from its description, in our "
        "replay: its defaults, and what is to be computed weighed 4 times.",
        "Hit rate: cached share of all prompt tokens. Imbalance: prompt tokens that the busiest worker computed, over "
        "the mean of all. The first tenth of the requests is not counted.",
        f"Dynamo: {', '.join(DYNAMO.requirements)}; its settings are the defaults, and what stands beside the name: "
        f"{json.dumps({name: router for name, router in THEIRS.items() if router})}.",
    ]
    report.figures = {
        "setting": {**dataclasses.asdict(setting), "trace": setting.trace.name},
        "summaries": found,
        "rates": rates,
        "speedups": speedups,
    }


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("peers.dynamo_replay", __doc__)
    parser.add_argument("--trace", type=trace_path, default=CONVERSATION, help="one with times, by name or path")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=5712, help="KV cache of a worker, in blocks of the trace")
    parser.add_argument("--speed", type=float, default=2.0, help="how many times as fast as recorded")
    parser.add_argument("--limit", type=int, help="how many requests are replayed; default: all")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "peers.dynamo_replay",
        lambda: run(options),
        results=options.results,
        cannot_run=(NotInstalledError, ChildFailedError, OSError, ValueError, EngineError),
    )


if __name__ == "__main__":
    sys.exit(main())
