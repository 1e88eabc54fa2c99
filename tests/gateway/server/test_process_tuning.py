import gc
import platform
import subprocess
import sys

import pytest

from gateway.server.process_tuning import SWITCH_S, THRESHOLDS, keep_freed_memory, ready_to_serve, tune_gc

COUNT_FAULTS = """
import resource, sys
from gateway.server.process_tuning import keep_freed_memory
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


def test_threads_switch_sooner_while_serving() -> None:
    """The collector is set up as well; afterwards both are as before."""
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


def test_objects_from_before_are_never_collected_while_serving() -> None:
    """Afterwards the collector has its former settings."""
    before = gc.get_threshold()
    with tune_gc():
        assert THRESHOLDS == gc.get_threshold()
        assert gc.get_freeze_count() > 1000

    assert before == gc.get_threshold()
    assert 0 == gc.get_freeze_count()


def test_cycles_are_still_freed() -> None:
    """A failed request leaves some behind, in its traceback."""

    class Node:
        freed = 0
        other: "Node"

        def __del__(self) -> None:
            Node.freed += 1

    with tune_gc():
        for _ in range(THRESHOLDS[0]):
            node = Node()
            node.other = node

    assert Node.freed > 0
