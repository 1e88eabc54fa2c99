from collections.abc import Sequence

import pytest

from benchmarks.peers.routing.outcome import Effort, Outcome
from benchmarks.picker.equality import BehindEnvoy, Round, fill, hit_rate, needs_more, parse_arguments, trial_of, ttft_s
from benchmarks.report import Circumstances, Report


def outcome(router: str, *, ttft_s: float = 1.0, hit: float = 0.8, failed: int = 0) -> Outcome:
    return Outcome(
        router=router,
        is_ours=True,
        requests=100,
        failures={"timeout": failed} if failed else {},
        hit_rate=hit,
        ttft_mean_s=ttft_s,
        ttft_p50_s=ttft_s,
        ttft_p90_s=ttft_s,
        ttft_p99_s=ttft_s,
        e2e_p50_s=ttft_s,
        imbalance=1.0,
        busiest_share=0.25,
        output_tokens=1_000,
        late_p99_s=0.0,
        effort=Effort(0.1, 0.1, 0.1),
        took_s=60.0,
    )


def a_round(picker: Outcome, *, before_s: float = 1.0, after_s: float = 1.0) -> Round:
    return Round(outcome("proxy", ttft_s=before_s), picker, outcome("proxy", ttft_s=after_s))


def report_of(rounds: Sequence[Round]) -> Report:
    report = Report("picker_equality", "Equality", Circumstances.observe(seed=1, packages=()))
    fill(report, rounds, load=6.0)
    return report


@pytest.mark.parametrize(
    ("picker", "is_met"),
    [
        (outcome("picker", ttft_s=1.04, hit=0.77), True),
        (outcome("picker", ttft_s=0.96, hit=0.83), True),
        (outcome("picker", ttft_s=1.06), False),
        (outcome("picker", hit=0.75), False),
        (outcome("picker", failed=1), False),
    ],
)
def test_five_percent_are_allowed_in_both_directions(picker: Outcome, is_met: bool) -> None:
    assert is_met == report_of([a_round(picker)] * 4).is_met


def test_equal_means_of_a_noisy_run_prove_nothing() -> None:
    noisy = [a_round(outcome("picker", ttft_s=ttft_s)) for ttft_s in (1.25, 0.8, 1.25, 0.8)]
    report = report_of(noisy)

    assert not report.is_met
    assert [True, False, True, True, True] == [bar.is_met for bar in report.bars]


def test_one_round_proves_nothing() -> None:
    assert not report_of([a_round(outcome("picker"))]).is_met


def test_a_machine_that_becomes_slower_does_not_matter() -> None:
    """The picker is measured between two measurements of the proxy."""
    each = a_round(outcome("picker", ttft_s=1.1), before_s=1.0, after_s=1.21)

    assert [1.0, 1.21] == pytest.approx([each.of_picker(ttft_s), each.of_proxy(ttft_s)])
    assert pytest.approx(1.0) == each.of_picker(hit_rate)


def test_rounds_follow_until_the_intervals_are_narrow() -> None:
    """The figures themselves do not matter: a clear difference ends a run as early as none."""
    equal, other, noisy = (a_round(outcome("picker", ttft_s=ttft_s)) for ttft_s in (1.0, 2.0, 1.3))

    assert needs_more([equal] * 3, least=4, most=12)
    assert not needs_more([equal] * 4, least=4, most=12)
    assert not needs_more([other] * 4, least=4, most=12)
    assert needs_more([equal, noisy] * 2, least=4, most=12)
    assert not needs_more([equal, noisy] * 6, least=4, most=12)


def test_rounds_have_other_times() -> None:
    options = parse_arguments(["--size", "2"])
    first, again, other = (trial_of(options, seed=seed).sessions for seed in (1, 1, 2))

    assert first[0].begins_s == again[0].begins_s != other[0].begins_s


def test_the_picker_has_a_name_of_its_own() -> None:
    assert ("warmgate picker, kv_aware", True) == (BehindEnvoy().name, BehindEnvoy().is_ours)
