"""Report of a benchmark in two files: ``NAME.json`` with all figures, and ``NAME.md`` with the tables.

The JSON contains everything that the tables show, so `benchmarks.render` can write the tables again. Charts are
additional files: ``NAME-1.svg`` and so on.

A report contains the command, the commit, versions, the machine and its load, but never paths or the host name.

Every benchmark starts with `argument_parser` and ends with `conclude`.
"""

import argparse
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from benchmarks.chart import BarChart, Chart, LineChart

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

KINDS: Mapping[type[Chart], str] = {LineChart: "lines", BarChart: "bars"}
"""Names of the kinds of charts in the JSON."""

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of one quantity over the rounds of a run."""

    median: float
    lowest: float
    highest: float
    rounds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Summarize values. Raises ``ValueError`` if there is no value."""
        ordered = sorted(values)
        if not ordered:
            raise ValueError("a spread needs at least one value")
        return cls(statistics.median(ordered), ordered[0], ordered[-1], len(ordered))

    def __str__(self) -> str:
        return f"{_shown(self.median)} ({_shown(self.lowest)} – {_shown(self.highest)})"


@dataclass(frozen=True, slots=True)
class Bar:
    """Target of a benchmark, and whether the run met it."""

    what: str
    value: float
    relation: Literal[">=", "<=", "<", "=="]
    limit: float

    @property
    def is_met(self) -> bool:
        match self.relation:
            case ">=":
                return self.value >= self.limit
            case "<=":
                return self.value <= self.limit
            case "<":
                return self.value < self.limit
            case "==":
                return self.value == self.limit


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell | Spread]]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Circumstances of a run, recorded at its start so that the load average does not include the run."""

    command: str
    commit: str | None
    """Short hash of the commit, or None without a git repository or a commit."""
    is_dirty: bool | None
    """Whether the checkout differs from the commit, except for results."""
    date: str
    seed: int | None
    python: str
    packages: Mapping[str, str]
    tools: Mapping[str, str]
    machine: Mapping[str, str | int | float]
    load_average: tuple[float, float, float]
    """Load average over 1, 5 and 15 minutes."""

    @classmethod
    def observe(
        cls,
        *,
        seed: int | None,
        packages: Iterable[str],
        tools: Mapping[str, str] | None = None,
    ) -> "Circumstances":
        """Return the circumstances of this process now. *packages* that are not installed are left out."""
        commit = _git("rev-parse", "--short", "HEAD")
        changes = _git("status", "--porcelain", "--", ".", ":(exclude)benchmarks/results")
        return cls(
            command=command_line(sys.orig_argv),
            commit=commit,
            is_dirty=None if commit is None or changes is None else bool(changes),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=seed,
            python=f"{platform.python_implementation()} {platform.python_version()}",
            packages=_versions(packages),
            tools=dict(tools or {}),
            machine=_machine(),
            load_average=os.getloadavg(),
        )


class Report:
    """Report that collects the results of a run and writes both files at the end."""

    def __init__(self, name: str, title: str, circumstances: Circumstances) -> None:
        self.name = name
        self.title = title
        self.circumstances = circumstances
        self.tables: list[Table] = []
        self.charts: list[Chart] = []
        self.bars: list[Bar] = []
        self.notes: list[str] = []
        self.figures: dict[str, Any] = {}
        """All measurements, round by round, for the JSON only. Dataclasses are allowed."""

    @property
    def is_met(self) -> bool:
        """Whether every target is met."""
        return all(bar.is_met for bar in self.bars)

    def markdown(self) -> str:
        """Return the page, in this order: verdict, tables, notes, circumstances."""
        parts = [f"# {self.title}"]
        if self.bars:
            parts.append(_table(_bars(self.bars)))
        parts += [_table(table) for table in self.tables]
        parts += [f"![{chart.title}]({name})" for name, chart in self.named_charts()]
        if self.notes:
            parts.append("\n".join(f"* {note}" for note in self.notes))
        parts.append(_how_it_was_made(self.circumstances))
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> str:
        value = {
            "name": self.name,
            "title": self.title,
            "circumstances": self.circumstances,
            "is_met": self.is_met,
            "bars": [{**dataclasses.asdict(bar), "is_met": bar.is_met} for bar in self.bars],
            "tables": self.tables,
            "charts": [{"kind": KINDS[type(chart)], **_plain(chart)} for chart in self.charts],
            "notes": self.notes,
            "figures": self.figures,
        }
        return json.dumps(value, indent=1, ensure_ascii=False, default=_plain) + "\n"

    def write(self, directory: Path = RESULTS) -> Path:
        """Write both files, and return the Markdown file."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{self.name}.json").write_text(self.as_json())
        readable = directory / f"{self.name}.md"
        readable.write_text(self.markdown())
        return readable

    @classmethod
    def read(cls, stored: Path) -> "Report":
        """Return the report with the JSON *stored*."""
        found = json.loads(stored.read_text())
        report = cls(found["name"], found["title"], Circumstances(**found["circumstances"]))
        report.bars = [Bar(bar["what"], bar["value"], bar["relation"], bar["limit"]) for bar in found["bars"]]
        report.tables = [
            Table(table["title"], table["columns"], [[_read(cell) for cell in row] for row in table["rows"]])
            for table in found["tables"]
        ]
        report.charts = [_chart(chart) for chart in found["charts"]]
        report.notes = found["notes"]
        report.figures = found["figures"]
        return report

    def named_charts(self) -> Iterator[tuple[str, Chart]]:
        """Return the charts with their file names."""
        for number, chart in enumerate(self.charts, start=1):
            yield f"{self.name}-{number}.svg", chart


