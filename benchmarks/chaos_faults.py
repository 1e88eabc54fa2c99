"""Faults that `benchmarks.chaos` causes in workers, one after the other. Each fault is undone after a while.

1. Only a worker that the gateway reports as ready, and that has no fault left, gets a fault. The report of the gateway
   alone is not enough, because a worker can fail between two health checks.
2. At least two workers to which the gateway sends requests have no fault, unless all are taken down together. A ready
   worker behind an open breaker does not count.
"""

import os
import random
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import httpx

from benchmarks.processes import Child, ChildFailedError, Processes, free_port

Kind = Literal["kill", "stop", "reset", "drain", "all down"]
SINGLE: tuple[Kind, ...] = ("kill", "stop", "reset", "drain")
LAST_HEALTHY = 2
STOP_S = 3.0
KILLED_S = (0.2, 1.0)
"""Time between killing a worker and restarting it. The restart itself takes a second or two."""
DRAINED_S = (1.0, 4.0)
ALL_DOWN_S = (2.0, 5.0, 12.0, 15.0)
"""Times during which all workers are down. Some exceed the time that requests wait for a worker."""
HAND_OVER_AFTER_S = 0.5
"""Time after which streams of a drained worker move. Streams of the benchmark take some seconds, so most of them move.
"""
SIMULATE = (sys.executable, "-m", "gateway", "simulate")


class Victim(Protocol):
    """Worker that can get faults."""

    @property
    def url(self) -> str: ...

    def kill(self) -> None:
        """Kill the worker with SIGKILL, like the kernel when memory is exhausted."""
        ...

    def restart(self) -> None:
        """Start a new process at the same address, without waiting for it."""
        ...

    def is_there(self) -> bool:
        """Whether the latest process of the worker answers requests."""
        ...

    def stop(self) -> None:
        """Stop the worker with SIGSTOP."""
        ...

    def go_on(self) -> None: ...

    def reset(self) -> None:
        """Reset all connections of the worker, which continues to work."""
        ...


class Gateway(Protocol):
    """Admin calls to a gateway."""

    def ready(self) -> dict[str, bool]:
        """Return the addresses of ready workers, and whether each gets requests because its breaker is closed."""
        ...

    def drain(self, url: str) -> None: ...

    def undrain(self, url: str) -> None: ...


class SimulatedWorker:
    """Simulated worker in a separate process, always on the same port."""

    def __init__(self, processes: Processes, name: str, options: Sequence[str]) -> None:
        self._processes = processes
        self._name = name
        self._options = options
        self._port = free_port()
        self._lives = 0
        self._child = self._start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def wait_ready(self) -> None:
        """Wait until the worker is ready. Raises `ChildFailedError` if it does not become ready."""
        self._child.wait_for_ready_line()

    def kill(self) -> None:
        os.killpg(self._child.process.pid, signal.SIGKILL)
        self._child.process.wait()

    def restart(self) -> None:
        self._child = self._start()

    def is_there(self) -> bool:
        """Whether the worker answers requests. Raises `ChildFailedError` if its process has ended unexpectedly."""
        return self._child.is_ready()

    def stop(self) -> None:
        os.killpg(self._child.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self._child.process.pid, signal.SIGCONT)

    def reset(self) -> None:
        with httpx.Client(base_url=self.url, timeout=5.0) as client:
            for mode in ("refuse", "none"):
                client.post("/control/faults", json={"mode": mode}).raise_for_status()

    def _start(self) -> Child:
        self._lives += 1
        name = f"{self._name}-{self._lives}"
        return self._processes.start(name, [*SIMULATE, "--port", str(self._port), *self._options])


