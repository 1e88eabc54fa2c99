"""Write every page, chart and figure again from the stored JSON, for `make report`.

Nothing is measured. Exit status: 0 if all files are written, 1 with `--check` if a file is not up to date.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import shortfalls
from benchmarks.drawing import svg
from benchmarks.headlines import HEADLINES, table
from benchmarks.report import RESULTS, ROOT, Report, rows

GLANCE = ROOT / "docs" / "performance" / "at-a-glance.md"
GUIDE = ROOT / "deploy" / "README.md"
MARK, DRILL, SHORT = "results", "drill", "shortfalls"
"""Markers around figures in both pages: ``<!-- MARK -->`` and ``<!-- /MARK -->``."""


def rendered(results: Path) -> dict[Path, str]:
    """Return every page and chart of the reports in *results*, by file."""
    pages: dict[Path, str] = {}
    for report in read(results).values():
        pages[results / f"{report.name}.md"] = report.markdown()
        pages |= {results / name: svg(chart) for name, chart in report.named_charts()}
    return pages


def read(results: Path) -> dict[str, Report]:
    """Return the reports in *results*, by name."""
    return {stored.stem: Report.read(stored) for stored in sorted(results.glob("*.json"))}


def with_figures(text: str, reports: Mapping[str, Report]) -> str:
    """Return *text* of the page, with the figures and shortfalls of *reports* between its markers."""
    return _between(_between(text, MARK, table(HEADLINES, reports)), SHORT, shortfalls.table(reports))


def with_drill(text: str, reports: Mapping[str, Report]) -> str:
    """Return *text* of the guide, with the results of the drill between its markers."""
    report = reports[DRILL]
    command = f"`{report.circumstances.command}` at commit {report.circumstances.commit}"
    reported = f"The results of the drill come from [{DRILL}.md](../benchmarks/results/{DRILL}.md), made by {command}."
    return _between(text, DRILL, f"{rows(report.tables[0])}\n\n{reported}")


def _between(text: str, mark: str, figures: str) -> str:
    begin, end = f"<!-- {mark} -->\n", f"\n<!-- /{mark} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"no {begin.strip()} and {end.strip()} around the {mark}")
    return before + begin + figures + end + after


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.render", description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with the reports")
    parser.add_argument("--page", type=Path, default=GLANCE)
    parser.add_argument("--guide", type=Path, default=GUIDE)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    options = parser.parse_args(arguments)
    pages = rendered(options.results)
    reports = read(options.results)
    pages[options.page] = with_figures(options.page.read_text(), reports)
    if DRILL in reports:
        pages[options.guide] = with_drill(options.guide.read_text(), reports)
    different = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    for path in different:
        print(path.name)
        if not options.check:
            path.write_text(pages[path])
    return 1 if different and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
