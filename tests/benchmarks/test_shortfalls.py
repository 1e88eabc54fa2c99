"""Where others are better is reported, and nothing else."""

from benchmarks.report import Bar, Table
from benchmarks.shortfalls import table
from tests.benchmarks.test_headlines import a_report


def test_a_missed_bar_is_reported_with_its_report() -> None:
    """One that was met is not."""
    report = a_report()
    report.bars = [Bar("hits", 0.5, ">=", 0.4), Bar("requests per s, of theirs", 0.75, ">=", 1.0)]

    assert (
        "| what | `warmgate` | wanted, or the best other | from |\n|---|---|---|---|\n"
        "| requests per s, of theirs | 0.75 | >= 1 | [tried.md](../../benchmarks/results/tried.md) |"
    ) == table({"tried": report})


def test_anyone_who_routes_better_is_named() -> None:
    report = a_report()
    title, columns = "Where kv_aware is worse than the best other", ("figure", "kv_aware", "the best other", "which")
    report.tables.append(Table(title, columns, [("imbalance", 1.25, 1.02, "smg")]))

    assert table({"tried": report}).endswith(
        "\n| Tried: imbalance of `kv_aware` | 1.25 | 1.02 (smg) | [tried.md](../../benchmarks/results/tried.md) |"
    )


def test_where_nothing_is_missed_that_is_said() -> None:
    report = a_report()
    report.tables.append(Table("Where kv_aware is worse", ("figure",), [("none", None, None, None)]))

    assert "None that was measured." == table({"tried": report})
