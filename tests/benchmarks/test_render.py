from pathlib import Path

import pytest

from benchmarks.chart import BarChart, LineChart
from benchmarks.render import DRILL, GLANCE, GUIDE, main, read, rendered, with_drill, with_figures
from benchmarks.report import RESULTS
from tests.benchmarks.test_headlines import a_report

MARKS = "<!-- results -->\n{}\n<!-- /results -->\n<!-- shortfalls -->\n\n<!-- /shortfalls -->"


def test_pages_and_figures_of_this_repository_are_those_of_the_stored_figures() -> None:
    """`make report` has nothing to do; charts may differ by the version of the library that draws them."""
    for page, text in rendered(RESULTS).items():
        assert page.exists(), page.name
        if page.suffix == ".md":
            assert page.read_text() == text, page.name
    glance, guide, reports = GLANCE.read_text(), GUIDE.read_text(), read(RESULTS)
    assert with_figures(glance, reports) == glance
    assert with_drill(guide, reports) == guide


def test_what_was_stored_gives_the_same_page_and_its_charts(tmp_path: Path) -> None:
    """The JSON holds all that the page shows."""
    report = a_report()
    report.charts = [LineChart("L", "x", "y", {"a": [(1.0, 2.0)]}), BarChart("B", "y", ["g"], {"a": [1.0]})]
    page = report.write(tmp_path)

    pages = rendered(tmp_path)

    assert page.read_text() == pages[page]
    assert {"tried.md", "tried-1.svg", "tried-2.svg"} == {path.name for path in pages}


def test_only_what_differs_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = a_report().write(tmp_path)
    page_of_figures = tmp_path / "at-a-glance.md"
    page_of_figures.write_text("# Title\n" + MARKS.format("old") + "\nmore\n")
    page.write_text("by hand")
    arguments = ["--results", str(tmp_path), "--page", str(page_of_figures)]

    assert 1 == main([*arguments, "--check"])
    assert page.read_text() == "by hand"
    assert 0 == main(arguments)
    assert 0 == main([*arguments, "--check"])
    assert "tried.md\nat-a-glance.md\ntried.md\nat-a-glance.md\n" == capsys.readouterr().out
    assert page_of_figures.read_text().startswith("# Title\n<!-- results -->\n| question | answer | from |\n")
    assert page_of_figures.read_text().endswith("<!-- /shortfalls -->\nmore\n")


def test_the_guide_has_the_first_table_of_the_drill() -> None:
    guide = with_drill("a\n<!-- drill -->\nold\n<!-- /drill -->\nz", {DRILL: a_report()})

    assert guide.startswith("a\n<!-- drill -->\n|")
    assert "[drill.md](../benchmarks/results/drill.md)" in guide
    assert guide.endswith("\n<!-- /drill -->\nz")


def test_a_page_needs_a_place_for_its_figures() -> None:
    with pytest.raises(ValueError, match="around the results"):
        with_figures("# Title\n", {})
