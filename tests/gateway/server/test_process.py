import gc
import platform
import subprocess
import sys

import pytest

from gateway.server.collector import THRESHOLDS
from gateway.server.process import SWITCH_S, keep_freed_memory, ready_to_serve

COUNT_FAULTS = """
import resource, sys
from gateway.server.process import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def copies():
    held = [bytes(1_000_000) for _ in range(8)]
for _ in range(5):
    copies()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    copies()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_threads_take_turns_sooner_while_serving() -> None:
    """And the collector is set up; afterwards both are as they were."""
    before = (sys.getswitchinterval(), gc.get_threshold())
    with ready_to_serve():
        assert SWITCH_S == pytest.approx(sys.getswitchinterval())
        assert THRESHOLDS == gc.get_threshold()

    assert before == (sys.getswitchinterval(), gc.get_threshold())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory in their own ways")
@pytest.mark.e2e
def test_large_buffers_do_not_come_from_fresh_pages() -> None:
    """Eight of a megabyte, again and again, cost thousands of page faults otherwise, and then hardly any."""

    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", COUNT_FAULTS, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert keep_freed_memory()
    assert faults("kept") < 1_000 < faults("given back")
