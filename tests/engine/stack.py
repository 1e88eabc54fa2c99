"""Two vLLM engines on the CPU, and the gateway program before them, as an operator would run them."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from openai import DefaultHttpxClient, OpenAI

from benchmarks.processes import Child, Processes, free_port, start_gateway
from tests.engine.environment import BIN, ENVIRONMENT

MODEL = "tiny"
CONTEXT_TOKENS = 16384
BLOCK_TOKENS = 32  # least that vLLM takes on a CPU
BLOCK_BYTES = 64
START_TIMEOUT_S = 300.0  # 40 s alone on a core, several times that on a busy machine
LOG_LINE_TIMEOUT_S = 2.0  # lines are written some at a time, moments after the answer
WORKER_HEADER = "x-warmgate-worker"
HIT_BLOCKS_HEADER = "x-warmgate-hit-blocks"

_RUNNING = re.compile(r"^vllm:num_requests_running\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stack:
    """The running programs, and clients of the gateway."""

    engines: Mapping[str, str]
    """URL of each engine by its name in `WORKER_HEADER`."""
    http: httpx.Client
    openai: OpenAI
    gateway: Child

    def line(self, request_id: str) -> dict[str, Any]:
        """The gateway's log line of one request."""
        give_up_at = time.monotonic() + LOG_LINE_TIMEOUT_S
        while time.monotonic() < give_up_at:
            for text in self.gateway.stdout.read_text(encoding="utf-8").splitlines():
                if request_id in text and text.endswith("}"):  # it may be only half written
                    line: dict[str, Any] = json.loads(text)
                    return line
            time.sleep(0.02)
        raise AssertionError(f"the gateway has logged no request {request_id}")

    def requests_running(self, engine: str) -> float:
        return sum(float(value) for value in _RUNNING.findall(self.http.get(f"{self.engines[engine]}/metrics").text))


@contextmanager
def stack(processes: Processes, model: Path) -> Iterator[Stack]:
    """Engines of the model in *model*, and the gateway; they stop with *processes*.

    Raises:
        ChildFailedError: one did not start; the end of what it printed stands in the text.
    """
    ports = {name: free_port() for name in ("engine-a", "engine-b")}
    started = {name: start_engine(processes, name, model, port) for name, port in ports.items()}
    for name, child in started.items():
        child.wait_for_port(ports[name], timeout_s=START_TIMEOUT_S)
    engines = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    gateway, url = start_gateway(processes, settings(engines))
    with ExitStack() as clients:
        # What the developer's environment says of proxies does not matter here.
        http = clients.enter_context(httpx.Client(base_url=url, timeout=60, trust_env=False))
        sdk_client = DefaultHttpxClient(trust_env=False)
        openai = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, http_client=sdk_client)
        yield Stack(engines, http, clients.enter_context(openai), gateway)


def start_engine(
    processes: Processes,
    name: str,
    model: Path,
    port: int,
    *,
    blocks: int = 1024,
    context_tokens: int = CONTEXT_TOKENS,
    events: tuple[int, int] | None = None,
) -> Child:
    """One engine, not ready yet. 1,024 blocks hold 32,768 tokens; one thread each, as two share a small machine.

    *events* are the ports at which it reports its cache, and replays what it reported.
    """
    structured_outputs = {"backend": "xgrammar", "disable_any_whitespace": True}
    flags = {
        "dtype": "float32",
        "served-model-name": MODEL,
        "host": "127.0.0.1",
        "port": str(port),
        "max-model-len": str(context_tokens),
        "block-size": str(BLOCK_TOKENS),
        "num-gpu-blocks-override": str(blocks),
        "tool-call-parser": "hermes",
        "root-path": "/openai",  # serves /openai/v1/chat/completions, as Bedrock does, beside /v1/chat/completions
        # Else this model, which knows no sense, fills JSON with blanks until its tokens run out.
        "structured-outputs-config": json.dumps(structured_outputs),
    }
    if events is not None:
        publisher = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{events[0]}",
            "replay_endpoint": f"tcp://*:{events[1]}",
        }
        flags["kv-events-config"] = json.dumps(publisher)
    switches = ("enforce-eager", "enable-prompt-tokens-details", "enable-auto-tool-choice")
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_ENABLE_RESPONSES_API_STORE": "1",  # else it forgets a response as soon as it is given
        "VLLM_ENFORCE_STRICT_TOOL_CALLING": "0",  # its structural tags know no way to forbid blanks
        "VLLM_CACHE_ROOT": str(ENVIRONMENT / "cache"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [str(BIN / "vllm"), "serve", str(model)]
    for flag, value in flags.items():
        command += [f"--{flag}", value]
    return processes.start(name, [*command, *(f"--{switch}" for switch in switches)], environment=environment)


def settings(engines: Mapping[str, str]) -> dict[str, Any]:
    """Those of a gateway before *engines*; what is not said keeps its default."""
    workers = [{"id": name, "url": url} for name, url in engines.items()]
    model = {"name": MODEL, "strategy": "prefix_aware", "strategy_header": True, "workers": workers}
    return {
        "server": {"port": 0},
        "models": [model],
        "index": {"block_bytes": BLOCK_BYTES},
        "routing": {"seed": 1},
    }
