import json
import socket
from pathlib import Path

import pytest

from benchmarks.report import (
    RESULTS,
    ROOT,
    Bar,
    Circumstances,
    Report,
    Spread,
    Table,
    argument_parser,
    command_line,
    conclude,
)


def circumstances() -> Circumstances:
    return Circumstances(
        command="python -m benchmarks.overhead --rounds 3",
        commit="0a1b2c3",
        is_dirty=True,
        date="2026-11-20T12:00:00+00:00",
        seed=7,
        python="CPython 3.11.7",
        packages={"uvloop": "0.23.0"},
        tools={"wrk": "4.1.0"},
        machine={"cpu": "A CPU", "cores": 2, "memory_gib": 23.5, "kernel": "Linux 6.1"},
        load_average=(0.5, 0.25, 0.125),
    )


def test_both_files_are_written_under_the_reports_name(tmp_path: Path) -> None:
    """A report is NAME.json and NAME.md side by side, and the readable one is handed back."""
    readable = Report("overhead", "Overhead", circumstances()).write(tmp_path / "results")

    assert tmp_path / "results" / "overhead.md" == readable
    assert ["overhead.json", "overhead.md"] == sorted(file.name for file in readable.parent.iterdir())


def test_the_readable_file_says_how_it_was_made() -> None:
    """Command, commit with local changes, seed, versions, machine and load are there to be read."""
    text = Report("overhead", "Overhead", circumstances()).markdown()

    assert "* Command: `python -m benchmarks.overhead --rounds 3`" in text
    assert "* Commit: 0a1b2c3 with local changes. Date: 2026-11-20T12:00:00+00:00. Seed: 7." in text
    assert "* Versions: CPython 3.11.7, uvloop 0.23.0, wrk 4.1.0." in text
    assert "* Machine: A CPU, 2 cores, 23.5 GiB, Linux 6.1." in text
    assert "* Load average when it started (1, 5, 15 min): 0.50, 0.25, 0.12." in text


def test_a_missed_bar_fails_the_report_and_stands_out() -> None:
    """One bar missed is a report not met, in both files."""
    report = Report("overhead", "Overhead", circumstances())
    report.bars = [Bar("requests, of nginx's", 0.31, ">=", 0.15), Bar("streams, of nginx's", 0.85, ">=", 0.9)]

    found = json.loads(report.as_json())

    assert not report.is_met
    assert [True, False] == [bar["is_met"] for bar in found["bars"]]
    assert "| streams, of nginx's | 0.85 | >= 0.9 | **missed** |" in report.markdown()


@pytest.mark.parametrize(
    ("value", "relation", "limit", "is_met"),
    [(1, ">=", 1, True), (0.9, ">=", 1, False), (1, "<=", 1, True), (1, "<", 1, False), (0, "==", 0, True)],
)
def test_a_bar_compares_as_it_reads(value: float, relation: str, limit: float, is_met: bool) -> None:
    """The relation is the one that is printed."""
    assert Bar("it", value, relation, limit).is_met == is_met  # type: ignore[arg-type] # parametrize has plain strings


def test_a_spread_is_median_lowest_and_highest() -> None:
    """Rounds are summed up by their median, with the extremes beside it."""
    spread = Spread.of([0.3, 0.1, 0.2])

    assert Spread(median=0.2, lowest=0.1, highest=0.3, rounds=3) == spread
    assert "0.2 (0.1 – 0.3)" == str(spread)


def test_a_spread_of_nothing_is_an_error() -> None:
    """No round, no figure."""
    with pytest.raises(ValueError, match="at least one value"):
        Spread.of([])


def test_a_table_has_a_line_per_row() -> None:
    """Figures are rounded to what a reader can use, and what was not measured is a dash."""
    report = Report("overhead", "Overhead", circumstances())
    report.tables = [
        Table("Rates", ("", "per s", "of nginx"), [("nginx", 68_701.4, None), ("gateway", 99.96, 0.34567)])
    ]

    assert "| nginx | 68,701 | – |\n| gateway | 100 | 0.346 |" in report.markdown()


def test_the_json_has_every_figure() -> None:
    """Dataclasses among the figures become objects."""
    report = Report("overhead", "Overhead", circumstances())
    report.figures["rates"] = [Spread.of([1.0, 2.0])]

    found = json.loads(report.as_json())

    assert [{"median": 1.5, "lowest": 1.0, "highest": 2.0, "rounds": 2}] == found["figures"]["rates"]
    assert [0.5, 0.25, 0.125] == found["circumstances"]["load_average"]


def test_no_place_on_this_machine_is_reported(tmp_path: Path) -> None:
    """Neither the folders of the machine nor its host name get into a report made here."""
    here = Circumstances.observe(seed=None, packages=("uvloop", "there-is-no-such-package"))
    report = Report("overhead", "Overhead", here)
    text = report.as_json() + report.markdown()

    assert "there-is-no-such-package" not in here.packages
    assert str(ROOT) not in text
    assert str(tmp_path.parent) not in text
    assert str(Path.home()) not in text
    assert not {f'"{socket.gethostname()}"', f" {socket.gethostname()} "} & set(text.split("\n"))


def test_a_command_is_reported_as_typed_in_the_checkout() -> None:
    """The interpreter is ``python``, paths in the checkout are relative, other paths are names."""
    arguments = ["/opt/x/bin/python3.11", "-m", "benchmarks.memory", f"--trace={ROOT}/benchmarks/traces/a.jsonl"]

    assert "python -m benchmarks.memory --trace=benchmarks/traces/a.jsonl" == command_line(arguments)
    assert "python x.py --gateway '.venv/bin/python gw.py'" == command_line(
        ["/usr/bin/python3", "/tmp/y/x.py", "--gateway", f"{ROOT}/.venv/bin/python /tmp/y/gw.py"]
    )


@pytest.mark.parametrize(("value", "status"), [(1.0, 0), (0.5, 1)])
def test_the_exit_status_says_whether_the_bars_are_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: float, status: int
) -> None:
    """The report is written and printed either way."""
    report = Report("overhead", "Overhead", circumstances())
    report.bars = [Bar("it", value, ">=", 1)]

    assert status == conclude("overhead", lambda: report, results=tmp_path)
    assert (tmp_path / "overhead.md").read_text() == report.markdown()
    assert report.markdown() in capsys.readouterr().out


def test_a_benchmark_that_cannot_run_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, one line, and no report."""

    def run() -> Report:
        raise ConnectionError("no worker")

    assert 2 == conclude("overhead", run, results=tmp_path, cannot_run=[LookupError, OSError])
    assert "overhead: no worker\n" == capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


def test_a_fault_of_the_benchmark_is_not_hidden(tmp_path: Path) -> None:
    """Only the errors that are named mean that it could not run."""

    def run() -> Report:
        raise KeyError("median")

    with pytest.raises(KeyError):
        conclude("overhead", run, results=tmp_path, cannot_run=[OSError])


def test_every_benchmark_takes_a_seed_and_a_folder() -> None:
    parser = argument_parser("overhead", "What it costs.\n\nAnd more.")

    assert (1, RESULTS) == (parser.parse_args([]).seed, parser.parse_args([]).results)
    assert ("python -m benchmarks.overhead", "What it costs.") == (parser.prog, parser.description)
