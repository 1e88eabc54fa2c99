import pytest

from benchmarks.peers.entrants import OURS
from benchmarks.peers.scenarios.slow_worker import tell
from tests.benchmarks.peers.scenarios.made_up import a_report, reading


@pytest.mark.parametrize(("share", "is_met"), [(0.2, True), (0.34, False)])
def test_the_bar_is_the_share_of_the_last_worker(share: float, is_met: bool) -> None:
    report = a_report()
    tell(report, [reading(OURS, shares=(1 - share, 0.0, share))])

    assert is_met == report.is_met
    assert ["slow worker", "busiest worker"] == list(report.tables[0].columns[1:3])
