import pytest

from benchmarks.chat_bodies import SIZES
from benchmarks.picker.callers import Waits
from benchmarks.picker.exchange import Times
from benchmarks.picker.load import Found
from benchmarks.picker.rig import BARE, PICKER
from benchmarks.picker.tables import Case, Direct, Through, fill, percentile
from benchmarks.report import Circumstances, Report

_, MEDIUM, LONG = SIZES


def direct(server: str, *, pick_s: float = 0.0005, count: int = 1500, failed: int = 0, foreign_s: float = 0) -> Direct:
    """A measurement of one second, in which *count* requests took *pick_s* and a fifth of that for their answers."""
    found = Found([Times(pick_s, pick_s / 5)] * count, failed, 1.0)
    return Direct.of(server, Case(MEDIUM, 1), 0, found, loop_s=0.6, others_s=0.3, client_s=0.5, foreign_s=foreign_s)


def through(*, added_s: float) -> Through:
    """A measurement of one second, in which a picker adds *added_s* to 20 ms."""
    without, with_picker = Waits([0.02] * 10, 0, 1.0), Waits([0.02 + added_s] * 10, 0, 1.0)
    return Through.of(Case(LONG, 150), 0, without=without, through=with_picker)


def filled(*measurements: Direct, added_s: float = 0.15) -> Report:
    report = Report("picker", "Picker", Circumstances.observe(seed=1, packages=()))
    fill(
        report,
        measurements,
        [through(added_s=added_s)],
        {"20 kB": {"routing": 3, "gateway/picker": 1}},
        is_compiled=True,
    )
    return report


def test_a_measurement_has_the_times_in_milliseconds() -> None:
    found = direct(PICKER)

    assert pytest.approx((1500, 0.5, 0.6, 0.4, 0.2)) == (
        found.per_s,
        found.pick_p50_ms,
        found.added_p50_ms,
        found.loop_ms,
        found.others_ms,
    )


@pytest.mark.parametrize(
    ("measurement", "added_s", "is_met"),
    [
        (direct(PICKER), 0.149, True),
        (direct(PICKER), 0.151, False),
        (direct(PICKER, count=1499), 0.149, False),
        (direct(PICKER, pick_s=0.0009), 0.149, False),
        (direct(PICKER, failed=1), 0.149, False),
    ],
)
def test_the_bars_are_those_of_the_issue(measurement: Direct, added_s: float, is_met: bool) -> None:
    """1,500 picks per second, 1 ms added, 150 ms behind Envoy, and no failure."""
    assert is_met == filled(direct(BARE), measurement, added_s=added_s).is_met


def test_a_machine_that_was_not_quiet_is_reported() -> None:
    noisy = filled(direct(BARE), direct(PICKER, foreign_s=0.4)).notes[-2]

    assert "The machine was not quiet: other programs took 20%" in noisy


def test_the_published_figures_are_beside_ours() -> None:
    text = filled(direct(BARE), direct(PICKER)).markdown()

    assert "| GIE 1.5.0, Istio, 4 simulated workers | 220 kB | 150 | 129 | 1,153 | 1,272 |" in text


def test_the_profile_has_shares() -> None:
    assert "| routing | 75% |" in filled(direct(BARE), direct(PICKER)).markdown()


def test_a_case_has_a_name_with_its_load() -> None:
    assert "20 kB, 200 per second" == Case(MEDIUM, 0, per_s=200.0).name
    assert "220 kB, 150 in flight, workers take 1000 ms" == Case(LONG, 150, worker_ms=1000.0).name


def test_a_percentile_is_a_measured_value() -> None:
    assert [99, 1] == [percentile([*range(100)], 99), percentile([1], 99)]
