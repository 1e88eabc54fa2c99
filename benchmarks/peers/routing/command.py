"""The same slice of recorded traffic, over HTTP, through each router's own policy onto the same simulated workers.

Every router gets fresh workers with cold caches, and the same requests at the same times (sessions go on when they are
answered). Ours comes from the wheel with the compiled core; kv_aware hears the workers' KV events. Figures are in
seconds of the workers. `--find-load` looks for the load at which TTFT p90 of the best other router reaches 4 s with
some short runs, and measures everybody there.

Exit status: 0 if the target is met, 1 if the target is missed, 2 if the benchmark could not run.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.peers.environment import NotInstalledError
from benchmarks.peers.routing.entrants import DEFAULT, ENTRANTS, Entrant
from benchmarks.peers.routing.load import LoadSearch, Look, NoLoadFoundError
from benchmarks.peers.routing.outcome import Outcome
from benchmarks.peers.routing.slices import SLICES, Slice, Slicing
from benchmarks.peers.routing.telling import tell
from benchmarks.peers.routing.trial import Trial
from benchmarks.peers.routing.workers import WorkerOptions
from benchmarks.processes import ChildFailedError
from benchmarks.report import Circumstances, Report, argument_parser, conclude
from benchmarks.shipped import Shipped, build

PACKAGES = ("uvicorn", "uvloop", "httptools", "httpx", "numpy", "msgspec", "tokenizers", "pyzmq")
CANNOT_RUN = (ChildFailedError, NotInstalledError, NoLoadFoundError, ValueError)


def run(options: argparse.Namespace) -> Report:
    """Run the benchmark. Raises one of `CANNOT_RUN`."""
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    cut = SLICES[options.slice]
    trial = trial_of(cut, options)
    entrants = _prepared(options.peers, None if options.sources else build())
    load, looks = options.load or cut.load, list[Look]()
    if options.find_load:
        load, looks = _load_of_the_best(trial.head(options.head), entrants, load)
    outcomes = [measure(trial, entrant, load=load) for entrant in entrants.values()]
    report = Report(
        options.name or f"peers_routing_{options.slice}", f"Routers beside ours: {cut.title}", circumstances
    )
    pins = dict.fromkeys(pin for entrant in entrants.values() for pin in entrant.pins)
    tell(report, trial, outcomes, load=load, looks=looks, pins=list(pins))
    return report


def trial_of(cut: Slice, options: argparse.Namespace) -> Trial:
    """Return the trial for the options. Raises ValueError if the trace has no requests left."""
    shrink = options.shrink or cut.shrink
    slicing = Slicing(options.size or cut.size, options.turns or cut.most_turns, shrink, options.seed)
    workers = WorkerOptions(
        count=options.workers,
        blocks=(options.blocks or cut.rates.blocks) // shrink,
        prefill_tokens_per_s=(options.prefill_tokens_per_s or cut.rates.prefill_tokens_per_s) / shrink,
        tpot_ms=cut.rates.tpot_ms,
        timing=options.timing,
        speed=options.speed,
    )
    return Trial(cut.sessions(slicing), workers, shrink)


def measure(trial: Trial, entrant: Entrant, *, load: float) -> Outcome:
    """Run one measurement, and report it on standard error."""
    begun = time.monotonic()
    outcome = trial.run(entrant, load=load)
    print(
        f"{entrant.name}: load {load:.3g}, {outcome.requests} requests, failures {dict(outcome.failures)}, "
        f"hit {outcome.hit_rate:.1%}, TTFT mean {outcome.ttft_mean_s:.3g} s, p90 {outcome.ttft_p90_s:.3g} s, "
        f"cores busy {outcome.effort.cores:.2f}, sent late p99 {outcome.late_p99_s:.3g} s, "
        f"took {time.monotonic() - begun:.0f} s",
        file=sys.stderr,
    )
    return outcome


def _prepared(names: Sequence[str], shipped: Shipped | None) -> dict[str, Entrant]:
    entrants = {name: ENTRANTS[name](shipped) for name in names}
    for entrant in entrants.values():
        entrant.prepare()
    return entrants


def _load_of_the_best(trial: Trial, entrants: Mapping[str, Entrant], first: float) -> tuple[float, list[Look]]:
    """Return the highest load that the best other router can serve, and how the load was found."""

    def p90_s(name: str, load: float) -> float:
        return measure(trial, entrants[name], load=load).ttft_p90_s

    search = LoadSearch([name for name, entrant in entrants.items() if not entrant.is_ours], p90_s)
    return search.highest(first), search.looks


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("peers.routing", __doc__)
    parser.add_argument("--slice", choices=tuple(SLICES), required=True)
    parser.add_argument(
        "--peers", type=_names, default=list(DEFAULT), help=f"with commas between: {', '.join(ENTRANTS)}"
    )
    parser.add_argument("--name", help="of the report; default: peers_routing_SLICE")
    parser.add_argument("--load", type=float, help="how many times as fast as the slice's own times everybody comes")
    parser.add_argument("--find-load", action="store_true", help="search for the load, from --load on")
    parser.add_argument("--head", type=float, default=0.5, help="share of the sessions that a look of the search takes")
    parser.add_argument("--size", type=int, help="conversations, requests or sessions of the trace")
    parser.add_argument("--turns", type=int, help="most turns of a session")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--blocks", type=int, help="KV cache of a worker in blocks of 16 tokens, before --shrink")
    parser.add_argument("--prefill-tokens-per-s", type=float, help="of a worker, before --shrink")
    parser.add_argument("--shrink", type=int, help="prompts, caches and rates are so many times smaller")
    parser.add_argument("--speed", type=float, default=2.0, help="seconds of the workers in one of the clock")
    parser.add_argument("--timing", choices=("fifo", "chunked"), default="fifo", help="how the workers' engines work")
    parser.add_argument("--sources", action="store_true", help="ours from the checkout, without the compiled core")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in ENTRANTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {unknown[0]!r}; there are {', '.join(ENTRANTS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude("peers.routing", lambda: run(options), results=options.results, cannot_run=CANNOT_RUN)
