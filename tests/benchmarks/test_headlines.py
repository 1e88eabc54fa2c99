import pytest

from benchmarks.headlines import Headline, Pick, bar, cell, first_cell, gain, table
from benchmarks.report import Bar, Cell, Report, Spread, Table
from tests.benchmarks.test_report import circumstances


def a_report() -> Report:
    report = Report("tried", "Tried", circumstances())
    report.bars = [Bar("hits, of the bound", 0.5, ">=", 0.4), Bar("errors", 0, "==", 0)]
    rows: list[tuple[Cell | Spread, ...]] = [("ours", 2.0, "few"), ("theirs", Spread.of([7.0, 8.0, 9.0]), None)]
    report.tables = [Table("100 conversations, 20 in flight", ("strategy", "TTFT s", "in words"), rows)]
    return report


def test_a_figure_is_found_by_where_it_stands() -> None:
    """A bar by its beginning, a cell by table, row and column; of several rounds it is the median."""
    report = a_report()

    assert 0.5 == bar("hits")(report)
    assert 2.0 == cell("100 conv", "ours", "TTFT s")(report)
    assert 8.0 == cell("100 conv", "theirs", "TTFT s")(report)
    assert 2.0 == first_cell("ours", "TTFT s")(report)
    assert 0.75 == gain(cell("100", "ours", "TTFT s"), cell("100", "theirs", "TTFT s"))(report)


@pytest.mark.parametrize(
    "pick",
    [
        bar("nothing"),
        bar(""),
        cell("other", "ours", "TTFT s"),
        cell("100", "nobody", "TTFT s"),
        cell("100", "ours", "in words"),
    ],
)
def test_a_figure_that_is_not_there_is_no_figure(pick: Pick) -> None:
    """Nothing is reported for it, and nothing else in its place."""
    with pytest.raises(LookupError, match=r"tried|100 conv"):
        pick(a_report())


def test_the_table_reports_each_headline_with_its_report() -> None:
    """Those whose report is not there are left out."""
    headlines = (
        Headline("How many hits?", "{:.0%} of {:.1f}", "tried", (bar("hits"), cell("100", "ours", "TTFT s"))),
        Headline("And else?", "{:.0f}", "missing", (bar("x"),)),
    )

    assert (
        "| question | answer | from |\n|---|---|---|\n"
        "| How many hits? | 50% of 2.0 | [tried.md](../../benchmarks/results/tried.md) |"
    ) == table(headlines, {"tried": a_report()})
