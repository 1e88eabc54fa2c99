"""Programs of the chaos benchmark: workers, two pickers and two Envoys, which fail and are drained."""

import os
import signal
import sys
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

import httpx

from benchmarks.bench import ADMIN_SECRET
from benchmarks.chaos_faults import SimulatedWorker
from benchmarks.picker.rig import start_envoy
from benchmarks.processes import Child, ChildFailedError, Processes, free_port, start_gateway
from benchmarks.shipped import Shipped
from tests.picker.configuration import Json, Pool, configuration

WORKERS = 4
REPLICAS = 2
STOP_DELAY_S = 5.0
"""Seconds for which a picker that stops still serves requests. Envoy's health check notices it meanwhile."""
READY_S = 60.0
WORKER_OPTIONS = ("--tpot-ms", "20", "--prefill-tokens-per-s", "20000", "--blocks", "4000")
DRAIN_S = 60.0
"""Maximum seconds that the requests of an Envoy may take after it was drained."""


class Picker:
    """Replica of the picker, always at the same addresses."""

    def __init__(self, processes: Processes, name: str, settings: Json, shipped: Shipped | None) -> None:
        self._processes = processes
        self._name = name
        self._shipped = shipped
        self._lives = 0
        self._port = free_port()
        self.address = f"127.0.0.1:{free_port()}"
        self._settings = {
            **settings,
            "server": {
                "host": "127.0.0.1",
                "port": self._port,
                "open_mode": "network",
                "stop_delay_s": STOP_DELAY_S,
            },
            "picker": {"listen": self.address},
        }
        self._child = self._start()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        os.killpg(self._child.process.pid, signal.SIGKILL)
        self._child.process.wait()

    def stop(self) -> None:
        """Stop the process with SIGTERM, and wait until its requests have ended."""
        self._child.process.terminate()
        self._child.process.wait(DRAIN_S)

    def restart(self) -> None:
        """Start a new process, and wait until it has found all workers."""
        self._child = self._start()

    def drain_worker(self, endpoint: str, *, is_drained: bool) -> None:
        """Let the replica send no new requests to the worker at *endpoint*, or let it send them again."""
        action = "drain" if is_drained else "undrain"
        reply = httpx.post(
            f"http://127.0.0.1:{self._port}/admin/v1/workers/{action}",
            headers={"authorization": f"Bearer {ADMIN_SECRET}"},
            json={"worker": endpoint},
            timeout=30.0,
        )
        if reply.status_code != 200:
            raise ChildFailedError(f"{self._name} answered {reply.status_code} to {action}: {reply.text[:300]}")

    def _start(self) -> Child:
        self._lives += 1
        shipped = self._shipped
        child, url = start_gateway(
            self._processes,
            self._settings,
            command=(sys.executable, *([] if shipped is None else ["-P"]), "-m", "gateway", "picker"),
            environment=None if shipped is None else shipped.environment,
            name=f"{self._name}-{self._lives}",
        )
        _wait_until_ready(f"{url}/readyz", child)
        return child


class Envoy:
    """Replica of Envoy. A drained one is replaced by another one at other addresses, as in a rollout."""

    def __init__(self, processes: Processes, name: str, pickers: Sequence[str], workers: Sequence[str]) -> None:
        self._processes = processes
        self._name = name
        self._config = two_pickers(pickers, workers)
        self._lives = 0
        self.address = ""
        self._child = self._start()

    def replace(self) -> tuple[Child, int]:
        """Start another process at another address. Return the former process and its administration's port."""
        former = self._child, self._admin
        self._child = self._start()
        return former

    def _start(self) -> Child:
        self._lives += 1
        port, self._admin = free_port(), free_port()
        resources = self._config["static_resources"]
        resources["listeners"][0]["address"]["socket_address"]["port_value"] = port
        self._config["admin"]["address"]["socket_address"]["port_value"] = self._admin
        child = start_envoy(self._processes, self._config, name=f"{self._name}-{self._lives}")
        _wait_until_ready(f"http://127.0.0.1:{self._admin}/ready", child)
        self.address = f"127.0.0.1:{port}"
        return child


def drain(child: Child, admin_port: int) -> None:
    """Let an Envoy that gets no new connections complete its requests, and end it.

    Raises:
        ChildFailedError: if requests are left after `DRAIN_S`.
    """
    base = f"http://127.0.0.1:{admin_port}"
    _get(f"{base}/drain_listeners?graceful", method="POST")
    give_up_at = time.monotonic() + DRAIN_S
    while _counter(base, "http.inference.downstream_rq_active"):
        if time.monotonic() > give_up_at:
            raise ChildFailedError("a drained Envoy still has requests")
        time.sleep(0.1)
    child.stop()


def two_pickers(pickers: Sequence[str], workers: Sequence[str]) -> Json:
    """Return the configuration of an Envoy that asks all of *pickers* in turn."""
    config = configuration([Pool(pickers[0], workers)])
    (cluster,) = (each for each in config["static_resources"]["clusters"] if each["name"].startswith("picker-of-"))
    members = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    for address in pickers[1:]:
        host, _, port = address.rpartition(":")
        members.append({"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}})
    return config


class Programs:
    """All programs of a run."""

    def __init__(self, processes: Processes, shipped: Shipped | None) -> None:
        self.workers = [SimulatedWorker(processes, f"worker-{number}", WORKER_OPTIONS) for number in range(WORKERS)]
        for worker in self.workers:
            worker.wait_ready()
        urls = [worker.url for worker in self.workers]
        endpoints = [url.removeprefix("http://") for url in urls]
        entries = [{"id": endpoint, "url": f"http://{endpoint}"} for endpoint in endpoints]
        settings: dict[str, Any] = {
            "models": [{"name": "tiny", "strategy": "prefix_aware", "workers": entries}],
            "health": {"interval_s": 1.0, "timeout_s": 5.0, "metrics_interval_s": 1.0},
            "admin": {"keys": [{"role": "owner", "secret": ADMIN_SECRET}]},
        }
        self.pickers = [Picker(processes, f"picker-{number}", settings, shipped) for number in range(REPLICAS)]
        addresses = [each.address for each in self.pickers]
        self.envoys = [Envoy(processes, f"envoy-{number}", addresses, endpoints) for number in range(REPLICAS)]

    @property
    def doors(self) -> list[str]:
        """Return the addresses that take new connections."""
        return [each.address for each in self.envoys]


def _wait_until_ready(url: str, child: Child) -> None:
    """Wait until *url* answers with status 200. Raises ChildFailedError if the process ends or takes too long."""
    give_up_at = time.monotonic() + READY_S
    while True:
        try:
            _get(url)
        except OSError as error:
            if child.has_ended or time.monotonic() > give_up_at:
                raise ChildFailedError(f"{child.name} is not ready: {error}\n{child.last_words()}") from error
            time.sleep(0.1)
        else:
            return


def _counter(base: str, name: str) -> int:
    text = _get(f"{base}/stats?filter=^{name}$")
    return int(text.rpartition(":")[2]) if ":" in text else 0


def _get(url: str, *, method: str = "GET") -> str:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30.0) as reply:
        text: str = reply.read().decode()
    return text
