"""Targets and tables of the benchmark of the picker, with the figures that others have published."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.chat_bodies import Size
from benchmarks.picker.callers import Waits
from benchmarks.picker.load import Found
from benchmarks.picker.rig import BARE, PICKER, WORKERS
from benchmarks.report import Bar, Report, Spread, Table

MAX_ADDED_MS = 1.0
MIN_PICKS_PER_S = 1_500.0
MAX_ADDED_LONG_MS = 150.0
QUIET = 0.05
"""Maximum share of the picker's core that other programs use in a run for the record."""

GIE = "[GIE 2928](https://github.com/kubernetes-sigs/gateway-api-inference-extension/issues/2928)"
LLM_D = "[llm-d-router 1109](https://github.com/llm-d/llm-d-router/issues/1109)"
SHARED = "[llm-d-router 2024](https://github.com/llm-d/llm-d-router/pull/2024)"
PUBLISHED = (
    ("GIE 1.5.0, Istio, 4 simulated workers", "220 kB", 20, 120, 156, 220, GIE),
    ("GIE 1.5.0, Istio, 4 simulated workers", "220 kB", 150, 129, 1153, 1272, GIE),
    ("llm-d's router, 4 simulated workers", "220 kB", 20, 122, 153, 222, LLM_D),
    ("llm-d's router, 4 simulated workers", "220 kB", 150, 129, 1145, 1239, LLM_D),
    ("llm-d's router, one replica, simulated workers", "not stated", 25, 324, None, 137, SHARED),
    ("llm-d's router, one replica, simulated workers", "not stated", 100, 388, None, 443, SHARED),
)
"""Figures of others, as they published them: in flight, requests per second, p50 and p99 in milliseconds."""


@dataclass(frozen=True, slots=True)
class Case:
    """Load of one measurement."""

    size: Size
    in_flight: int
    per_s: float | None = None
    """Rate of requests that arrive at random times, or None for a constant number in flight."""
    worker_ms: float | None = None
    """Time to the first byte of the workers behind Envoy, or None if they answer at once."""

    @property
    def name(self) -> str:
        load = f"{self.in_flight} in flight" if self.per_s is None else f"{self.per_s:,.0f} per second"
        return f"{self.size.name}, {load}" + ("" if self.worker_ms is None else f", workers take {self.worker_ms:g} ms")


@dataclass(frozen=True, slots=True)
class Direct:
    """Measurement of a gRPC server without Envoy."""

    server: str
    case: str
    round: int
    per_s: float
    pick_p50_ms: float
    pick_p99_ms: float
    added_p50_ms: float
    added_p99_ms: float
    loop_ms: float
    """Processor time of the thread of the event loop per request."""
    others_ms: float
    """Processor time of all other threads per request."""
    client_share: float
    """Share of its core that the load used."""
    foreign_share: float
    """Share of the picker's core that other programs used."""
    failed: int

    @classmethod
    def of(
        cls,
        server: str,
        case: Case,
        number: int,
        found: Found,
        *,
        loop_s: float,
        others_s: float,
        client_s: float,
        foreign_s: float,
    ) -> "Direct":
        picks = [each.pick_s for each in found.times]
        added = [each.added_s for each in found.times]
        count = len(found.times)
        return cls(
            server,
            case.name,
            number,
            found.per_s,
            statistics.median(picks) * 1e3,
            percentile(picks, 99) * 1e3,
            statistics.median(added) * 1e3,
            percentile(added, 99) * 1e3,
            loop_s / count * 1e3,
            others_s / count * 1e3,
            client_s / found.took_s,
            foreign_s / found.took_s,
            found.failed,
        )


@dataclass(frozen=True, slots=True)
class Through:
    """Measurement of the time to the first byte through Envoy, with and without the picker."""

    case: str
    round: int
    without_per_s: float
    per_s: float
    without_p50_ms: float
    p50_ms: float
    without_p99_ms: float
    p99_ms: float
    without_mean_ms: float
    mean_ms: float
    failed: int

    @property
    def added_ms(self) -> float:
        """Mean time that the picker adds to the time to the first byte."""
        return self.mean_ms - self.without_mean_ms

    @classmethod
    def of(cls, case: Case, number: int, *, without: Waits, through: Waits) -> "Through":
        plain, picked = without.first_byte_s, through.first_byte_s
        return cls(
            case.name,
            number,
            without.per_s,
            through.per_s,
            statistics.median(plain) * 1e3,
            statistics.median(picked) * 1e3,
            percentile(plain, 99) * 1e3,
            percentile(picked, 99) * 1e3,
            statistics.mean(plain) * 1e3,
            statistics.mean(picked) * 1e3,
            without.failed + through.failed,
        )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that *percent* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def fill(
    report: Report,
    direct: Sequence[Direct],
    through: Sequence[Through],
    shares: Mapping[str, Mapping[str, int]],
    *,
    is_compiled: bool,
) -> None:
    """Write targets, tables and notes into *report*. *shares* are samples of the profile by case and part."""
    report.bars += _bars(direct, through)
    report.tables.append(_table_of_servers(direct))
    if through:
        report.tables.append(_table_through_envoy(through))
    report.tables += [_table_of_costs(direct), _table_of_shares(shares)]
    columns = ("", "body", "in flight", "per s", "p50 ms", "p99 ms", "source")
    report.tables.append(
        Table("Published figures of others: time to the first byte behind a gateway", columns, PUBLISHED)
    )
    report.notes += [
        "Without Envoy, the load plays Envoy's part in the body mode FULL_DUPLEX_STREAMED over one HTTP/2 connection: "
        "headers, the body in pieces of 16 kB, the answer's headers and its body. A pick takes from the headers until "
        "the endpoint and the whole body are back. Added is the pick and both messages about the answer.",
        f"`{BARE}` is a server with grpcio that returns all messages as they are. The picker has its own gRPC server.",
        f"Behind Envoy, {WORKERS} stub workers answer at once, unless the case says otherwise. Published figures are "
        "those of other machines, and their pickers used several cores; they include the gateway.",
        "The profile counts samples of processor time in Python's frames. Code of others counts for its caller.",
        "The picker is "
        + ("the wheel that the image holds." if is_compiled else "the one from the sources, not compiled."),
    ]
    foreign = Spread.of(each.foreign_share for each in direct).median
    if foreign > QUIET:
        text = (
            f"The machine was not quiet: other programs took {foreign:.0%} of the picker's core (median of all rounds)."
        )
        report.notes.append(f"{text} Not figures for the record.")
    busy = Spread.of(each.client_share for each in direct if each.server == PICKER).highest
    report.notes.append(f"The load used at most {busy:.0%} of its own core while it measured the picker.")
    report.figures |= {"direct": list(direct), "through": list(through), "samples": dict(shares)}


