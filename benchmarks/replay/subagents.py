"""Groups of sub-agents in virtual time: how often their shared prefix is computed, and how long programs take.

Sessions are generated, see `benchmarks.replay.agent_groups`, with another seed for each run. All sub-agents of a group
arrive together, and their prompts begin with the same prefix. A *copy* is a further computation of this prefix by the
first request of a sub-agent. A copy is worth its cost if the sub-agents that were waiting when it began had more work
left, for each worker with the prefix, than the copy took. A program is a session with its sub-agents.

Exit status: 0 the bars are met, 1 one is missed, 2 it could not be measured.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.routing.outcome import percentile
from benchmarks.replay.agent_groups import generated, shared_blocks
from benchmarks.replay.command import strategy_names
from benchmarks.replay.entrant import AT_ONCE, ENTRANTS
from benchmarks.replay.job import each_of
from benchmarks.report import Bar, Cell, Circumstances, Report, Spread, Table, argument_parser, conclude
from engine_model.engine import EngineError
from replay.run import Answer, Run
from replay.setting import Setting
from replay.trace import Recorded, Trace

PACKAGES = ("numpy", "msgspec")
SESSIONS = 60
USUAL, CROWDED = "subagents", "subagents_thrash"
SETTINGS: Mapping[str, Setting] = {
    USUAL: Setting("Sub-agents", Path(), 8, 2000, users=20),
    CROWDED: Setting("Sub-agents, more than the caches hold", Path(), 8, 400, users=60),
}
PLAYED = ("kv_aware", AT_ONCE, "prefix_aware", "llm_d_sticky", "lmetric")
COPY = 0.05
"""Share of the shared prefix above which its computation counts as a copy."""
ONCE_BAR = 0.95
COMPUTED_BAR = 0.8
TTFT_BAR = 1.05
CROWDED_BAR = 0.9


@dataclass(frozen=True, slots=True)
class First:
    """First request of a sub-agent."""

    arrived_at: float
    sent_at: float
    shared_s: float
    """Seconds of prefill that it spent on the shared prefix."""
    own_s: float
    """Seconds of prefill of the rest of its prompt."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run, over all its requests."""

    hit: float
    ttft_mean_s: float
    ttft_p90_s: float
    group_mean_s: float
    """Mean time from the arrival of a group to the end of its last sub-agent."""
    program_p90_s: float
    """Time from the first request of a session to its last answer, with all pauses."""
    computed_once: float
    """Share of the groups whose shared prefix was computed once by their first requests."""
    worth: float
    """Share of the groups whose prefix was computed once, apart from copies that were worth their cost."""
    copies: float
    """Copies per group."""
    computed_tokens: int


COLUMNS = {
    "hit": "hit rate",
    "ttft_mean_s": "TTFT mean s",
    "ttft_p90_s": "p90 s",
    "group_mean_s": "group, mean s",
    "program_p90_s": "program, p90 s",
    "computed_once": "groups computed once",
    "worth": "once, or copies worth it",
    "copies": "copies per group",
}


@dataclass(frozen=True, slots=True)
class Play:
    """One run of *strategy* in the setting of that name."""

    setting: str
    strategy: str
    seed: int


def figures_of(play: Play) -> Figures:
    """Return the figures of one run. Raises ``EngineError`` if a prompt does not fit into a cache."""
    setting, trace = SETTINGS[play.setting], generated(play.seed, SESSIONS)
    answers = Run(trace, setting, ENTRANTS[play.strategy], seed=play.seed).answers()
    return summarized(trace, answers, setting.prefill_tokens_per_s)


def summarized(trace: Trace, answers: Sequence[Answer], tokens_per_s: float) -> Figures:
    asked = {request.number: request for request in trace.requests}
    programs: dict[str, list[Answer]] = {}
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        request = asked[answer.number]
        programs.setdefault(_program(request), []).append(answer)
        if request.group is not None:
            groups.setdefault(request.group, []).append(answer)
    copies = [_copies(each) for each in _firsts(trace, answers, tokens_per_s).values()]
    ttft = sorted(answer.ttft_s for answer in answers)
    computed = sum(answer.prompt_tokens - answer.cached_tokens for answer in answers)
    return Figures(
        hit=1.0 - computed / sum(answer.prompt_tokens for answer in answers),
        ttft_mean_s=statistics.fmean(ttft),
        ttft_p90_s=percentile(ttft, 90),
        group_mean_s=statistics.fmean(map(_duration_s, groups.values())),
        program_p90_s=percentile(sorted(map(_duration_s, programs.values())), 90),
        computed_once=statistics.fmean(not each for each in copies),
        worth=statistics.fmean(all(each) for each in copies),
        copies=statistics.fmean(map(len, copies)),
        computed_tokens=computed,
    )


def _program(request: Recorded) -> str:
    return (request.group or request.session or "").split("/")[0]


def _duration_s(answers: Sequence[Answer]) -> float:
    return max(answer.ended_at for answer in answers) - min(answer.arrived_at for answer in answers)


