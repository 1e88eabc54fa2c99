"""Compared routers: Warmgate as compiled for the image, and each other router with its own policy."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.environment import PEERS, install
from benchmarks.peers.routers import Router, SglangGateway, Smg, VllmRouter, start_router
from benchmarks.peers.routing.slices import MODEL
from benchmarks.peers.routing.workers import Workers
from benchmarks.processes import Child, Processes, free_port, start_gateway
from benchmarks.shipped import Shipped

TOKENIZER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Factor by which everything runs faster than in production."""

    speed: float
    """Seconds of the workers per real second."""
    shrink: int
    """Number of recorded prompt tokens per token in the run."""


IN_EARNEST = Pace(1.0, 1)


class Entrant(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_ours(self) -> bool: ...

    @property
    def pins(self) -> Sequence[str]:
        """Return the packages whose versions identify the router, or nothing for Warmgate."""
        ...

    def prepare(self) -> None:
        """Install missing programs. Raises NotInstalledError if this fails."""
        ...

    def start(self, processes: Processes, workers: Workers, pace: Pace) -> tuple[Child, str]:
        """Start the router in front of *workers*. Return its process and its URL when it is ready. Raises
        ChildFailedError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """Warmgate with one strategy. *shipped* is the compiled wheel, or None for the checkout."""

    strategy: str
    shipped: Shipped | None = None
    is_ours: bool = True

    @property
    def name(self) -> str:
        return f"warmgate {self.strategy}"

    @property
    def pins(self) -> Sequence[str]:
        return ()

    def prepare(self) -> None:
        pass

    def start(self, processes: Processes, workers: Workers, pace: Pace) -> tuple[Child, str]:
        folder = tokenizer_folder(processes)
        settings = settings_of(self.strategy, workers.urls, folder, pace)
        if self.shipped is None:
            return start_gateway(processes, settings)
        command, environment = self.shipped.command, self.shipped.environment
        return start_gateway(processes, settings, command=command, environment=environment)


def settings_of(strategy: str, workers: list[str], tokenizer: Path, pace: Pace) -> dict[str, Any]:
    """Return default settings, with all seconds and rates scaled to the speed of the run."""
    return {
        "server": {"host": "127.0.0.1", "port": free_port()},
        "models": [
            {
                "name": MODEL,
                "strategy": strategy,
                "tokenizer": {"source": "local", "path": str(tokenizer)},
                "workers": [{"url": url} for url in workers],
            }
        ],
        "routing": {"max_wait_s": 120.0 / pace.speed},
        "advanced": {
            "release_depth_s": 0.05 / pace.speed,
            "initial_prefill_tokens_per_s": 2000.0 * pace.speed / pace.shrink,
            "kv_prediction_s": 5.0 / pace.speed,
        },
        "queue": {"starvation_s": 30.0 / pace.speed},
        "health": {"metrics_interval_s": 5.0 / pace.speed},
    }


def tokenizer_folder(processes: Processes) -> Path:
    """Return the folder with the tokenizer of the workers, as operators provide it to the gateway."""
    folder = processes.directory / "tokenizer"
    if not folder.exists():
        command = [sys.executable, "-m", "gateway", "simulate", "--write-tokenizer", str(folder)]
        processes.start("tokenizer", command).wait(timeout_s=TOKENIZER_TIMEOUT_S)
    return folder


@dataclass(frozen=True, slots=True)
class Theirs:
    """Other router with its defaults. *paced* creates the router with its times scaled to the speed of the run."""

    paced: Callable[[Pace], Router]
    is_ours: bool = False

    @property
    def name(self) -> str:
        return self.paced(IN_EARNEST).name

    @property
    def pins(self) -> Sequence[str]:
        return PEERS[self._peer].requirements

    def prepare(self) -> None:
        install(PEERS[self._peer])

    def start(self, processes: Processes, workers: Workers, pace: Pace) -> tuple[Child, str]:
        binaries = PEERS[self._peer].python.parent
        return start_router(processes, self.paced(pace), binaries, workers.urls)

    @property
    def _peer(self) -> str:
        return self.paced(IN_EARNEST).peer


def smg(pace: Pace) -> Smg:
    """Return SMG with defaults: worker loads every 10 s, warm-up of 60 s, placements valid for 180 s."""
    seconds = {"--load-monitor-interval": 10, "--worker-warmup-secs": 60, "--cache-ttl-secs": 180}
    flags = [(name, str(max(1, round(value / pace.speed)))) for name, value in seconds.items()]
    return Smg("cache_aware", tuple(word for flag in flags for word in flag))


Maker = Callable[[Shipped | None], Entrant]


def _ours(strategy: str) -> Maker:
    return lambda shipped: Ours(strategy, shipped)


def _theirs(paced: Callable[[Pace], Router]) -> Maker:
    return lambda _: Theirs(paced)


# What SGLang's gateway and vllm-router have in seconds, no request of these would meet.
ENTRANTS: Mapping[str, Maker] = {
    "kv_aware": _ours("kv_aware"),
    "prefix_aware": _ours("prefix_aware"),
    "sglang": _theirs(lambda _: SglangGateway("cache_aware")),
    "smg": _theirs(smg),
    "vllm-router": _theirs(lambda _: VllmRouter("cache_aware")),
    "vllm-router-turns": _theirs(lambda _: VllmRouter("round_robin")),
}
"""Routers by their names in the option `--peers`."""
DEFAULT = tuple(ENTRANTS)
