"""The replays for the record: every entrant in every setting, and the bars for ours."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.policies.names import BOUNDS, POLICIES
from benchmarks.replay.bench import FIRST_WAITS, Bench, lead_bar, mean_ttft_s, speed_ratio_bar
from benchmarks.replay.recorded import AGENTIC, CONVERSATION, RAG, SETTINGS, SYNTHETIC
from benchmarks.report import Bar, Report
from replay.setting import Setting
from replay.summary import Summary
from routing.queueing.release_policy import ReleasePolicy
from routing.strategies import NAMES

EVERYBODY = tuple(dict.fromkeys((*NAMES, *POLICIES, *BOUNDS)))
BEST_OF_OTHERS = ("policy_a", "policy_b")
"""Best policies of all that were tried before, see `benchmarks/policies`."""
SPEED_BARS = {1000: (2.08, 1.90), 2900: (2.40, 2.21), 5712: (2.47, 2.31)}
"""Times the recorded speed that kv_aware and prefix_aware have to bear, by blocks of a worker's cache."""
SEARCHED = (
    *("kv_aware", "prefix_aware", "round_robin", "policy_a", "policy_b", "min_ttft", "llm_d", "lmetric"),
    *("dynamo_1", "dynamo_4", "sglang_cache_aware", "bound_first_come", "bound_shortest_first"),
)
AGENTS_BAR_S = 4.3
HARD = 1.15
"""Limit of the loss where the router gets wrong values."""
OVERLOAD = Setting("Coding agents, more than the caches hold", AGENTIC, 8, 600, users=128)
OVERLOAD_BARS = {"ttft_mean_s": 0.8, "ttft_p50_s": 0.7}
"""Share of policy B's that is left for kv_aware."""
CHARTED = ("kv_aware", "prefix_aware", "policy_b", "llm_d", "dynamo_1", "sglang_cache_aware", "bound_shortest_first")
NOTES = (
    "Engines of the `fifo` timing model: one prefill at a time, 10,000 uncached tokens per second, slowed by 0.4 % "
    "by each running decode; 12 ms per output token and 0.4 ms more for each request beside it.",
    "Hit rate: cached share of all prompt tokens. Boundless cache: what one cache without limit would have held. "
    "Imbalance: what the busiest worker computed, over the mean. Wait of a first request: how long the router held "
    "those with which a session begins.",
    "round_robin, least_loaded, session, prefix_aware and kv_aware are the objects that serve in production; they "
    "have to learn how fast the engines are. kv_aware hears KV events, the others of ours do not. All others are "
    "written from descriptions, see `benchmarks/policies`, and know the engines' speed. Bounds: one cache of all "
    "workers' size, so that no placement can be wrong.",
)


def record(bench: Bench, report: Report) -> None:
    """All tables, bars and charts of `benchmarks/results/replay.md`, into *report*."""
    found = {setting.trace: bench.compare(setting, EVERYBODY, report) for setting in SETTINGS}
    for setting in SETTINGS:
        others = [name for name in NAMES if name not in {"prefix_aware", "kv_aware"}]
        report.bars.append(lead_bar(setting, "prefix_aware", found[setting.trace], others))
        if setting.trace in {SYNTHETIC, RAG}:
            report.bars.append(lead_bar(setting, "kv_aware", found[setting.trace], BEST_OF_OTHERS))
    agents_s = mean_ttft_s(found[AGENTIC]["kv_aware"])
    report.bars.append(Bar("Coding agents: kv_aware's mean TTFT, s", agents_s, "<=", AGENTS_BAR_S))
    _record_speeds(bench, report)
    _record_hardship(bench, found, report)
    _record_overload(bench, report)
    _draw(bench, report)
    report.notes += NOTES


def _record_speeds(bench: Bench, report: Report) -> None:
    for blocks, (kv_aware, prefix_aware) in SPEED_BARS.items():
        setting = Setting(f"Chat, {blocks:,} blocks", CONVERSATION, 8, blocks)
        speeds = bench.search_speeds(setting, SEARCHED, report)
        for name, bar in (("kv_aware", kv_aware), ("prefix_aware", prefix_aware)):
            report.bars.append(Bar(f"{setting.title}: {name}'s highest speed", speeds[name], ">=", bar))
        report.bars.append(speed_ratio_bar(setting, speeds))
        hard = _hard(setting)
        share = bench.search_speeds(hard, ("kv_aware",), report)["kv_aware"] / speeds["kv_aware"]
        report.bars.append(Bar(f"{hard.title}: kv_aware's highest speed, share of that without", share, ">=", 1 / HARD))


def _hard(setting: Setting) -> Setting:
    return dataclasses.replace(
        setting,
        title=f"{setting.title}, rate believed twice too high, events 1 s late and 5 % lost",
        rate_error=2.0,
        event_lag_s=1.0,
        event_loss=0.05,
    )


def _record_hardship(bench: Bench, found: Mapping[Path, Mapping[str, Sequence[Summary]]], report: Report) -> None:
    """kv_aware where the rate is wrong at first, and events are late and lost."""
    for setting in SETTINGS:
        hard = _hard(setting)
        suffering_s = mean_ttft_s(bench.compare(hard, ("kv_aware",), report)["kv_aware"])
        share = suffering_s / mean_ttft_s(found[setting.trace]["kv_aware"])
        report.bars.append(Bar(f"{hard.title}: kv_aware's mean TTFT, times that without", share, "<=", HARD))


def _record_overload(bench: Bench, report: Report) -> None:
    found = bench.compare(OVERLOAD, EVERYBODY, report, more=FIRST_WAITS)
    for name, bar in OVERLOAD_BARS.items():
        ours, others = (
            statistics.median(getattr(run, name) for run in found[strategy]) for strategy in ("kv_aware", "policy_b")
        )
        report.bars.append(Bar(f"{OVERLOAD.title}: kv_aware's {name}, share of policy B's", ours / others, "<=", bar))
    longest_s = max(run.first_wait_max_s or 0.0 for run in found["kv_aware"])
    cap_s = ReleasePolicy().max_wait_s
    # Anyone who has waited so long is next, when a prefill ends.
    report.bars.append(
        Bar(f"{OVERLOAD.title}: longest wait of a first request, of the cap", longest_s / cap_s, "<=", 1.25)
    )


def _draw(bench: Bench, report: Report) -> None:
    chat = {
        speed: Setting("", CONVERSATION, 8, 5712, speed=speed) for speed in (0.8, 1.2, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6)
    }
    bench.draw("Chat: TTFT against speed", "times the recorded speed", chat, CHARTED, report)
    agents = {float(users): Setting("", AGENTIC, 8, 600, users=users) for users in (48, 64, 80, 96, 112, 128, 144)}
    bench.draw("Coding agents, 600 blocks: TTFT against users", "users", agents, CHARTED, report)
