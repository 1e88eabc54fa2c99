"""locust as a program of its own, aimed at a URL, and what its statistics come to."""

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Processes
from benchmarks.report import ROOT

LOCUSTFILE = ROOT / "benchmarks" / "locustfile.py"
WINDOW_S = 10
GRACE_S = 120.0
"""Time to start, and to end after the time of the run."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run of locust: so many users, who come so many in a second, for so long."""

    url: str
    users: int
    spawn_per_s: float
    run_s: float
    options: Sequence[str]
    """Those of the locustfile."""

    @property
    def ramp_s(self) -> float:
        """Time until all users are active."""
        return self.users / self.spawn_per_s


@dataclass(frozen=True, slots=True)
class Measured:
    """Locust's statistics of a run; it rounds times to two digits."""

    requests: int
    failures: int
    requests_per_min: float
    """Rate while all users are active."""
    most_per_s: float
    """Highest rate of answers over ten seconds."""
    latency_p50_s: float
    latency_p95_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p95_s: float
    tpot_mean_s: float
    cores: float
    """Cores that locust kept busy; near 1 locust itself is slow, for it has one process."""

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]], *, ramp_s: float, cores: float) -> "Measured":
        """Read locust's ``--json-file``; raises ``ValueError`` where too little was answered."""
        by_kind = {entry["method"]: entry for entry in entries}
        if not {"POST", "TTFT", "TPOT"} <= set(by_kind):
            raise ValueError("locust saw no streamed answer")
        whole, ttft, tpot = by_kind["POST"], by_kind["TTFT"], by_kind["TPOT"]
        per_s = _answered_per_s(whole)
        steady = per_s[int(ramp_s) + 1 :]
        if len(steady) < WINDOW_S:
            raise ValueError(f"locust saw answers for less than {WINDOW_S} s while all users were there")
        return cls(
            requests=whole["num_requests"],
            failures=whole["num_failures"],
            requests_per_min=60 * sum(steady) / len(steady),
            most_per_s=max(sum(per_s[at : at + WINDOW_S]) for at in range(len(per_s) - WINDOW_S + 1)) / WINDOW_S,
            latency_p50_s=_percentile_s(whole, 50),
            latency_p95_s=_percentile_s(whole, 95),
            ttft_p50_s=_percentile_s(ttft, 50),
            ttft_p90_s=_percentile_s(ttft, 90),
            ttft_p95_s=_percentile_s(ttft, 95),
            tpot_mean_s=tpot["total_response_time"] / tpot["num_requests"] / 1000,
            cores=cores,
        )


def _answered_per_s(entry: Mapping[str, Any]) -> list[int]:
    """Answers, without failures, in each second of the run; the last one is left out, for the run ends inside it."""
    counts = {int(second): count for second, count in entry["num_reqs_per_sec"].items()}
    failed = {int(second): count for second, count in entry["num_fail_per_sec"].items()}
    seconds = range(int(entry["start_time"]), max(counts, default=0))
    return [counts.get(second, 0) - failed.get(second, 0) for second in seconds]


def _percentile_s(entry: Mapping[str, Any], percent: int) -> float:
    times = sorted((float(time_ms), count) for time_ms, count in entry["response_times"].items())
    left = percent / 100 * sum(count for _, count in times)
    for time_ms, count in times:
        left -= count
        if left <= 0:
            return time_ms / 1000
    raise ValueError("locust has no times")


def measure(processes: Processes, wanted: Wanted, *, name: str = "locust") -> Measured:
    """Run locust to its end, headless.

    Raises:
        ChildFailedError: it did not end in time, or with a fault of its own.
        ValueError: too little was answered.
    """
    found = processes.directory / name
    command = [
        *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--host", wanted.url, "--headless", "--only-summary"),
        *("-u", str(wanted.users), "-r", f"{wanted.spawn_per_s:g}", "-t", f"{wanted.run_s:g}s", "--stop-timeout", "0"),
        # What failed is counted and reported here; it does not decide whether locust has worked.
        *("--exit-code-on-error", "0", "--json-file", str(found)),
        *wanted.options,
    ]
    before_s = _ended_children_s()
    processes.start(name, command).wait(timeout_s=wanted.run_s + GRACE_S)
    cores = (_ended_children_s() - before_s) / wanted.run_s
    entries = json.loads(Path(f"{found}.json").read_text(encoding="utf-8"))
    return Measured.of(entries, ramp_s=wanted.ramp_s, cores=cores)


def _ended_children_s() -> float:
    """Processor seconds of all children that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
