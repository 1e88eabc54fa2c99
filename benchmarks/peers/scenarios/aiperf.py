"""Scenario with the beginning of a recorded trace, sent by NVIDIA's load generator aiperf."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Target
from benchmarks.peers.entrants import OURS, SGLANG
from benchmarks.peers.environment import PEERS, install
from benchmarks.peers.field import Field, Setting, Wanted, new_report, say, set_up_notes, taking_the_field
from benchmarks.peers.routing.workers import WorkerOptions, Workers
from benchmarks.processes import ChildFailedError
from benchmarks.report import ROOT, Bar, Report, Spread, Table
from benchmarks.tokenizing import recorded, trained

ROUNDS, SECONDS = 1, 30.0
ENTRANTS = (OURS, SGLANG, "smg cache_aware")
TRACE = ROOT / "benchmarks" / "traces" / "mooncake_conversation_6000.jsonl"
MOST_OUTPUT_TOKENS = 64
"""Maximum length of answers. Recorded answers are longer, but would overload the clients on one core."""
WORKERS = WorkerOptions(count=2, blocks=20_000, prefill_tokens_per_s=50_000, tpot_ms=12, timing="chunked", speed=1.0)
TOKENIZER = "local/recorded"
REVISION = "0" * 40  # of the snapshot, in the form that the hub's cache has it
START_S, MOST_S = 120.0, 300.0
FIGURES = {"time_to_first_token": "TTFT", "request_latency": "whole answer"}


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurements of aiperf for one target, with the counts of the workers."""

    target: str
    round: int
    asked: int
    answered: int
    milliseconds: Mapping[str, Mapping[str, float]]
    """Statistics for each metric in `FIGURES`, in milliseconds."""
    hit_rate: float
    """Cached share of all prompt tokens, as counted by the workers."""


def run(setting: Setting) -> Report:
    wanted = setting.or_else(rounds=ROUNDS, seconds=SECONDS, entrants=ENTRANTS)
    peer = PEERS["aiperf"]
    install(peer)
    report = new_report("aiperf", "aiperf: a recorded trace, driven by a load generator of others", wanted)
    lines = head(TRACE, wanted.seconds)
    with taking_the_field(wanted) as field:
        folder = field.bench.processes.directory
        trace = folder / "head.jsonl"
        trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hub = save_tokenizer(folder / "hub-home")
        found = measure(field, wanted, trace, hub, asked=len(lines))
        missing = field.missing
    tell(report, found)
    report.notes += [
        f"aiperf {peer.whole[0].partition('==')[2]}: the first {wanted.seconds:g} s of {TRACE.name}, {len(lines)} "
        f"streams at their recorded times, answers cut to {MOST_OUTPUT_TOKENS} tokens. It makes prompts of the trace's "
        "hash ids, so that prefixes repeat as they did, with a tokenizer that was trained on the spot; it counts and "
        "times by itself.",
        f"Fresh workers and caches for each: {WORKERS.count} simulated workers of {WORKERS.blocks:,} blocks, "
        f"{WORKERS.prefill_tokens_per_s:,.0f} tokens of prefill per second, {WORKERS.tpot_ms:g} ms per output token.",
        "aiperf, workers and everything else but the proxy share one core: a check of what is right, not a record.",
        *set_up_notes(wanted, workers="simulated ones")[1:],
        *missing,
    ]
    return report


def head(trace: Path, seconds: float) -> list[str]:
    """Return the lines of *trace* of the first *seconds*, with shortened answers."""
    lines = []
    with trace.open(encoding="utf-8") as recording:
        for line in recording:
            request = json.loads(line)
            if request["timestamp"] >= 1000 * seconds:
                break
            lines.append(json.dumps({**request, "output_length": min(MOST_OUTPUT_TOKENS, request["output_length"])}))
    return lines


