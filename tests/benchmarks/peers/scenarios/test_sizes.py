import pytest

from benchmarks.peers.entrants import OURS, SGLANG
from benchmarks.peers.scenarios.sizes import CASES, tell
from tests.benchmarks.measurements import measured
from tests.benchmarks.peers.scenarios.made_up import a_report


@pytest.mark.parametrize(("per_s", "is_met"), [(100, True), (99, False)])
def test_the_bar_is_on_the_largest_prompts(per_s: float, is_met: bool) -> None:
    """However slow ours is with small ones."""
    report = a_report()
    small = [measured(OURS, 1), measured(SGLANG, 1_000)]
    tell(report, {CASES[0]: small, CASES[1]: small, CASES[2]: [measured(OURS, per_s), measured(SGLANG, 100)]})

    assert is_met == report.is_met
    assert 3 == len(report.tables)
