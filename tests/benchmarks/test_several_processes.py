"""Facts about the benchmark of several processes."""

import pytest

from benchmarks.report import Circumstances, Report
from benchmarks.several_processes import ALONE, ONE, TWO, fill, parse_arguments
from tests.benchmarks.measurements import measured


@pytest.mark.parametrize(
    ("per_s", "cpu", "is_met"), [(1_800.0, 2.0, True), (1_790.0, 1.9, False), (1_900.0, 2.2, False)]
)
def test_two_processes_answer_nearly_twice_as_much(per_s: float, cpu: float, *, is_met: bool) -> None:
    """The rate counts, and the rate per processor second."""
    report = Report("several_processes", "Processes", Circumstances.observe(seed=1, packages=()))
    fill(report, [measured(ALONE, 1_000.0), measured(ONE, 950.0), measured(TWO, per_s, cpu=cpu)])

    assert is_met == report.is_met
    assert f"| {TWO} |" in report.markdown()


def test_by_default_there_are_twelve_rounds_of_four_seconds() -> None:
    arguments = parse_arguments([])

    assert (12, 4.0) == (arguments.rounds, arguments.seconds)
