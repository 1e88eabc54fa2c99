import os
import sys
import time
from pathlib import Path

import pytest

from benchmarks.processes import (
    ChildFailedError,
    Processes,
    core_busy_s,
    free_port,
    pinned,
    settings_before,
    start_gateway,
)
from gateway.settings import Settings

pytestmark = pytest.mark.e2e

SLEEPS = [sys.executable, "-c", "import time; print('ready: http://127.0.0.1:9', flush=True); time.sleep(60)"]
HAS_A_WORKER = """
import os, time
worker = os.fork()
if worker:
    print(worker, "ready: http://127.0.0.1:9", sep="\\n", flush=True)
time.sleep(60)
"""
READS_CONFIG = """
import sys, yaml
assert sys.argv[1] == "--config"
server = yaml.safe_load(open(sys.argv[2]))["server"]
print(f"ready: http://127.0.0.1:{server['port']}", flush=True)
"""


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_url_of_the_ready_line_is_handed_back() -> None:
    """A child is ready when it says so on stdout."""
    with Processes() as processes:
        child = processes.start("sleeper", SLEEPS)

        assert "http://127.0.0.1:9" == child.wait_for_ready_line()


def test_leaving_the_block_ends_the_children_and_removes_their_logs() -> None:
    """Nothing is left."""
    with Processes() as processes:
        child = processes.start("sleeper", SLEEPS)
        child.wait_for_ready_line()

    assert not is_alive(child.process.pid)
    assert not processes.directory.exists()


def test_what_a_child_started_ends_with_it() -> None:
    """A worker process does not outlive its parent, though nothing ends it."""
    with Processes() as processes:
        child = processes.start("two", [sys.executable, "-c", HAS_A_WORKER])
        child.wait_for_ready_line()
        worker = int(child.stdout.read_text().split()[0])
        was_alive = is_alive(worker)
        child.stop()

    assert was_alive
    assert not is_alive(worker)


def test_a_child_dies_with_a_benchmark_that_was_killed(tmp_path: Path) -> None:
    """The kernel ends a child whose benchmark had no chance to."""
    program = (
        "import os, signal\n"
        "from benchmarks.processes import Processes\n"
        f"child = Processes().start('sleeper', {SLEEPS!r})\n"
        "child.wait_for_ready_line()\n"
        "print(child.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with Processes() as processes:
        benchmark = processes.start("benchmark", [sys.executable, "-c", program], environment={"TMPDIR": str(tmp_path)})
        benchmark.process.wait(20)
        pid = int(benchmark.stdout.read_text())
        give_up_at = time.monotonic() + 20
        while is_alive(pid) and time.monotonic() < give_up_at:
            time.sleep(0.01)

    assert not is_alive(pid)


def test_a_benchmark_that_is_asked_to_end_leaves_nothing() -> None:
    """SIGTERM ends the children and removes their logs, as leaving the block does."""
    program = (
        "import signal\n"
        "from benchmarks.processes import Processes\n"
        "with Processes() as processes:\n"
        f"    child = processes.start('sleeper', {SLEEPS!r})\n"
        "    print(child.process.pid, processes.directory, 'ready: http://127.0.0.1:9', sep='\\n', flush=True)\n"
        "    signal.pause()\n"
    )
    with Processes() as processes:
        benchmark = processes.start("benchmark", [sys.executable, "-c", program])
        benchmark.wait_for_ready_line()
        pid, directory, _ = benchmark.stdout.read_text().split("\n", 2)
        benchmark.process.terminate()
        status = benchmark.process.wait(20)

    assert 128 + 15 == status
    assert not is_alive(int(pid))
    assert not Path(directory).exists()


def test_a_child_that_ends_early_is_named_with_its_last_words() -> None:
    """The error says which child, how it ended, and what it said."""
    command = [sys.executable, "-c", "import sys; print('no such option', file=sys.stderr); sys.exit(3)"]
    with Processes() as processes:
        child = processes.start("proxy", command)
        with pytest.raises(ChildFailedError, match=r"proxy ended with status 3 before a ready line:\sno such option"):
            child.wait_for_ready_line()


def test_waiting_for_a_child_has_an_end() -> None:
    """A child that never listens is an error after the time-out."""
    with Processes() as processes, pytest.raises(ChildFailedError, match=r"no port \d+ after 0.1 s"):
        processes.start("sleeper", SLEEPS).wait_for_port(free_port(), timeout_s=0.1)


def test_a_child_runs_on_the_cores_it_was_given() -> None:
    """Affinity is set before the program starts."""
    core = max(os.sched_getaffinity(0))
    with Processes() as processes:
        said = processes.start(
            "affinity", [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"], cores={core}
        ).wait(timeout_s=30)

    assert f"{{{core}}}" == said.strip()


def test_pinning_ends_with_its_block() -> None:
    """The benchmark's own affinity is what it was."""
    before = os.sched_getaffinity(0)
    with pinned({max(before)}):
        within = os.sched_getaffinity(0)

    assert {max(before)} == within
    assert before == os.sched_getaffinity(0)


def test_memory_and_processor_time_are_those_of_the_child() -> None:
    """What a child holds and burns is seen from outside."""
    program = "held = bytearray(b'x' * 64_000_000)\nprint('ready: http://h', flush=True)\nwhile True: pass"
    with Processes() as processes:
        child = processes.start("burner", [sys.executable, "-c", program])
        child.wait_for_ready_line()
        began_s, busy_s = child.cpu_s(), sum(core_busy_s(core) for core in os.sched_getaffinity(0))
        give_up_at = time.monotonic() + 20
        while child.cpu_s() < began_s + 0.1 and time.monotonic() < give_up_at:
            time.sleep(0.01)

        assert 64_000_000 < child.rss_bytes() < 128_000_000
        assert child.cpu_s() >= began_s + 0.1
        assert sum(core_busy_s(core) for core in os.sched_getaffinity(0)) > busy_s


def test_memory_includes_descendants_with_sessions_of_their_own() -> None:
    """The processes of a gateway are such descendants."""
    holds = "held = bytearray(b'x' * 64_000_000)\nprint('ready: http://h', flush=True)\nimport signal\nsignal.pause()"
    program = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    with Processes() as processes:
        child = processes.start("parent", [sys.executable, "-c", program, holds])
        child.wait_for_ready_line()

        assert child.rss_bytes() > 64_000_000


def test_the_gateway_is_given_its_settings_as_a_file() -> None:
    """``--config FILE`` is appended to the command, and the file is YAML."""
    with Processes() as processes:
        _, url = start_gateway(processes, {"server": {"port": 18_101}}, command=[sys.executable, "-c", READS_CONFIG])

    assert "http://127.0.0.1:18101" == url


def test_the_gateway_takes_the_settings_of_a_benchmark() -> None:
    """One worker, the strategy that is judged."""
    settings = Settings.model_validate(settings_before("http://127.0.0.1:9"))

    assert "prefix_aware" == settings.models[0].strategy
    assert "http://127.0.0.1:9" == settings.models[0].workers[0].url