def _firsts(trace: Trace, answers: Sequence[Answer], tokens_per_s: float) -> Mapping[str, Sequence[First]]:
    """Return the first requests of the sub-agents of each group, in the order in which they were sent."""
    shared = {group: blocks * trace.block_tokens for group, blocks in shared_blocks(trace).items()}
    first: dict[str | None, Recorded] = {}
    for request in trace.requests:
        first.setdefault(request.session, request)
    by_number = {request.number: request.group for request in first.values() if request.group is not None}
    found: dict[str, list[First]] = {}
    for answer in answers:
        group = by_number.get(answer.number)
        if group is not None:
            tokens = max(0, shared[group] - answer.cached_tokens)
            shared_s = tokens / tokens_per_s if tokens > COPY * shared[group] else 0.0
            own_s = (answer.prompt_tokens - shared[group]) / tokens_per_s
            sent_at = answer.arrived_at + answer.waited_s
            found.setdefault(group, []).append(First(answer.arrived_at, sent_at, shared_s, own_s))
    return {group: sorted(each, key=lambda one: one.sent_at) for group, each in found.items()}


def _copies(firsts: Sequence[First]) -> list[bool]:
    """Return for each copy of the prefix of a group whether it was worth its cost."""
    computing = [each for each in firsts if each.shared_s > 0.0]
    return [
        copy.shared_s < sum(each.own_s for each in firsts if each.arrived_at <= copy.sent_at <= each.sent_at) / holders
        for holders, copy in enumerate(computing[1:], start=1)
    ]


def run(options: argparse.Namespace) -> Report:
    """Raises ``EngineError`` or ``ValueError``."""
    if options.seeds < 1 or options.processes < 1:
        raise ValueError("--seeds and --processes must be at least 1")
    seeds = range(options.seed, options.seed + options.seeds)
    circumstances = Circumstances.observe(seed=options.seed, packages=PACKAGES)
    report = Report("replay_subagents", "Groups of sub-agents, in virtual time", circumstances)
    plays = [Play(name, strategy, seed) for name in SETTINGS for strategy in options.strategies for seed in seeds]
    found: dict[str, dict[str, list[Figures]]] = {}
    measured = each_of(figures_of, plays, "Sub-agents", processes=options.processes)
    for play, figures in zip(plays, measured, strict=True):
        found.setdefault(play.setting, {}).setdefault(play.strategy, []).append(figures)
    report.tables += [_table(SETTINGS[name], by_strategy) for name, by_strategy in found.items()]
    if {"kv_aware", AT_ONCE} <= set(options.strategies):
        report.bars += _bars(found)
    report.figures = dict(found)
    requests = [len(generated(seed, SESSIONS).requests) for seed in seeds]
    report.notes += [
        f"Median (lowest – highest) over seeds {seeds[0]} to {seeds[-1]}, by which also the sessions are generated: "
        f"{SESSIONS} sessions with {min(requests):,} to {max(requests):,} requests. "
        "Time is virtual: no machine matters.",
        f"{AT_ONCE}: kv_aware without waiting for a prefix that another worker is computing.",
    ]
    return report


def _table(setting: Setting, by_strategy: Mapping[str, Sequence[Figures]]) -> Table:
    title = f"{setting.title}: {setting.users} users, {setting.workers} workers of {setting.blocks:,} blocks"
    rows: list[tuple[Cell | Spread, ...]] = [
        (strategy, *(Spread.of(getattr(each, name) for each in figures) for name in COLUMNS))
        for strategy, figures in by_strategy.items()
    ]
    return Table(title, ("strategy", *COLUMNS.values()), rows)


def _bars(found: Mapping[str, Mapping[str, Sequence[Figures]]]) -> list[Bar]:
    def ratio(name: str, figure: str) -> float:
        ours, before = ([float(getattr(each, figure)) for each in found[name][who]] for who in ("kv_aware", AT_ONCE))
        return statistics.median(ours) / statistics.median(before)

    title, crowded = (SETTINGS[name].title for name in (USUAL, CROWDED))
    worth = statistics.median(each.worth for each in found[USUAL]["kv_aware"])
    return [
        Bar(f"{title}: groups computed once, or copies worth it", worth, ">=", ONCE_BAR),
        Bar(f"{title}: computed tokens, times those of {AT_ONCE}", ratio(USUAL, "computed_tokens"), "<=", COMPUTED_BAR),
        Bar(f"{title}: mean TTFT, times that of {AT_ONCE}", ratio(USUAL, "ttft_mean_s"), "<=", TTFT_BAR),
        Bar(f"{crowded}: mean TTFT, times that of {AT_ONCE}", ratio(CROWDED, "ttft_mean_s"), "<=", CROWDED_BAR),
    ]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("replay.subagents", __doc__)
    parser.add_argument(
        "--strategies", type=strategy_names, default=list(PLAYED), help=f"with commas between: {', '.join(ENTRANTS)}"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many, from --seed on")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    return conclude(
        "replay.subagents", lambda: run(options), results=options.results, cannot_run=(ValueError, EngineError)
    )


if __name__ == "__main__":
    sys.exit(main())
