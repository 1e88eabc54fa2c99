"""Routers of other projects, one class each: what is run before given workers, and how one sees that it is ready.

Workers run before a router is started: each of these looks at them at its start, and comes back late to those that it
did not find. Ports are on the loopback interface. Whatever a router writes goes to the files of its process.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import yaml

from benchmarks.processes import POLL_S, Child, ChildFailedError, Processes, free_port

HOST = "127.0.0.1"
MODEL = "tiny"
PROBE_S = 2.0
"""Time limit for a router's health check."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place where one router runs."""

    binaries: Path
    """The `bin` of its environment."""
    folder: Path
    """Folder for its configuration; a fresh one for each start."""
    port: int
    metrics_port: int
    """A new one each time: a router that ends may hold the old one for a while."""


class Router(Protocol):
    """A project's router with one of its policies."""

    @property
    def name(self) -> str:
        """Name in reports, e.g. ``sglang cache_aware``."""
        ...

    @property
    def peer(self) -> str:
        """The name of its environment in `benchmarks.peers.environment`, where its version stands."""
        ...

    def command(self, place: Place, workers: Sequence[str]) -> list[str]:
        """Return the command that starts it before *workers*, given as URLs; may write files into *place*."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables beside those of this process."""
        ...

    def is_ready(self, url: str, workers: int) -> bool:
        """Whether it serves at *url*, and takes all of its *workers* for healthy."""
        ...


class _Family:
    """The common part of the routers that descend from SGLang's."""

    __slots__ = ()

    def environment(self) -> Mapping[str, str]:
        return {}

    def is_ready(self, url: str, workers: int) -> bool:
        return _healthy_workers(url) == workers


@dataclass(frozen=True, slots=True)
class SglangGateway(_Family):
    """SGLang's model gateway, 0.3.2. Its tree is over the characters of prompts."""

    policy: str = "cache_aware"
    peer: ClassVar[str] = "sglang"

    @property
    def name(self) -> str:
        return f"sglang {self.policy}"

    def command(self, place: Place, workers: Sequence[str]) -> list[str]:
        start = [str(place.binaries / "python"), "-m", "sglang_router.launch_router"]
        return [*start, *_family_flags(place, workers, self.policy, log_level="warn")]


@dataclass(frozen=True, slots=True)
class Smg(_Family):
    """SMG 1.13.0, where the line of SGLang's gateway went on."""

    policy: str = "cache_aware"
    flags: tuple[str, ...] = ()
    """Flags beside those of every start."""
    peer: ClassVar[str] = "smg"

    @property
    def name(self) -> str:
        return f"smg {self.policy}"

    def command(self, place: Place, workers: Sequence[str]) -> list[str]:
        flags = _family_flags(place, workers, self.policy, log_level="warn")
        # Without the last flag it asks a hub on the network for a tokenizer of the model.
        start = [str(place.binaries / "smg"), "launch", *flags, *self.flags]
        return [*start, "--backend", "vllm", "--disable-tokenizer-autoload"]


@dataclass(frozen=True, slots=True)
class VllmRouter(_Family):
    """vllm-project/router, 0.1.17. Its `cache_aware` asks a worker's `/tokenize` for the tokens of every prompt."""

    policy: str = "cache_aware"
    peer: ClassVar[str] = "vllm-router"

    @property
    def name(self) -> str:
        return f"vllm-router {self.policy}"

    def command(self, place: Place, workers: Sequence[str]) -> list[str]:
        flags = _family_flags(place, workers, self.policy, log_level="warning")
        return [str(place.binaries / "vllm-router"), *flags]


@dataclass(frozen=True, slots=True)
class LiteLlm:
    """LiteLLM's proxy, 1.106.2, without a key and without a database."""

    policy: str = "simple-shuffle"
    peer: ClassVar[str] = "litellm"

    @property
    def name(self) -> str:
        return f"litellm {self.policy}"

    def command(self, place: Place, workers: Sequence[str]) -> list[str]:
        config = place.folder / "litellm.yaml"
        config.write_text(yaml.safe_dump(self._settings(workers)), encoding="utf-8")
        start = [str(place.binaries / "litellm"), "--config", str(config)]
        return [*start, "--host", HOST, "--port", str(place.port), "--num_workers", "1"]

    def environment(self) -> Mapping[str, str]:
        # It must neither tell anybody that it runs nor ask for prices.
        # It does not start without a key unless an option allows that.
        return {
            "LITELLM_TELEMETRY": "False",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        }

    def is_ready(self, url: str, workers: int) -> bool:  # noqa: ARG002 - it asks no worker before the first request
        return _json_at(f"{url}/health/readiness") is not None

    def _settings(self, workers: Sequence[str]) -> dict[str, Any]:
        return {
            "model_list": [
                {
                    "model_name": MODEL,
                    "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{worker}/v1", "api_key": "none"},
                }
                for worker in workers
            ],
            "router_settings": {"routing_strategy": self.policy},
            "litellm_settings": {"request_timeout": 600},
        }


def start_router(
    processes: Processes,
    router: Router,
    binaries: Path,
    workers: Sequence[str],
    *,
    cores: Collection[int] | None = None,
    timeout_s: float = 60.0,
) -> tuple[Child, str]:
    """*router* before *workers*, on *cores*, and its URL, once it is ready. *binaries*: the `bin` of its environment.

    Raises:
        ChildFailedError: it ended first, or *timeout_s* passed.
    """
    place = Place(binaries, processes.directory, free_port(), free_port())
    command = router.command(place, workers)
    name = router.name.replace(" ", "-")
    child = processes.start(name, command, cores=cores, environment=router.environment())
    url = f"http://{HOST}:{place.port}"
    give_up_at = time.monotonic() + timeout_s
    while not router.is_ready(url, len(workers)):
        if child.has_ended:
            raise ChildFailedError(f"{name} ended before it was ready:\n{child.last_words()}")
        if time.monotonic() >= give_up_at:
            raise ChildFailedError(f"{name} is not ready after {timeout_s:g} s:\n{child.last_words()}")
        time.sleep(POLL_S)
    return child, url


def _family_flags(place: Place, workers: Sequence[str], policy: str, *, log_level: str) -> list[str]:
    """Return the common flags of SGLang's gateway and its two descendants."""
    return [
        *("--host", HOST, "--port", str(place.port), "--prometheus-port", str(place.metrics_port)),
        *("--worker-urls", *workers, "--policy", policy, "--log-level", log_level),
    ]


def _healthy_workers(url: str) -> int:
    """Return how many workers a router of SGLang's family considers healthy; 0 while it does not answer."""
    listed = _json_at(f"{url}/workers")
    workers = listed.get("workers", []) if isinstance(listed, dict) else []
    return sum(bool(worker.get("is_healthy")) for worker in workers)


def _json_at(url: str) -> Any:
    """Return the JSON at *url* if it answers 200, else None."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_S) as reply:
            return json.load(reply)
    except (urllib.error.URLError, OSError, ValueError):
        return None
