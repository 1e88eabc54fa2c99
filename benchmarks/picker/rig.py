"""Programs of the benchmark: stub workers, pickers, the bare server, and Envoy."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.bench import KEYS_AND_LIMITS
from benchmarks.processes import (
    Child,
    ChildFailedError,
    Processes,
    free_port,
    settings_before,
    start_gateway,
    start_stub_worker,
)
from benchmarks.shipped import Shipped
from tests.picker.configuration import Pool, configuration, forwarding
from tests.picker.environment import ENVOY

WORKERS = 4
"""Number of workers, which is that of the published measurements."""
BARE = "gRPC library alone"
PICKER = "picker"
WITH_KEYS = "picker, with a key and five limits"
WRITTEN_S = 30.0
"""Maximum seconds until a sampled picker has written its counts."""
_VERSION = re.compile(r"version: \w+/(?P<version>[\d.]+)/")


@dataclass(frozen=True, slots=True)
class Server:
    """gRPC server under test."""

    name: str
    child: Child
    address: str


class Rig:
    """Programs of one run. What is measured has *core*, and everything else has *load_core*."""

    def __init__(self, processes: Processes, *, core: int, load_core: int, shipped: Shipped | None) -> None:
        self._processes = processes
        self._core = {core}
        self._load_core = {load_core}
        self._shipped = shipped
        self._envoys = 0

    def start_workers(self, *, name: str, first_byte_ms: float = 0.0) -> list[str]:
        """Start stub workers that wait *first_byte_ms* before each answer, and return their URLs."""
        options = ["--workers", str(WORKERS), "--first-byte-ms", str(first_byte_ms)]
        _, urls = start_stub_worker(self._processes, *options, name=name, cores=self._load_core)
        return urls.split(",")

    def start_bare(self) -> Server:
        """Start a gRPC server that does nothing with requests."""
        command = [sys.executable, "-m", "benchmarks.picker.bare"]
        child = self._processes.start("bare", command, cores=self._core)
        return Server(BARE, child, child.wait_for_ready_line().removeprefix("http://"))

    def start_picker(self, name: str, worker_urls: Sequence[str]) -> Server:
        """Start a picker in front of the workers at *worker_urls*."""
        port = free_port()
        shipped = self._shipped
        groups: dict[str, Any] = {"picker": {"listen": f"127.0.0.1:{port}"}}
        file = "".join(letter if letter.isalnum() else "-" for letter in name)
        if name == WITH_KEYS:
            groups |= {**KEYS_AND_LIMITS, "store": {"url": f"sqlite:///{self._processes.directory / file}.db"}}
        settings = settings_before(*worker_urls, **groups)
        settings["server"] = {**settings["server"], "open_mode": "network"}
        child, _ = start_gateway(
            self._processes,
            settings,
            command=(sys.executable, *([] if shipped is None else ["-P"]), "-m", "gateway", "picker"),
            environment=None if shipped is None else shipped.environment,
            name=file,
            cores=self._core,
        )
        return Server(name, child, f"127.0.0.1:{port}")

    def start_sampled(self, worker_urls: Sequence[str]) -> tuple[Server, Path]:
        """Start a picker from the sources that counts where its time goes. Return it and the file of its counts."""
        port, file = free_port(), self._processes.directory / "samples.json"
        settings = settings_before(*worker_urls, picker={"listen": f"127.0.0.1:{port}"})
        settings["server"] = {**settings["server"], "open_mode": "network"}
        command = (sys.executable, "-m", "benchmarks.picker.sampled", str(file), "picker")
        child, _ = start_gateway(self._processes, settings, command=command, name="sampled", cores=self._core)
        return Server("sampled", child, f"127.0.0.1:{port}"), file

    def start_envoy(self, worker_urls: Sequence[str], picker: Server | None) -> str:
        """Start Envoy in front of workers, with or without a picker, and return its address."""
        port = free_port()
        endpoints = [url.removeprefix("http://") for url in worker_urls]
        if picker is None:
            config = forwarding(endpoints[0], to_http2=False)
            listener = config["static_resources"]["listeners"][0]
            listener["address"]["socket_address"]["port_value"] = port
        else:
            config = configuration([Pool(picker.address, endpoints)], port=port)
        self._envoys += 1
        child = start_envoy(self._processes, config, name=f"envoy-{self._envoys}", cores=self._load_core)
        child.wait_for_port(port)
        return f"127.0.0.1:{port}"


def start_envoy(
    processes: Processes, config: Mapping[str, Any], *, name: str, cores: Collection[int] | None = None
) -> Child:
    """Start an Envoy with one thread.

    Raises:
        ChildFailedError: if Envoy is not installed.
    """
    if not ENVOY.exists():
        raise ChildFailedError("Envoy is not installed: python -m tests.picker.environment installs it")
    file = processes.directory / f"{name}.json"
    file.write_text(json.dumps(config))
    options = ["-c", str(file), "--log-level", "warning", "--concurrency", "1", "--use-dynamic-base-id"]
    return processes.start(name, [str(ENVOY), *options], cores=cores)


def envoy_version(processes: Processes) -> str:
    """Return the version of Envoy."""
    said = processes.start("envoy-version", [str(ENVOY), "--version"]).wait(timeout_s=60.0)
    found = _VERSION.search(said)
    return found["version"] if found else said.strip()


def threads_cpu_s(pid: int) -> dict[str, float]:
    """Return the processor seconds of the threads of process *pid*: of its first thread, and of all others."""
    ticks = {"loop": 0, "others": 0}
    for task in Path(f"/proc/{pid}/task").iterdir():
        text = (task / "stat").read_text()
        fields = text[text.rindex(")") + 2 :].split()
        ticks["loop" if task.name == str(pid) else "others"] += int(fields[11]) + int(fields[12])
    return {name: count / 100 for name, count in ticks.items()}


def samples(server: Server, file: Path) -> dict[str, int]:
    """Return the counts of a sampled picker since the last call.

    Raises:
        ChildFailedError: if the picker does not write them.
    """
    file.unlink(missing_ok=True)
    os.kill(server.child.process.pid, signal.SIGUSR1)
    give_up_at = time.monotonic() + WRITTEN_S
    while not file.exists():
        if time.monotonic() > give_up_at or server.child.has_ended:
            raise ChildFailedError(f"the sampled picker has written nothing:\n{server.child.last_words()}")
        time.sleep(0.02)
    counts: dict[str, int] = json.loads(file.read_text())
    return counts


def check(address: str, body: bytes) -> None:
    """Check that Envoy at *address* answers one request.

    Raises:
        ChildFailedError: if the status is not 200.
    """
    headers = {"content-type": "application/json", "authorization": "Bearer benchmark"}
    answer = httpx.post(f"http://{address}/v1/chat/completions", content=body, headers=headers, timeout=30.0)
    if answer.status_code != 200:
        raise ChildFailedError(f"Envoy answered {answer.status_code}: {answer.text[:300]}")
