import pytest

from benchmarks.peers.routing.outcome import Effort, Outcome
from benchmarks.picker.equality import BehindEnvoy, fill, parse_arguments, trial_of
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
    report = Report("picker_equality", "Equality", Circumstances.observe(seed=1, packages=()))
    fill(report, [(outcome("proxy"), picker)], load=6.0)

    assert is_met == report.is_met


def test_rounds_have_other_times() -> None:
    options = parse_arguments(["--size", "2"])
    first, again, other = (trial_of(options, seed=seed).sessions for seed in (1, 1, 2))

    assert first[0].begins_s == again[0].begins_s != other[0].begins_s


def test_the_picker_has_a_name_of_its_own() -> None:
    assert ("warmgate picker, kv_aware", True) == (BehindEnvoy().name, BehindEnvoy().is_ours)
