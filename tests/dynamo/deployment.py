"""A Dynamo deployment on this machine: one frontend, mocked workers that come and go, and the gateway before them."""

import json
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import Child, Processes, free_port, start_gateway
from simulator.tokenizer_folder import write_tokenizer
from simulator.vocabulary import MARKS, mark_id
from tests.dynamo.environment import PYTHON, is_installed

MODEL = "tiny"
BLOCK_TOKENS = 16
BLOCKS = 512
TIMEOUT_S = 90.0
_PLANES = ("--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq")


@dataclass(frozen=True, slots=True)
class Mocker:
    """One worker of Dynamo's, by the instance id that it has got."""

    id: str
    events_port: int
    replay_port: int
    child: Child

    def in_settings(self) -> dict[str, Any]:
        events = {
            "endpoint": f"tcp://127.0.0.1:{self.events_port}",
            "replay_endpoint": f"tcp://127.0.0.1:{self.replay_port}",
        }
        return {"id": self.id, "kv_events": events}


@dataclass(slots=True)
class Deployment:
    """A frontend, and the workers behind it."""

    processes: Processes
    url: str
    model: Path
    environment: dict[str, str]
    mockers: list[Mocker] = field(default_factory=list)

    def instances(self) -> set[str]:
        try:
            reported = httpx.get(f"{self.url}/health", timeout=5, trust_env=False).json()["instances"]
        except (httpx.HTTPError, ValueError, KeyError):
            return set()
        return {str(each["instance_id"]) for each in reported if each["endpoint"] == "generate"}

    def _serves(self) -> bool:
        """Whether the frontend knows the model: that takes a moment longer."""
        listed = httpx.get(f"{self.url}/v1/models", timeout=5, trust_env=False).json()["data"]
        return MODEL in {card["id"] for card in listed}

    def start(self, *, ranks: int = 1) -> Mocker:
        """One more worker; it is known to the frontend then."""
        before = self.instances()
        events = free_ports(2 * ranks)
        replay = events + ranks
        options = {
            "model-path": str(self.model),
            "model-name": MODEL,
            "num-workers": "1",
            "data-parallel-size": str(ranks),
            "block-size": str(BLOCK_TOKENS),
            "num-gpu-blocks-override": str(BLOCKS),
            "speedup-ratio": "100",
            "zmq-kv-events-ports": str(events),
            "zmq-replay-ports": str(replay),
        }
        command = [str(PYTHON), "-m", "dynamo.mocker", *_PLANES]
        for name, value in options.items():
            command += [f"--{name}", value]
        child = self.processes.start(f"mocker-{len(self.mockers)}", command, environment=self.environment)
        until(lambda: len(self.instances() - before) == 1, f"a worker behind the frontend:\n{child.last_words()}")
        (number,) = self.instances() - before
        until(self._serves, f"the model behind the frontend:\n{child.last_words()}")
        mocker = Mocker(number, events, replay, child)
        self.mockers.append(mocker)
        return mocker


@dataclass(frozen=True, slots=True)
class Answer:
    worker: str
    instance: str
    rank: int
    predicted: int
    cached: int


