"""Child processes of a benchmark, which are pinned to cores, watched until ready, and killed at its end.

Rules:
    1. A child never outlives the benchmark: its whole session is killed on leaving the ``with``, and the kernel kills
       the child itself if the benchmark dies without leaving it.
    2. What a child prints goes to files in a temporary directory and nowhere else.

Linux only: affinity, sessions and memory are read the way Linux has them.
"""

import argparse
import ctypes
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import yaml

ROOT = Path(__file__).resolve().parent.parent
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
READY = re.compile(r"^ready: (?P<url>https?://\S+)", re.MULTILINE)
READY_HEAD_CHARACTERS = 65_536  # the ready line is among the first; request logs that follow are not searched
POLL_S = 0.02

GATEWAY_COMMAND = (sys.executable, "-m", "gateway", "serve")


class ChildFailedError(Exception):
    """Error for a child process that ended early, was not ready in time, or did not answer correctly."""


@dataclass(slots=True)
class Child:
    """Child process with all its descendants."""

    name: str
    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def rss_bytes(self) -> int:
        """Return the resident memory of the child and its descendants. Shared pages count once per process."""
        return sum(_resident_bytes(pid) for pid in _family(self.process.pid))

    def cpu_s(self) -> float:
        """Return the processor seconds, user and system, of the child and its living descendants."""
        return sum(_cpu_s(pid) for pid in _family(self.process.pid))

    def last_words(self, characters: int = 2_000) -> str:
        """Return the end of the child's output, for an error message."""
        printed = self.stdout.read_text(errors="replace") + self.stderr.read_text(errors="replace")
        return printed[-characters:].strip()

    def is_ready(self) -> bool:
        """Return whether the child has printed its ``ready: URL`` line.

        Raises:
            ChildFailedError: if the child ended before.
        """
        is_ready = self._ready_url() is not None
        if not is_ready and self.has_ended:
            status = self.process.returncode
            raise ChildFailedError(f"{self.name} ended with status {status}:\n{self.last_words()}")
        return is_ready

    def wait_for_ready_line(self, *, timeout_s: float = 30.0) -> str:
        """Return the URL of the ``ready: URL`` line that the child prints on stdout.

        Raises:
            ChildFailedError: if the child ended first, or *timeout_s* passed.
        """
        self._wait(lambda: self._ready_url() is not None, what="a ready line", timeout_s=timeout_s)
        url = self._ready_url()
        assert url is not None
        return url

    def wait_for_port(self, port: int, *, host: str = "127.0.0.1", timeout_s: float = 30.0) -> None:
        """Return when *port* accepts a connection.

        Raises:
            ChildFailedError: if the child ended first, or *timeout_s* passed.
        """
        self._wait(lambda: _accepts(host, port), what=f"port {port}", timeout_s=timeout_s)

    def wait(self, *, timeout_s: float) -> str:
        """Wait until the child ends with status 0, and return its standard output.

        Raises:
            ChildFailedError: if the child ended with another status, or *timeout_s* passed.
        """
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChildFailedError(f"{self.name} has not ended after {timeout_s:g} s") from None
        if status != 0:
            raise ChildFailedError(f"{self.name} ended with status {status}:\n{self.last_words()}")
        return self.stdout.read_text(errors="replace")

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """Send the child SIGTERM and, if necessary, SIGKILL. Its descendants end too. Can be called twice."""
        if not self.has_ended:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
        # A worker process can outlive its parent: the session goes as a whole, and a killed process takes a moment to.
        while remaining := _family(self.process.pid):
            for pid in remaining:
                _kill(pid)
            time.sleep(POLL_S)
        self.process.wait()

    def _ready_url(self) -> str | None:
        with self.stdout.open(errors="replace") as printed:
            found = READY.search(printed.read(READY_HEAD_CHARACTERS))
        return found["url"] if found else None

    def _wait(self, is_ready: Callable[[], bool], *, what: str, timeout_s: float) -> None:
        give_up_at = time.monotonic() + timeout_s
        while not is_ready():
            if self.has_ended:
                status = self.process.returncode
                raise ChildFailedError(f"{self.name} ended with status {status} before {what}:\n{self.last_words()}")
            if time.monotonic() >= give_up_at:
                raise ChildFailedError(f"{self.name}: no {what} after {timeout_s:g} s:\n{self.last_words()}")
            time.sleep(POLL_S)