class GatewayUnderTest:
    """Gateway under test. *client* has its address and an admin key."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def ready(self) -> dict[str, bool]:
        cards = self._ask("GET", "/admin/v1/workers")["workers"]
        return {card["url"].rstrip("/"): not card["breaker_open"] for card in cards if card["state"] == "up"}

    def drain(self, url: str) -> None:
        self._ask("POST", "/admin/v1/workers/drain", {"worker": url, "hand_over_after_s": HAND_OVER_AFTER_S})

    def undrain(self, url: str) -> None:
        self._ask("POST", "/admin/v1/workers/undrain", {"worker": url})

    def total(self, counter: str) -> float | None:
        """Return the sum of *counter* over all labels, or None if the gateway has no such metric."""
        lines = self._client.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith((f"{counter} ", f"{counter}{{"))]
        is_there = any(line.startswith(f"# TYPE {counter} ") for line in lines)
        return sum(float(line.rpartition(" ")[2]) for line in found) if found or is_there else None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ChildFailedError(f"the gateway does not answer {path}: {error!r}") from error
        if answer.status_code != 200:
            raise ChildFailedError(f"the gateway answered {answer.status_code} to {path}: {answer.text[:300]}")
        reported: dict[str, Any] = answer.json()
        return reported


@dataclass(frozen=True, slots=True)
class Inflicted:
    """Fault that was caused. Times are in seconds since the start of the run."""

    at: float
    kind: Kind
    workers: Sequence[str]
    for_s: float


@dataclass(frozen=True, slots=True)
class _Due:
    at: float
    workers: frozenset[str]
    undo: Callable[[], None]


class Mischief:
    """Plans and causes faults. All times are arguments, in seconds since the start of the run."""

    def __init__(
        self,
        victims: Iterable[Victim],
        gateway: Gateway,
        rng: random.Random,
        *,
        every_s: float,
        all_down_every_s: float | None = None,
    ) -> None:
        self._victims = {victim.url: victim for victim in victims}
        self._gateway = gateway
        self._rng = rng
        self._every_s = every_s
        self._all_down_every_s = all_down_every_s
        self._next_at = every_s
        self._all_down_at = all_down_every_s
        self._due: list[_Due] = []
        self._restarted: set[str] = set()
        self.inflicted: list[Inflicted] = []
        self.passed_over = 0
        """Number of faults that were omitted because every worker was needed."""

    @property
    def suffering(self) -> set[str]:
        """Return the workers whose fault was not undone yet, or that have not recovered from it."""
        return self._restarted | {url for due in self._due for url in due.workers}

    def look(self, now: float) -> None:
        """Undo and cause faults that are due. Must be called several times per second."""
        for due in [due for due in self._due if due.at <= now]:
            self._due.remove(due)
            due.undo()
        self._restarted = {url for url in self._restarted if not self._victims[url].is_there()}
        if self._all_down_at is not None and now >= self._all_down_at:
            self._take_all_down(now)
        elif now >= self._next_at:
            self._next_at = max(self._next_at + self._every_s, now)
            self._hurt_one(now)

    def end(self) -> None:
        """Undo all faults."""
        due, self._due = self._due, []
        for each in due:
            each.undo()

    def _hurt_one(self, now: float) -> None:
        possible = self._possible()
        if not possible:
            self.passed_over += 1
            return
        kind, url = self._rng.choice(SINGLE), self._rng.choice(possible)
        victim = self._victims[url]
        if kind == "kill":
            victim.kill()
            self._until(now, kind, [url], self._rng.uniform(*KILLED_S), lambda: self._restart(victim))
        elif kind == "stop":
            victim.stop()
            self._until(now, kind, [url], STOP_S, victim.go_on)
        elif kind == "drain":
            self._gateway.drain(url)
            self._until(now, kind, [url], self._rng.uniform(*DRAINED_S), lambda: self._gateway.undrain(url))
        else:
            victim.reset()
            self._until(now, "reset", [url], 0.0, lambda: None)

    def _possible(self) -> list[str]:
        """Return the workers that can get a fault, so that enough others remain."""
        suffering = self.suffering
        well = {url: is_sent_some for url, is_sent_some in self._gateway.ready().items() if url not in suffering}
        serving = {url for url, is_sent_some in well.items() if is_sent_some}
        return sorted(url for url in well if len(serving - {url}) >= LAST_HEALTHY)

    def _take_all_down(self, now: float) -> None:
        """Kill all workers at once, as soon as all are healthy."""
        assert self._all_down_every_s is not None
        if self._gateway.ready().keys() - self.suffering != self._victims.keys():
            self._next_at = now + self._every_s  # no one is hurt until then
            return
        self._all_down_at = now + self._all_down_every_s
        victims = tuple(self._victims.values())
        for victim in victims:
            victim.kill()

        def restart() -> None:
            for victim in victims:
                self._restart(victim)

        self._until(now, "all down", tuple(self._victims), self._rng.choice(ALL_DOWN_S), restart)

    def _restart(self, victim: Victim) -> None:
        victim.restart()
        self._restarted.add(victim.url)

    def _until(self, now: float, kind: Kind, urls: Collection[str], for_s: float, undo: Callable[[], None]) -> None:
        self.inflicted.append(Inflicted(now, kind, tuple(urls), for_s))
        self._due.append(_Due(now + for_s, frozenset(urls), undo))
