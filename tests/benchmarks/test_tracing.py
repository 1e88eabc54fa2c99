import pytest

from benchmarks.chat_bodies import LOADS
from benchmarks.report import Circumstances, Report
from benchmarks.tracing import OFF, RATIOS, fill, look_ns, parse_arguments
from tests.benchmarks.measurements import measured


def filled(with_a_tenth: float, *, noise: float = 0.0) -> Report:
    """A report on a gateway that answers 1,000 without traces, with them 800, and as many *with_a_tenth* of them."""
    rates = {OFF: 1_000.0, **dict.fromkeys(RATIOS, 800.0), "a tenth is traced": with_a_tenth}
    report = Report("tracing", "Traces", Circumstances.observe(seed=1, packages=()))
    found = [measured(name, per_s, load=load, noise=noise) for load in LOADS for name, per_s in rates.items()]
    fill(report, found, 50.0)
    return report


@pytest.mark.parametrize(("with_a_tenth", "is_met"), [(960.0, True), (949.0, False), (840.0, False)])
def test_the_bars_are_shares_of_a_gateway_without_traces(with_a_tenth: float, is_met: bool) -> None:
    """0.85 of its requests and 0.95 of its streams per processor second are enough, less of either is not."""
    assert is_met == filled(with_a_tenth).is_met


def test_there_is_a_row_for_each_gateway() -> None:
    report = filled(960.0)

    assert [[OFF, *RATIOS]] * 2 == [[row[0] for row in table.rows] for table in report.tables]
    assert ["one look takes 50 ns" in note for note in report.notes] == [True]


def test_a_machine_that_was_not_quiet_is_reported() -> None:
    assert "The machine was not quiet" in filled(960.0, noise=0.5).notes[1]


def test_a_look_at_no_trace_is_short() -> None:
    """Far below a microsecond on any machine."""
    assert 0 < look_ns() < 5_000


def test_the_options_have_defaults() -> None:
    arguments = parse_arguments([])

    assert (5, 3.0, 32) == (arguments.rounds, arguments.seconds, arguments.connections)
