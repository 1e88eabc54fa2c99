"""Metrics of the gateway's own process."""

import os
import platform
import resource
import socket
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from gateway.telemetry.process_metrics import BuildInfo, ProcessMetrics

ANY_FOLDER = Path("/proc/sys/kernel/random")


def result(proc: Path = Path("/proc")) -> dict[str, float]:
    return {sample.name: sample.value for family in ProcessMetrics(proc).collect() for sample in family.samples}


def a_proc(folder: Path) -> Path:
    """Make the `/proc` of an older Linux, whose folder of descriptors has no size."""
    (folder / "self").mkdir()
    (folder / "self/fd").symlink_to(ANY_FOLDER)
    (folder / "stat").write_text("cpu  1 2 3\nintr 5\nctxt 9\nbtime 1700000000\nprocesses 7\n")
    fields = ["R", *map(str, range(4, 14)), "250", "50", *map(str, range(16, 22)), "1000", "4096", "2", "0"]
    (folder / "self/stat").write_text(f"7 (a ) b) {' '.join(fields)}\n")
    return folder


def test_names_and_texts_are_those_of_prometheus_own_collector() -> None:
    """Dashboards that others wrote find them."""
    theirs = {family.name: (family.documentation, family.type) for family in ProcessCollector(registry=None).collect()}
    ours = {family.name: (family.documentation, family.type) for family in ProcessMetrics().collect()}

    assert theirs == ours


def test_values_are_those_of_prometheus_own_collector() -> None:
    """Processor time goes on meanwhile, and so may memory."""
    theirs = {s.name: s.value for family in ProcessCollector(registry=None).collect() for s in family.samples}
    ours = result()

    assert theirs["process_start_time_seconds"] == ours["process_start_time_seconds"]
    assert theirs["process_max_fds"] == ours["process_max_fds"]
    assert theirs["process_cpu_seconds_total"] == pytest.approx(ours["process_cpu_seconds_total"], abs=1.0)
    assert theirs["process_resident_memory_bytes"] == pytest.approx(ours["process_resident_memory_bytes"], rel=0.2)
    assert theirs["process_virtual_memory_bytes"] == pytest.approx(ours["process_virtual_memory_bytes"], rel=0.2)


def test_every_open_descriptor_counts() -> None:
    """Closed ones do not."""
    before = result()["process_open_fds"]
    with ExitStack() as exits:
        for _ in range(40):
            exits.enter_context(socket.socket())
        during = result()["process_open_fds"]

    assert (40.0, before) == (during - before, result()["process_open_fds"])


def test_the_fields_are_those_of_proc(tmp_path: Path) -> None:
    """Whatever the process is called; an older Linux has its descriptors counted."""
    ticks = os.sysconf("SC_CLK_TCK")
    proc = a_proc(tmp_path)
    found = result(proc)

    assert 300 / ticks == found["process_cpu_seconds_total"]
    assert 1_700_000_000 + 1000 / ticks == found["process_start_time_seconds"]
    assert (4096.0, 2.0 * resource.getpagesize()) == (
        found["process_virtual_memory_bytes"],
        found["process_resident_memory_bytes"],
    )
    assert len([*ANY_FOLDER.iterdir()]) == found["process_open_fds"]


def test_without_proc_there_are_no_process_metrics(tmp_path: Path) -> None:
    """A Mac has none; all other metrics are there."""
    registry = CollectorRegistry()
    registry.register(ProcessMetrics(tmp_path))

    assert [] == list(registry.collect())


@pytest.mark.parametrize(
    ("name", "text"), [("stat", "cpu  1 2 3\n"), ("self/stat", ""), ("self/stat", "7 (a) R x y\n")]
)
def test_a_malformed_proc_gives_no_metrics(tmp_path: Path, name: str, text: str) -> None:
    """A sandbox may have one: the scrape must not fail."""
    proc = a_proc(tmp_path)
    (proc / name).write_text(text)

    assert {} == result(proc)


def test_the_build_is_named() -> None:
    """The value is always 1; the labels hold the versions."""
    (family,) = BuildInfo().collect()
    (sample,) = family.samples

    labels = {"version": version("warmgate"), "python": platform.python_version()}
    assert ("warmgate_build_info", labels, 1.0) == (sample.name, sample.labels, sample.value)
