import pytest

from benchmarks.peers.entrants import LITELLM, OURS
from benchmarks.peers.scenarios.hot_prefix import PREFIX_CHARACTERS, requests, tell
from tests.benchmarks.peers.scenarios.made_up import a_report, reading


@pytest.mark.parametrize(("busiest", "is_met"), [(0.5, True), (0.6, False)])
def test_the_bar_is_the_share_of_the_busiest_worker(busiest: float, is_met: bool) -> None:
    report = a_report()
    tell(report, [reading(OURS, shares=(busiest, 1 - busiest))])

    assert is_met == report.is_met


def test_who_was_asked_less_is_marked() -> None:
    report = a_report()
    tell(report, [reading(OURS, shares=(0.5, 0.5)), reading(LITELLM, asked=5, shares=(0.5, 0.5))])

    assert [OURS, f"{LITELLM} *"] == [row[0] for row in report.tables[0].rows]


def test_all_prompts_begin_alike_and_end_differently() -> None:
    one, other = requests(1)(1), requests(1)(2)
    beginning = one.partition(b"\r\n\r\n")[2][:PREFIX_CHARACTERS]

    assert one != other
    assert beginning == other.partition(b"\r\n\r\n")[2][:PREFIX_CHARACTERS]
