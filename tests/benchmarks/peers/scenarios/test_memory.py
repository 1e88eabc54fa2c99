import pytest
import uvloop

from benchmarks.peers.entrants import LITELLM, OURS
from benchmarks.peers.line import Lines
from benchmarks.peers.scenarios.memory import KIB, MIB, Reading, ask_on, tell
from benchmarks.peers.scenarios.prompts import Distinct
from benchmarks.stub_worker import serve, write_script
from tests.benchmarks.peers.scenarios.made_up import a_report


def reading(target: str, *, per_stream_kib: float) -> Reading:
    few = 50 * MIB
    return Reading(target, 0, 40 * MIB, few, round(few + 180 * per_stream_kib * KIB), few, few + 100 * KIB, 50, 0)


def test_a_stream_is_the_slope_and_a_prompt_the_growth() -> None:
    """What the first twenty streams make once is not counted."""
    found = reading(OURS, per_stream_kib=12)

    assert pytest.approx(12) == found.bytes_per_stream / KIB
    assert pytest.approx(2) == found.bytes_per_prompt / KIB


@pytest.mark.parametrize(("kib", "is_met"), [(20, True), (21, False)])
def test_the_bar_is_a_fifth_of_litellms_stream(kib: float, is_met: bool) -> None:
    report = a_report()
    tell(report, [reading(OURS, per_stream_kib=kib), reading(LITELLM, per_stream_kib=100)])

    assert is_met == report.is_met


def test_prompts_are_asked_until_the_time_is_over() -> None:
    """Ever new ones, of which none fails here."""

    async def ask() -> tuple[int, int]:
        server = await serve(write_script("tiny"))
        lines = Lines(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        found = await ask_on(lines, Distinct(1, 100), seconds=0.1)
        lines.close()
        server.close()
        return found

    asked, failed = uvloop.run(ask())

    assert asked > 0
    assert 0 == failed
