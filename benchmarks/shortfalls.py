"""Shortfalls of Warmgate: every missed target of the stored reports, and every peer with better results."""

from collections.abc import Mapping

from benchmarks.report import Cell, Report, Table, rows

WORSE = "Where kv_aware is worse"
"""Beginning of the titles of tables that compare kv_aware with better policies."""


def table(reports: Mapping[str, Report]) -> str:
    """Return the page's table of shortfalls, or a line for an empty list."""
    found: list[tuple[Cell, ...]] = []
    for name, report in reports.items():
        page = f"[{name}.md](../../benchmarks/results/{name}.md)"
        missed = [bar for bar in report.bars if not bar.is_met]
        found += [(bar.what, bar.value, f"{bar.relation} {bar.limit:.3g}", page) for bar in missed]
        worse = [line for each in report.tables if each.title.startswith(WORSE) for line in _worse(each, report)]
        found += [(*line, page) for line in worse]
    if not found:
        return "None that was measured."
    return rows(Table("", ("what", "`warmgate`", "wanted, or the best other", "from"), found))


def _worse(table: Table, report: Report) -> list[tuple[Cell, Cell, Cell]]:
    """Return lines for the rows of *table* in which another policy is better."""
    found: list[tuple[Cell, Cell, Cell]] = []
    for figure, ours, best, whose in table.rows:
        if isinstance(ours, int | float) and isinstance(best, int | float):
            found.append((f"{report.title}: {figure} of `kv_aware`", ours, f"{best:.3g} ({whose})"))
    return found