def save_tokenizer(home: Path) -> Path:
    """Save a tokenizer trained on recorded conversations in the cache folder of the model hub, and return *home*."""
    snapshots = home / "hub" / f"models--{TOKENIZER.replace('/', '--')}"
    snapshot = snapshots / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshots / "refs").mkdir()
    (snapshots / "refs" / "main").write_text(REVISION, encoding="utf-8")
    trained(message["content"] for message in recorded()).save(str(snapshot / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "model_max_length": 131_072}
    (snapshot / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return home


def measure(field: Field, wanted: Wanted, trace: Path, home: Path, *, asked: int) -> list[Reading]:
    """Measure all routers one after the other. Raises `ChildFailedError` if Warmgate or aiperf fails."""
    found = []
    for number in range(wanted.rounds):
        for entrant in field.entrants:
            workers = Workers.start(field.bench.processes, WORKERS)
            # No checking: what it asks would be in the caches.
            target = field.start_one(entrant, workers.urls, checked=False)
            if target is not None:
                reported = drive(
                    field, target, trace, home, name=f"aiperf-{field.stage.next_number()}", seed=wanted.seed
                )
                work = workers.work()
                hit_rate = sum(each.cached_tokens for each in work) / max(1, sum(each.prompt_tokens for each in work))
                found.append(read(target.name, number, reported, asked=asked, hit_rate=hit_rate))
                say(f"{entrant.name}: {found[-1].answered} of {asked} answered, hit rate {hit_rate:.0%}")
                target.child.stop()
            for child in workers.children:
                child.stop()
    return found


def drive(field: Field, target: Target, trace: Path, home: Path, *, name: str, seed: int) -> dict[str, Any]:
    """Let aiperf send *trace* to *target*, and return its summary.

    Raises:
        ChildFailedError: if aiperf failed or wrote no summary.
    """
    folder = field.bench.processes.directory / name
    flags = {
        "-m": "tiny",
        "--url": target.urls["streams"],
        "--endpoint-type": "chat",
        "--api-key": "benchmark",
        "--input-file": str(trace),
        "--custom-dataset-type": "mooncake_trace",
        "--tokenizer": TOKENIZER,
        "--artifact-dir": str(folder),
        "--random-seed": str(seed),
        "--ui": "none",
    }
    command = [str(PEERS["aiperf"].python.parent / "aiperf"), "profile", "--streaming", "--fixed-schedule"]
    child = field.bench.processes.start(
        name,
        [*command, *(word for flag in flags.items() for word in flag)],
        cores={field.bench.load_core},
        environment={"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"},
    )
    child.wait(timeout_s=START_S + MOST_S)
    summaries = sorted(folder.rglob("profile_export_aiperf.json"))
    if not summaries:
        raise ChildFailedError(f"aiperf left no summary:\n{child.last_words()}")
    reported: dict[str, Any] = json.loads(summaries[0].read_text(encoding="utf-8"))
    return reported


def read(target: str, number: int, reported: Mapping[str, Any], *, asked: int, hit_rate: float) -> Reading:
    """Return the needed part of aiperf's summary *reported*."""
    milliseconds = {
        name: {key: float(reported[name][key]) for key in ("avg", "p50", "p90", "p99")}
        for name in FIGURES
        if name in reported
    }
    answered = int((reported.get("request_count") or {}).get("avg", 0))
    return Reading(target, number, asked, answered, milliseconds, hit_rate)


def tell(report: Report, found: Sequence[Reading]) -> None:
    """Write the table, and the target that Warmgate answers all requests."""
    for name in dict.fromkeys(each.target for each in found if each.target == OURS):
        unanswered = sum(each.asked - each.answered for each in found if each.target == name)
        report.bars.append(Bar("requests of aiperf that warmgate did not answer", unanswered, "==", 0))
    keys = [(metric, key) for metric in FIGURES for key in ("avg", "p50", "p90", "p99")]
    rows = []
    for name in dict.fromkeys(each.target for each in found):
        own = [each for each in found if each.target == name]
        times = [
            Spread.of(each.milliseconds[metric][key] for each in own)
            if all(metric in each.milliseconds for each in own)
            else None
            for metric, key in keys
        ]
        answered = f"{sum(each.answered for each in own)} of {sum(each.asked for each in own)}"
        rows.append((name, answered, Spread.of(each.hit_rate for each in own), *times))
    columns = ("", "answered", "hit rate", *(f"{FIGURES[metric]} {key}, ms" for metric, key in keys))
    report.tables.append(Table("As aiperf measured it", columns, rows))
    report.figures["readings"] = list(found)
