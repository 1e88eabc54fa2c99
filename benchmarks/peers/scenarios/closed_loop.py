"""Load tests with wrk and their tables, which all saturation scenarios share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bench import BUSY_CORE, Measurement, Target, ratios
from benchmarks.chart import BarChart
from benchmarks.chat_bodies import SMALL, Load, Size
from benchmarks.peers.entrants import LITELLM, NGINX, OURS, Entrant
from benchmarks.peers.field import CONNECTIONS, Field, Wanted, say
from benchmarks.report import Bar, Cell, Spread, Table

WARM_UP_S = 1.0
MOST_SLOW_CONNECTIONS = 32
"""Maximum number of connections to targets that answer slowly."""
STUB = "stub worker, no proxy"
WORKERS = 2
PER_CPU, OTHERS = "of nginx, per CPU s", "others on its core"


@dataclass(frozen=True, slots=True)
class Case:
    """Kind of load."""

    title: str
    load: Load = "requests"
    size: Size = SMALL
    connections: int = CONNECTIONS


Found = Mapping[Case, Sequence[Measurement]]


def measure(field: Field, wanted: Wanted, cases: Sequence[Case]) -> Found:
    """Measure all routers and the stub worker under all *cases*, `Wanted.rounds` times.

    Raises:
        ChildFailedError: if Warmgate does not start or answer.
    """
    stub = field.bench.start_stub("--workers", str(WORKERS))
    workers = stub.urls["requests"].split(",")
    stub = Target(STUB, stub.child, {"requests": workers[0], "streams": workers[0]})
    runners: list[tuple[Entrant | None, Target]] = [(None, stub), *field.start(workers)]
    found: dict[Case, list[Measurement]] = {case: [] for case in cases}
    for number in range(-1, wanted.rounds):  # the first is to warm up
        for case in cases:
            for entrant, target in runners:
                measurement = field.bench.measure(
                    target,
                    stub,
                    case.load,
                    round_number=number,
                    seconds=wanted.seconds if number >= 0 else WARM_UP_S,
                    size=case.size,
                    connections=connections(case, entrant),
                )
                if number >= 0:
                    found[case].append(measurement)
                    say(f"round {number + 1}, {case.title}: {target.name}: {measurement.per_s:,.0f}/s")
    return found


def connections(case: Case, entrant: Entrant | None) -> int:
    """Return the number of connections of *entrant*."""
    most = MOST_SLOW_CONNECTIONS if entrant is not None and entrant.is_slow else case.connections
    return min(most, case.connections)


def names(found: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(each.target for each in found))


def best_of(found: Sequence[Measurement], load: Load, routers: Sequence[str]) -> str | None:
    """Return the name in *routers* with the highest median rate, or None if none was measured."""
    there = [name for name in names(found) if name in routers]
    return max(there, key=lambda name: _rate(found, name, load).median) if there else None


def bar_against(found: Sequence[Measurement], other: str | None, load: Load, what: str, least: float) -> list[Bar]:
    """Return the target that Warmgate reaches *least* of the rate of *other*, if both were measured."""
    ratio = by_rate(found, OURS, load, other) if other is not None else None
    return [] if ratio is None else [Bar(f"{what}: warmgate, of {other}", ratio.median, ">=", least)]


def bar_by_processor_time(found: Sequence[Measurement], other: str, what: str, least: float) -> list[Bar]:
    """Return the target that Warmgate reaches *least* of the answers per processor second of *other*, if measured."""
    ratio = by_processor_time(found, OURS, other)
    return [] if ratio is None else [Bar(f"{what}: warmgate, of {other}", ratio.median, ">=", least)]


def by_rate(found: Sequence[Measurement], target: str, load: Load, to: str) -> Spread | None:
    """Return the rate of *target* divided by that of *to*, by round, or None without a common round."""
    try:
        return ratios(found, target, load, to)
    except ValueError:
        return None


def by_processor_time(found: Sequence[Measurement], target: str, to: str) -> Spread | None:
    """Return the ratio of answers per second of processor time, which depends less on the load of the machine."""
    own, other = (
        {m.round: m.per_s / m.target_cpu for m in found if m.target == name and m.target_cpu} for name in (target, to)
    )
    values = [own[number] / other[number] for number in own if other.get(number)]
    return Spread.of(values) if values else None


def errors_of_ours(found: Found) -> int:
    return sum(each.errors for measurements in found.values() for each in measurements if each.target == OURS)


def table(case: Case, found: Sequence[Measurement]) -> Table:
    """Return a table with one line per target."""
    rows: list[tuple[Cell | Spread, ...]] = []
    for name in names(found):
        own = [each for each in found if each.target == name]
        rows.append(
            (
                name,
                _rate(found, name, case.load),
                by_rate(found, name, case.load, NGINX) if name != STUB else None,
                Spread.of(each.p50_ms for each in own),
                Spread.of(each.p99_ms for each in own),
                Spread.of(each.target_cpu for each in own),
                by_processor_time(found, name, NGINX) if name != STUB else None,
                Spread.of(each.others_on_proxy_core for each in own).median,
                sum(each.errors for each in own),
            )
        )
    columns = ("", "per s", "of nginx", "p50 ms", "p99 ms", "share of a core", PER_CPU, OTHERS, "errors")
    return Table(f"{case.title}: median (lowest – highest) of the rounds", columns, rows)


def beside_ours(case: Case, found: Sequence[Measurement]) -> Table | None:
    """Return Warmgate's rate divided by each other rate in the same rounds, or None if Warmgate was not measured."""
    if OURS not in names(found):
        return None
    others = [name for name in names(found) if name not in {OURS, STUB}]
    rows = [(name, by_rate(found, OURS, case.load, name), by_processor_time(found, OURS, name)) for name in others]
    return Table(f"{case.title}: warmgate, of the rate of", ("", "per s", "per CPU s"), rows)


def chart(found: Found) -> BarChart:
    """Return a chart of all rates relative to nginx in the same rounds."""

    def of_nginx(name: str, case: Case) -> float | None:
        ratio = by_rate(found[case], name, case.load, NGINX)
        return None if ratio is None else ratio.median

    everybody = dict.fromkeys(name for measurements in found.values() for name in names(measurements))
    series = {name: [of_nginx(name, case) for case in found] for name in everybody if name not in {STUB, NGINX}}
    return BarChart("Rates on one core, beside nginx's", "of nginx", [case.title for case in found], series)


def remarks(found: Found) -> list[str]:
    """Return remarks that readers need to judge the figures."""
    every = [each for measurements in found.values() for each in measurements]
    notes = []
    others = Spread.of(each.others_on_proxy_core for each in every)
    if others.median > 1 - BUSY_CORE:
        notes.append(
            f"The machine was not quiet: others took {others.median:.0%} of the proxy's core. Not for the record."
        )
    for case, measurements in found.items():
        limited = [each for each in measurements if each.target == NGINX]
        if limited and Spread.of(each.target_cpu for each in limited).median < BUSY_CORE:
            notes.append(f"{case.title}: nginx left its core idle at times; workers and load were the limit for it.")
    if LITELLM in {each.target for each in every} and any(case.connections > MOST_SLOW_CONNECTIONS for case in found):
        notes.append(f"The slow ones get {MOST_SLOW_CONNECTIONS} connections where others get more.")
    return notes


def _rate(found: Sequence[Measurement], name: str, load: Load) -> Spread:
    return Spread.of(each.per_s for each in found if each.target == name and each.load == load)
