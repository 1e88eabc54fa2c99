"""Published scenarios: what routing gains there, beside round robin, and what a thousand requests cost.

`seven_replicas`, `twenty_turns` and `r1_100k` run in virtual time; `locust` runs the real gateway before simulated
workers, with a thousand users of locust. Each writes a report of its own, `scenarios_NAME`.

Exit status: 0 the bars are met, 1 one is missed, 2 a scenario could not run.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence

from benchmarks.processes import ChildFailedError
from benchmarks.report import Circumstances, Report, argument_parser, conclude
from benchmarks.scenarios import hundred_thousand, seven_replicas, thousand_users, twenty_turns
from benchmarks.scenarios.thousand_users import Stage
from benchmarks.scenarios.trial import CACHE_TOKENS, Bench
from engine_model.engine import EngineError
from engine_model.timing import Timing

PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "numpy", "msgspec", "locust", "gevent")
GPU_USD_PER_HOUR = 6.88
"""An eighth of a p5.48xlarge, $55.04 per hour on demand in us-east-1 since June 2025. No ratio depends on it."""

Virtual = Callable[[Bench, Report, float], None]
VIRTUAL: Mapping[str, tuple[str, Virtual]] = {
    "seven_replicas": ("Seven replicas, contexts of 8,000 and 64,000 tokens", seven_replicas.record),
    "twenty_turns": ("Conversations of 20 turns with 15 users", twenty_turns.record),
    "r1_100k": ("100,000 requests of 4,000 tokens in and 800 out", hundred_thousand.record),
}
LOCUST = "locust"
LOCUST_TITLE = "1,000 locust users, 2,500 tokens in and 550 out"
NAMES = (*VIRTUAL, LOCUST)


def report_of(name: str, options: argparse.Namespace) -> Report:
    """One scenario's report. Raises what makes the benchmark end with status 2."""
    if options.seeds < 1 or options.processes < 1 or not options.gpu_usd_per_hour > 0:
        raise ValueError("--seeds, --processes and --gpu-usd-per-hour must be above 0")
    title = LOCUST_TITLE if name == LOCUST else VIRTUAL[name][0]
    report = Report(f"scenarios_{name}", title, Circumstances.observe(seed=options.seed, packages=PACKAGES))
    report.notes.append(_rates(options.gpu_usd_per_hour))
    if name == LOCUST:
        stage = Stage(users=options.users, run_s=options.run_s, stream_interval=options.stream_interval)
        thousand_users.record(stage, report, options.gpu_usd_per_hour)
        return report
    seeds = range(options.seed, options.seed + options.seeds)
    report.notes.append(
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}, where there is more than one figure. Time is "
        "virtual: no machine matters. Of the requests, the first fifth and the last tenth are not counted. Changes are "
        "against round robin with the same seed, so with the very same requests."
    )
    VIRTUAL[name][1](Bench(seeds, options.processes), report, options.gpu_usd_per_hour)
    return report


def _rates(usd_per_hour: float) -> str:
    timing = Timing()
    return (
        f"Simulated engines of one GPU each: {timing.prefill_tokens_per_s:,.0f} uncached prompt tokens per second, "
        f"{timing.prefill_slowdown:.1%} slower for each running decode, {1000 * timing.prefill_fixed_s:g} ms for each "
        f"prefill; {1000 * timing.tpot_s:g} ms per output token and {1000 * timing.tpot_slope_s:g} ms more for each "
        f"request beside it; {CACHE_TOKENS:,} tokens of KV cache. A GPU costs {usd_per_hour:g} USD per hour. "
        "round_robin is what no routing comes to: each worker in turn."
    )


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("scenarios", __doc__)
    parser.add_argument("--only", choices=NAMES, help="one of them; default: all")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from --seed on; not for locust")
    parser.add_argument("--processes", type=int, default=2, help="trials at a time; not for locust")
    parser.add_argument("--gpu-usd-per-hour", type=float, default=GPU_USD_PER_HOUR, help="default: %(default)s")
    parser.add_argument("--users", type=int, default=Stage().users, help="of locust")
    parser.add_argument("--run-s", type=float, default=Stage().run_s, help="seconds for each strategy of locust")
    parser.add_argument("--stream-interval", type=int, default=Stage().stream_interval, help="of locust's workers")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The worst of the exit statuses of the scenarios."""
    options = parse_arguments(arguments)
    return max(_conclude(name, options) for name in ([options.only] if options.only else NAMES))


def _conclude(name: str, options: argparse.Namespace) -> int:
    return conclude(
        f"scenarios_{name}",
        lambda: report_of(name, options),
        results=options.results,
        cannot_run=(ChildFailedError, EngineError, ValueError),
    )
