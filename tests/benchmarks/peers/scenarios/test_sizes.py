import pytest

from benchmarks.peers.entrants import OURS, SGLANG
from benchmarks.peers.scenarios.sizes import CASES, tell
from tests.benchmarks.measurements import measured
from tests.benchmarks.peers.scenarios.made_up import a_report


@pytest.mark.parametrize(("medium", "large", "is_met"), [(130, 150, True), (129, 150, False), (130, 149, False)])
def test_the_bars_are_on_the_larger_prompts(medium: float, large: float, is_met: bool) -> None:
    """However slow ours is with small ones."""
    report = a_report()
    found = {
        case: [measured(OURS, per_s), measured(SGLANG, 100)]
        for case, per_s in zip(CASES, (1, medium, large), strict=True)
    }
    tell(report, found)

    assert is_met == report.is_met
    assert 3 == len(report.tables)