class Processes:
    """Child processes of one benchmark run. Leaving the context stops all children and removes their directory.

    The context must be entered in the main thread, because it handles SIGTERM.
    """

    def __init__(self) -> None:
        self._children: list[Child] = []
        self.directory = Path(tempfile.mkdtemp(prefix="warmgate-bench-"))

    def __enter__(self) -> Self:
        # Left alone, SIGTERM would end the benchmark without leaving the block.
        self._sigterm_handler = signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTERM, self._sigterm_handler)
        for child in reversed(self._children):
            child.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cores: Collection[int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start *command* on *cores* (None means all) with *environment* added, and return without waiting.

        The command runs in the checkout, so that ``-m benchmarks.X`` and ``-m gateway`` work.
        """
        stdout, stderr = self.directory / f"{name}.stdout", self.directory / f"{name}.stderr"
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=_settle_on(cores),  # noqa: PLW1509 - no thread of ours can hold a lock across this fork
            )
        child = Child(name=name, process=process, stdout=stdout, stderr=stderr)
        self._children.append(child)
        return child


def start_stub_worker(
    processes: Processes,
    *options: str,
    name: str = "stub",
    cores: Collection[int] | None = None,
) -> tuple[Child, str]:
    """Start a stub worker with *options* of ``benchmarks.stub_worker``. Return its process and its URL."""
    child = processes.start(name, [sys.executable, "-m", "benchmarks.stub_worker", *options], cores=cores)
    return child, child.wait_for_ready_line()


def start_gateway(
    processes: Processes,
    settings: Mapping[str, Any],
    *,
    command: Sequence[str] = GATEWAY_COMMAND,
    environment: Mapping[str, str] | None = None,
    name: str = "gateway",
    cores: Collection[int] | None = None,
) -> tuple[Child, str]:
    """Start a gateway, and return its process and its URL when it is ready.

    A store in Redis is initialized first, as operators do.

    Raises:
        ChildFailedError: if the gateway ended before it was ready, or was not ready in 30 s.
    """
    config = processes.directory / f"{name}.yaml"
    config.write_text(yaml.safe_dump(dict(settings)))
    if not settings.get("store", {}).get("url", "sqlite:").startswith("sqlite:"):
        initialize = [sys.executable, "-m", "gateway", "store", "init", "--config", str(config)]
        if processes.start(f"{name}-store-init", initialize, environment=environment).process.wait(30.0):
            raise ChildFailedError("the store cannot be initialized")
    child = processes.start(name, [*command, "--config", str(config)], cores=cores, environment=environment)
    return child, child.wait_for_ready_line()


def add_gateway_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that sets the command of the gateway."""
    parser.add_argument(
        "--gateway",
        type=shlex.split,
        default=GATEWAY_COMMAND,
        metavar="COMMAND",
        help="starts the gateway (default: python -m gateway serve)",
    )


def settings_before(*worker_urls: str, **groups: Any) -> dict[str, Any]:
    """Return settings of a gateway: a free port, `prefix_aware`, *groups*, and defaults for the rest."""
    workers = [{"url": url} for url in worker_urls]
    return {
        **groups,
        "server": {"host": "127.0.0.1", "port": free_port()},
        "models": [{"name": "tiny", "strategy": "prefix_aware", "workers": workers}],
    }


@contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """Keep this process on *cores* while the block runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def core_busy_s(core: int) -> float:
    """Return the seconds for which *core* was busy since the machine started, in clock ticks."""
    lines = Path("/proc/stat").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"cpu{core} "))
    # proc_stat(5): user nice system idle iowait irq softirq steal guest guest_nice; guest time is within user time.
    user, nice, system, _, _, irq, softirq, steal = (int(field) for field in line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / CLOCK_TICKS_PER_S


def free_port() -> int:
    """Return a TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _settle_on(cores: Collection[int] | None) -> Callable[[], None]:
    libc = ctypes.CDLL(None)  # loaded here: after a fork is no time to load anything

    def settle() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if cores is not None:
            os.sched_setaffinity(0, cores)

    return settle


def _leave(signum: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + signum)


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _family(session: int) -> list[int]:
    """Return the processes of a session and their descendants, which can have sessions of their own.

    Takes O(processes of the machine).
    """
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    # Fields 4 and 6 of proc_pid_stat(5) are the parent and the session; a zombie only waits for its parent.
    found = {pid: stat for pid in pids if (stat := _stat(pid)) and stat[0] != "Z"}
    family = [pid for pid, stat in found.items() if int(stat[3]) == session]
    for pid in family:  # it grows until the last descendant is in it
        family += [each for each, stat in found.items() if int(stat[1]) == pid and each not in family]
    return family


def _stat(pid: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the third (state) on, or an empty list if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2 :].split()  # the second field is a name that may hold blanks and brackets


def _cpu_s(pid: int) -> float:
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / CLOCK_TICKS_PER_S if stat else 0.0


def _resident_bytes(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[21]) * PAGE_BYTES if stat else 0
