"""Metrics about the process, with the standard names of Prometheus client libraries, and about the running build.

prometheus-client counts file descriptors by listing them, which takes 9 ms per scrape with 10,000 connections. Linux
6.2 and newer report the number directly (proc_pid_fd(5), `st_size`). On older kernels they are listed as well.
"""

import os
import platform
import resource
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = resource.getpagesize()


class ProcessMetrics(Collector):
    """Processor time, memory and file descriptors of the process, only available with Linux's `/proc`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def collect(self) -> Iterator[Metric]:
        try:
            # Behind the name, which may hold anything: proc_pid_stat(5) counts from 1, and this is its third field.
            stat = (self._proc / "self/stat").read_bytes().rpartition(b")")[2].split()
            user, system, started, virtual_bytes, resident_pages = (int(stat[at - 3]) for at in (14, 15, 22, 23, 24))
            booted_at = self._booted_at()
            open_fds = self._open_fds()
        except (OSError, IndexError, ValueError):
            return
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            value=(user + system) / _TICKS,
        )
        for name, text, value in (
            ("virtual_memory_bytes", "Virtual memory size in bytes.", virtual_bytes),
            ("resident_memory_bytes", "Resident memory size in bytes.", resident_pages * _PAGE_BYTES),
            (
                "start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
                booted_at + started / _TICKS,
            ),
            ("open_fds", "Number of open file descriptors.", open_fds),
            ("max_fds", "Maximum number of open file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ):
            yield GaugeMetricFamily(f"process_{name}", text, value=value)

    def _booted_at(self) -> int:
        text = (self._proc / "stat").read_bytes()
        return int(text.partition(b"\nbtime ")[2].split(maxsplit=1)[0])

    def _open_fds(self) -> int:
        folder = self._proc / "self/fd"
        return folder.stat().st_size or len([*folder.iterdir()])


class BuildInfo(Collector):
    """Metric with the constant value 1, whose labels are the versions of the gateway and of Python."""

    def __init__(self) -> None:
        self._labels = (version("warmgate"), platform.python_version())

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "warmgate_build_info",
            "Always 1. The labels are the versions of the gateway and of Python.",
            labels=("version", "python"),
        )
        family.add_metric(self._labels, 1.0)
        yield family
