"""1,000 locust users, 2,500 tokens in and 550 out: the real gateway over HTTP, simulated workers, real time.

Every user asks again as soon as the answer is there. A prompt is one of 400 contexts of 2,300 tokens and a question of
its own of 200. Workers, gateway and locust share the machine, so the workers write vLLM's `--stream-interval` tokens
into one event: without it, the machine and not the GPUs that are simulated would be what is measured.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.processes import Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Report, Table
from benchmarks.scenarios.load_test import Measured, Wanted, measure
from benchmarks.scenarios.outcome import cost_usd, gpu_s_per_thousand
from benchmarks.scenarios.trial import CACHE_TOKENS

PROMPT_TOKENS, SHARED_TOKENS, CONTEXTS, OUTPUT_TOKENS = 2_500, 2_300, 400, 550
BLOCK_TOKENS = 16
STRATEGIES = ("round_robin", "kv_aware")


@dataclass(frozen=True, slots=True)
class Stage:
    """The set-up that every strategy gets."""

    users: int = 1_000
    spawn_per_s: float = 20.0
    run_s: float = 240.0
    workers: int = 8
    stream_interval: int = 10
    timing: str = "chunked"

    @property
    def blocks(self) -> int:
        return CACHE_TOKENS // BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one strategy: locust's figures, and the load of the processes, in cores."""

    strategy: str
    measured: Measured
    gateway_cores: float
    workers_cores: float
    """Cores of all workers together."""


@contextmanager
def serving(stage: Stage, strategy: str) -> Iterator[tuple[Processes, str, Child, list[Child]]]:
    """The URL of a gateway with *strategy* before workers with cold caches, and the processes of both."""
    with Processes() as processes:
        workers = [processes.start(f"worker{number}", _simulate(stage)) for number in range(stage.workers)]
        urls = [{"url": worker.wait_for_ready_line()} for worker in workers]
        folder = processes.directory / "tokenizer"
        written = [sys.executable, "-m", "gateway", "simulate", "--write-tokenizer", str(folder)]
        processes.start("tokenizer", written).wait(timeout_s=60)
        model = {"name": "tiny", "strategy": strategy, "workers": urls, "tokenizer": {"path": str(folder)}}
        settings = {"server": {"port": free_port()}, "models": [model]}
        gateway, url = start_gateway(processes, settings)
        yield processes, url, gateway, workers


def _simulate(stage: Stage) -> Sequence[str]:
    return (
        *(sys.executable, "-m", "gateway", "simulate", "--port", "0", "--timing", stage.timing),
        *("--blocks", str(stage.blocks), "--block-size", str(BLOCK_TOKENS)),
        *("--stream-interval", str(stage.stream_interval), "--kv-events-port", "0", "--replay-port", "0"),
    )


def try_strategy(stage: Stage, strategy: str) -> Result:
    """Raises ``ChildFailedError`` where a program does not do its part, ``ValueError`` where nothing was answered."""
    with serving(stage, strategy) as (processes, url, gateway, workers):
        options = (
            *("--prompt-tokens", str(PROMPT_TOKENS), "--shared-tokens", str(SHARED_TOKENS)),
            *("--contexts", str(CONTEXTS), "--output-tokens", str(OUTPUT_TOKENS), "--ignore-eos"),
        )
        before = _cpu_s([gateway]), _cpu_s(workers)
        measured = measure(processes, Wanted(url, stage.users, stage.spawn_per_s, stage.run_s, options))
        for child in (gateway, *workers):
            if child.has_ended:
                raise ChildFailedError(f"{child.name} ended in the middle of the run:\n{child.last_words()}")
        after = _cpu_s([gateway]), _cpu_s(workers)
        used = [(late - early) / stage.run_s for early, late in zip(before, after, strict=True)]
        return Result(strategy, measured, *used)


def _cpu_s(children: Sequence[Child]) -> float:
    return sum(child.cpu_s() for child in children)


def record(
    stage: Stage,
    report: Report,
    usd_per_hour: float,
    *,
    tried: Callable[[Stage, str], Result] = try_strategy,
) -> None:
    """Both strategies, into *report*."""
    found = [tried(stage, strategy) for strategy in STRATEGIES]
    report.tables += [_speeds(found), _costs(stage, found, usd_per_hour)]
    report.bars += [Bar(f"{each.strategy}: requests that failed", each.measured.failures, "==", 0) for each in found]
    report.figures["stage"] = stage
    report.figures["found"] = found
    report.notes += [
        f"{stage.workers} simulated workers ({stage.timing}) of {CACHE_TOKENS:,} tokens of KV cache, one GPU each; "
        f"{stage.stream_interval} tokens in an event of a stream, as vLLM's --stream-interval.",
        f"{stage.users:,} users, {stage.spawn_per_s:g} more in each second; {CONTEXTS} contexts of {SHARED_TOKENS:,} "
        f"tokens, questions of {PROMPT_TOKENS - SHARED_TOKENS}, answers of {OUTPUT_TOKENS}. "
        f"{stage.run_s:g} s for each strategy; requests per minute are those while all users are there.",
        "Everything shares the cores of this machine; where the programs together come near to using them up, times "
        "are the machine's and not the workers'.",
    ]


def _speeds(found: Sequence[Result]) -> Table:
    columns = (
        *("strategy", "answers", "failures", "requests per min", "most per s", "latency p50 s", "p95 s"),
        *("TTFT p50 s", "p90 s", "p95 s", "TPOT mean ms"),
    )
    rows = [
        (
            each.strategy,
            each.measured.requests,
            each.measured.failures,
            each.measured.requests_per_min,
            each.measured.most_per_s,
            each.measured.latency_p50_s,
            each.measured.latency_p95_s,
            each.measured.ttft_p50_s,
            each.measured.ttft_p90_s,
            each.measured.ttft_p95_s,
            1000 * each.measured.tpot_mean_s,
        )
        for each in found
    ]
    return Table("What locust saw", columns, rows)


def _costs(stage: Stage, found: Sequence[Result], usd_per_hour: float) -> Table:
    columns = (
        *("strategy", "GPU-s per 1,000 requests", "USD per 1,000 requests", "throughput, times round robin's"),
        *("cores: gateway", "cores: locust", "cores: workers"),
    )
    base = found[0].measured.requests_per_min
    rows = []
    for each in found:
        gpu_s = gpu_s_per_thousand(each.measured.requests_per_min, 60.0, stage.workers)
        usd = cost_usd(gpu_s, usd_per_hour)
        cores = (each.gateway_cores, each.measured.cores, each.workers_cores)
        rows.append((each.strategy, gpu_s, usd, each.measured.requests_per_min / base, *cores))
    return Table("What it costs, and how busy the programs were", columns, rows)
