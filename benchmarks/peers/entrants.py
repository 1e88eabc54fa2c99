"""The entrants, and how each is started before workers, on the proxy's core.

`Entrant.name` is its name on the command line and in tables. Rust routers run as many threads as they like, on that
one core; what is written in Python runs as one process.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.bench import KEYS_AND_LIMITS, Bench, Target
from benchmarks.peers.environment import PEERS, install
from benchmarks.peers.routers import LiteLlm, Router, SglangGateway, Smg, VllmRouter, start_router
from benchmarks.processes import free_port
from benchmarks.shipped import Shipped, build

OURS = "warmgate"
OURS_WITHOUT_KEYS = "warmgate without keys"
OURS_WITHOUT_LOG = "warmgate without request log"
NGINX = "nginx"
SGLANG = "sglang cache_aware"
ROUND_ROBIN = "vllm-router round_robin"
LITELLM = "litellm"
NAIVE = "naive"


class Wheel:
    """Ours as it is shipped, built when it is first needed."""

    def __init__(self, unpacked: Path | None = None) -> None:
        self._unpacked = unpacked

    @property
    def is_given(self) -> bool:
        """It is not built, and may be anything."""
        return self._unpacked is not None

    @cached_property
    def shipped(self) -> Shipped:
        """The one that was *unpacked* before, or that of these sources: `benchmarks.shipped.build`.

        Raises:
            ChildFailedError: it cannot be built.
        """
        return Shipped(self._unpacked) if self._unpacked else build()


class Stage:
    """Place where entrants are started: a bench, and our wheel."""

    def __init__(self, bench: Bench, wheel: "Wheel") -> None:
        self.bench = bench
        self.wheel = wheel
        self._started = 0

    def next_number(self) -> int:
        """Return the number of a start: files that two of the same name must not share are named by it."""
        self._started += 1
        return self._started


Start = Callable[[Stage, Sequence[str]], Target]


@dataclass(frozen=True, slots=True)
class Entrant:
    """One proxy with one policy."""

    name: str
    start: Start
    """Starts it in front of workers, by their URLs; returns when it is ready. Raises `ChildFailedError`."""
    peer: str | None = None
    """Its environment, where it is not ours."""
    is_ours: bool = False
    is_slow: bool = False
    """It is asked for less: hundreds of requests per second would only measure its queue."""

    @property
    def is_router(self) -> bool:
        """A project to be compared with: neither ours, nor the limit, nor the floor."""
        return self.peer is not None

    def install(self) -> None:
        """Raises `NotInstalledError`."""
        if self.peer is not None:
            install(PEERS[self.peer])


def _nginx(stage: Stage, workers: Sequence[str]) -> Target:
    return stage.bench.start_nginx(*workers)


def _naive(stage: Stage, workers: Sequence[str]) -> Target:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.peers.naive_proxy", "--port", str(port), *workers]
    child = stage.bench.processes.start("naive", command, cores={stage.bench.proxy_core})
    child.wait_for_port(port)
    return _target(NAIVE, child, f"http://127.0.0.1:{port}")


def _router(name: str, router: Router, stage: Stage, workers: Sequence[str]) -> Target:
    bench, binaries = stage.bench, PEERS[router.peer].python.parent
    child, url = start_router(bench.processes, router, binaries, workers, cores={bench.proxy_core})
    return _target(name, child, url)


def _warmgate(name: str, settings: Mapping[str, Any], stage: Stage, workers: Sequence[str]) -> Target:
    store = stage.bench.processes.directory / f"keys-{stage.next_number()}.db"
    return stage.bench.start_gateway(
        *workers,
        name=name,
        command=stage.wheel.shipped.command,
        environment=stage.wheel.shipped.environment,
        settings={**settings, "store": {"url": f"sqlite:///{store}"}} if "teams" in settings else settings,
    )


def _target(name: str, child: Any, url: str) -> Target:
    return Target(name, child, {"requests": url, "streams": url})


def _ours(name: str, settings: Mapping[str, Any]) -> Entrant:
    return Entrant(name, partial(_warmgate, name, settings), is_ours=True)


def _of(name: str, router: Router, *, is_slow: bool = False) -> Entrant:
    return Entrant(name, partial(_router, name, router), peer=router.peer, is_slow=is_slow)


ENTRANTS: Mapping[str, Entrant] = {
    each.name: each
    for each in (
        Entrant(NGINX, _nginx),
        _ours(OURS, KEYS_AND_LIMITS),
        _ours(OURS_WITHOUT_KEYS, {}),
        _ours(OURS_WITHOUT_LOG, {**KEYS_AND_LIMITS, "logging": {"requests": False}}),
        _of(SGLANG, SglangGateway()),
        _of("smg cache_aware", Smg()),
        _of("vllm-router cache_aware", VllmRouter()),
        _of(ROUND_ROBIN, VllmRouter("round_robin")),
        _of(LITELLM, LiteLlm(), is_slow=True),
        Entrant(NAIVE, _naive, is_slow=True),
    )
}
CACHE_AWARE = tuple(name for name in ENTRANTS if name not in {ROUND_ROBIN, OURS_WITHOUT_LOG})
"""All that a scenario has unless it says otherwise: each project once, ours with keys and without."""


def chosen(words: Sequence[str]) -> tuple[Entrant, ...]:
    """The entrants whose names have all that one of *words* has in it, e.g. ``sglang`` or ``vllm-router``.

    Raises:
        ValueError: a word fits none.
    """
    for word in words:
        if not any(word in name for name in ENTRANTS):
            raise ValueError(f"no entrant is called {word}; there are {', '.join(ENTRANTS)}")
    return tuple(each for name, each in ENTRANTS.items() if any(word in name for word in words))