def argument_parser(name: str, doc: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks, ``--seed`` and ``--results``. *doc* is the docstring of the
    program.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the report")
    return parser


def conclude(name: str, run: Callable[[], Report], *, results: Path, cannot_run: Sequence[type[Exception]] = ()) -> int:
    """Run a benchmark, write its report to *results*, print the report, and return the exit status.

    0: the bars are met. 1: one is missed. 2: it could not run, which is what the errors *cannot_run* say; the error is
    printed and nothing is written. Any other error is a fault of the benchmark and passes through.
    """
    try:
        report = run()
    except tuple(cannot_run) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    report.write(results)
    print(report.markdown())
    return 0 if report.is_met else 1


def command_line(arguments: Sequence[str]) -> str:
    """Return the command as typed in the checkout, with ``python`` for the interpreter and names for paths."""
    interpreter, *rest = arguments
    name = "python" if Path(interpreter).name.startswith("python") else Path(interpreter).name
    return " ".join([name, *(_without_place(argument) for argument in rest)])


def _without_place(argument: str) -> str:
    option, separator, value = argument.rpartition("=")
    words = [_relative(word) for word in value.split(" ")]
    shown = option + separator + " ".join(words)
    return f"'{shown}'" if " " in shown else shown


def _relative(word: str) -> str:
    path = Path(word)
    if not path.is_absolute():
        return word
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions(packages: Iterable[str]) -> dict[str, str]:
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _machine() -> dict[str, str | int | float]:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory_bytes / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no place in a report")


def _read(cell: Any) -> Cell | Spread:
    return Spread(**cell) if isinstance(cell, dict) else cell


def _chart(stored: dict[str, Any]) -> Chart:
    (kind,) = (kind for kind, name in KINDS.items() if name == stored["kind"])
    return kind(**{name: value for name, value in stored.items() if name != "kind"})


def _bars(bars: Sequence[Bar]) -> Table:
    rows = [
        (bar.what, bar.value, f"{bar.relation} {_shown(bar.limit)}", "met" if bar.is_met else "**missed**")
        for bar in bars
    ]
    return Table("Bars", ("bar", "measured", "wanted", "verdict"), rows)


def _table(table: Table) -> str:
    return f"## {table.title}\n\n{rows(table)}"


def rows(table: Table) -> str:
    """Return *table* in Markdown, without its title."""
    lines = [
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * len(table.columns),
        *("| " + " | ".join(_shown(cell) for cell in row) + " |" for row in table.rows),
    ]
    return "\n".join(lines)


def _shown(cell: Cell | Spread) -> str:
    """Return a figure with a useful number of digits."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 or cell.is_integer() else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell).replace("|", "\\|")


def _how_it_was_made(seen: Circumstances) -> str:
    commit = "none" if seen.commit is None else seen.commit + (" with local changes" if seen.is_dirty else "")
    versions = [f"{name} {version}" for name, version in {**seen.packages, **seen.tools}.items()]
    machine = seen.machine
    load = ", ".join(f"{value:.2f}" for value in seen.load_average)
    lines = [
        "## How it was made\n",
        f"* Command: `{seen.command}`",
        f"* Commit: {commit}. Date: {seen.date}. Seed: {'none' if seen.seed is None else seen.seed}.",
        f"* Versions: {', '.join([seen.python, *versions])}.",
        f"* Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['kernel']}.",
        f"* Load average when it started (1, 5, 15 min): {load}.",
    ]
    return "\n".join(lines)