class Site:
    """A gateway before *deployment*."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def ask(self, text: str, **more: Any) -> Answer:
        """One chat, and who answered it."""
        messages = [{"role": "user", "content": text}]
        body = {"model": MODEL, "messages": messages, "max_tokens": 4, "nvext": {"extra_fields": ["worker_id"]}}
        reply = self.http.post("/v1/chat/completions", json=body | more)
        assert 200 == reply.status_code, reply.text
        answer = reply.json()
        who = answer["nvext"]["worker_id"]
        return Answer(
            reply.headers["x-warmgate-worker"],
            str(who["decode_worker_id"]),
            who["decode_dp_rank"],
            int(reply.headers["x-warmgate-hit-tokens"]),
            answer["usage"]["prompt_tokens_details"]["cached_tokens"],
        )

    def metric(self, name: str) -> dict[str, float]:
        """The samples of one metric by their labels."""
        text = self.http.get("/metrics").text
        return {labels: float(value) for labels, value in re.findall(rf"^{name}(\S*) (\S+)$", text, re.MULTILINE)}

    def up(self) -> set[str]:
        """Workers that are."""
        found = self.metric("warmgate_worker_up")
        return {re.findall(r'worker="([^"]*)"', labels)[0] for labels, value in found.items() if value}

    def wait_until_reported(self, workers: int) -> None:
        """Until what so many engines tell is relied on, and the checks of the start are over."""
        until(
            lambda: sum(self.metric("warmgate_worker_kv_events_live").values()) == workers,
            "the engines' events",
            lambda: self.metric("warmgate_kv_stream_state"),
        )
        self.wait_until_quiet()

    def wait_until_quiet(self) -> None:
        """Until nothing has been reported for a while."""
        before = None
        while before != (now := self.metric("warmgate_kv_stream_sequence")):
            before = now
            time.sleep(0.3)


@contextmanager
def deployed(processes: Processes, folder: Path) -> Iterator[Deployment]:
    """A frontend that no one stands behind yet. Its parts find each other through files in *folder*."""
    if not is_installed():
        pytest.exit("Dynamo is not installed here: python -m tests.dynamo.environment", returncode=2)
    model = folder / "model"
    write_model(model)
    environment = {
        "DYN_FILE_KV": str(folder / "discovery"),
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_REQUEST_PLANE": "tcp",
        "HF_HUB_OFFLINE": "1",
        "DYN_LOG": "warn",
    }
    port = free_port()
    address = ("--http-host", "127.0.0.1", "--http-port", str(port))
    command = [str(PYTHON), "-m", "dynamo.frontend", *address, "--router-mode", "kv", *_PLANES]
    frontend = processes.start("frontend", command, environment=environment)
    frontend.wait_for_port(port, timeout_s=TIMEOUT_S)
    yield Deployment(processes, f"http://127.0.0.1:{port}", model, environment)


@contextmanager
def fronted(
    deployment: Deployment, worker: dict[str, Any], *, strategy: str = "round_robin", name: str
) -> Iterator[Site]:
    """The gateway program with the frontend as the *worker* of its model, for the length of the block."""
    settings: dict[str, Any] = {
        "server": {"port": 0},
        "models": [
            {
                "name": MODEL,
                "strategy": strategy,
                "allowed_engine_fields": ["nvext"],  # by which the frontend says who answered
                "workers": [{"url": deployment.url, "id": "dynamo", **worker}],
                "tokenizer": {"path": str(deployment.model), "budget_s": 10.0},
            }
        ],
        "health": {"timeout_s": 5},
        "routing": {"seed": 1},
    }
    child, url = start_gateway(deployment.processes, settings, name=name)
    try:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            yield Site(http)
    finally:
        child.stop()


def free_ports(count: int) -> int:
    """The first of so many in a row. Below those that Linux gives out by itself, which somebody may get meanwhile."""
    while True:
        first = random.randrange(20_000, 30_000)
        with ExitStack() as sockets:
            try:
                for port in range(first, first + count):
                    sockets.enter_context(socket.create_server(("0.0.0.0", port)))  # as the mocker binds it
            except OSError:
                continue
            return first


def write_model(folder: Path) -> None:
    """What the frontend reads of a model: the simulator's tokenizer and template, and a configuration beside them."""
    write_tokenizer(folder)
    configuration = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": max(map(mark_id, MARKS)) + 1,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": BLOCKS * BLOCK_TOKENS,
        "eos_token_id": mark_id(MARKS[-1]),
    }
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    generation = {"eos_token_id": mark_id(MARKS[-1])}
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")


def until(holds: Callable[[], bool], what: str, instead: Callable[[], object] = lambda: "") -> None:
    """Wait until it *holds*; *instead* says what is the case, if it does not in time."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < give_up_at, f"in vain for {TIMEOUT_S:g} s: {what} {instead()}"
        time.sleep(0.1)