def _spread(found: Sequence[Direct], server: str, case: str, value: Callable[[Direct], float]) -> Spread:
    return Spread.of(value(each) for each in found if each.server == server and each.case == case)


def _bars(direct: Sequence[Direct], through: Sequence[Through]) -> list[Bar]:
    of_picker = [each for each in direct if each.server == PICKER]
    cases = list(dict.fromkeys(each.case for each in of_picker))
    one, *_ = cases
    medium = [case for case in cases if case.startswith(one.partition(",")[0]) and case.endswith("in flight")]
    best = max(_spread(direct, PICKER, case, lambda each: each.per_s).median for case in medium)
    bars = [
        Bar(
            f"ms added, median, {one}",
            _spread(direct, PICKER, one, lambda each: each.added_p50_ms).median,
            "<=",
            MAX_ADDED_MS,
        ),
        Bar(f"picks per s, {one.partition(',')[0]}", best, ">=", MIN_PICKS_PER_S),
    ]
    for case in dict.fromkeys(each.case for each in through):
        if "150 in flight" in case:
            added = Spread.of(each.added_ms for each in through if each.case == case).median
            bars.append(
                Bar(
                    f"ms added to the time to the first byte behind Envoy, mean, {case}", added, "<=", MAX_ADDED_LONG_MS
                )
            )
    failed = sum(each.failed for each in direct) + sum(each.failed for each in through)
    return [*bars, Bar("failed requests", failed, "==", 0)]


def _table_of_servers(found: Sequence[Direct]) -> Table:
    rows: list[Sequence[str | Spread]] = []
    for case in dict.fromkeys(each.case for each in found):
        for server in dict.fromkeys(each.server for each in found if each.case == case):
            values: list[Callable[[Direct], float]] = [
                lambda each: each.per_s,
                lambda each: each.pick_p50_ms,
                lambda each: each.pick_p99_ms,
                lambda each: each.added_p50_ms,
                lambda each: each.added_p99_ms,
            ]
            rows.append((case, server, *(_spread(found, server, case, value) for value in values)))
    columns = ("load", "", "per s", "pick p50 ms", "pick p99 ms", "added p50 ms", "added p99 ms")
    return Table("Without Envoy: median (lowest – highest) of the rounds", columns, rows)


def _table_through_envoy(found: Sequence[Through]) -> Table:
    rows: list[Sequence[str | Spread]] = []
    for case in dict.fromkeys(each.case for each in found):
        of_case = [each for each in found if each.case == case]
        values: list[Callable[[Through], float]] = [
            lambda each: each.without_per_s,
            lambda each: each.per_s,
            lambda each: each.without_p50_ms,
            lambda each: each.p50_ms,
            lambda each: each.p99_ms,
            lambda each: each.added_ms,
        ]
        rows.append((case, *(Spread.of(value(each) for each in of_case) for value in values)))
    columns = ("load", "per s without", "per s", "p50 ms without", "p50 ms", "p99 ms", "added, mean ms")
    return Table("Time to the first byte through Envoy, without and with the picker", columns, rows)


def _table_of_costs(found: Sequence[Direct]) -> Table:
    """Return a table with the processor time of a request by thread."""
    rows: list[Sequence[str | float]] = []
    for case in dict.fromkeys(each.case for each in found):
        for server in dict.fromkeys(each.server for each in found if each.case == case):
            loop, others = (_spread(found, server, case, value).median for value in (_loop_ms, _others_ms))
            rows.append((case, server, loop + others, loop, others))
    columns = ("load", "", "all", "event loop", "other threads")
    return Table("Processor time of one request, ms", columns, rows)


def _table_of_shares(found: Mapping[str, Mapping[str, int]]) -> Table:
    """Return a table with the shares of the processor time by part of the gateway."""
    totals = {case: sum(counts.values()) for case, counts in found.items()}
    parts = Counter[str]()
    for counts in found.values():
        parts.update(counts)
    rows = [
        (part, *(f"{found[case].get(part, 0) / total:.0%}" for case, total in totals.items()))
        for part, _ in parts.most_common()
    ]
    return Table("Where the processor time of the picker goes, from the sources", ("", *found), rows)


def _loop_ms(each: Direct) -> float:
    return each.loop_ms


def _others_ms(each: Direct) -> float:
    return each.others_ms
