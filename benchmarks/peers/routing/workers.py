"""Simulated workers of one run, started with cold caches, and their own counts."""

import re
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.processes import Child, Processes

BLOCK_TOKENS = 16
SCRAPE_S = 10.0
STREAM_INTERVAL = 8
"""Output tokens per event of a stream, like vLLM's option of this name. Fewer events save processor time."""
_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a worker. Token counts are reduced in the same way as prompts."""

    count: int
    blocks: int
    """KV cache size of one worker, in blocks of `BLOCK_TOKENS`."""
    prefill_tokens_per_s: float
    tpot_ms: float
    timing: str
    speed: float
    """Seconds of the workers per real second."""

    def command(self) -> list[str]:
        flags = {
            "--port": 0,
            "--blocks": self.blocks,
            "--block-size": BLOCK_TOKENS,
            "--prefill-tokens-per-s": f"{self.prefill_tokens_per_s:g}",
            "--tpot-ms": f"{self.tpot_ms:g}",
            "--timing": self.timing,
            "--speed": f"{self.speed:g}",
            "--stream-interval": STREAM_INTERVAL,
            "--kv-events-port": 0,
            "--replay-port": 0,
        }
        # Who wants the tokens of a chat may ask for them, as vllm-router does.
        start = [sys.executable, "-m", "gateway", "simulate", "--enable-scale-out"]
        return start + [str(word) for flag in flags.items() for word in flag]


@dataclass(frozen=True, slots=True)
class Work:
    """Work that one worker has done since its start, from its own metrics."""

    requests: int
    """Number of completed requests."""
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def computed_tokens(self) -> int:
        """Return the number of computed prompt tokens."""
        return self.prompt_tokens - self.cached_tokens


class Workers:
    """Running workers in the order of their URLs."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = children
        self.urls = [child.wait_for_ready_line() for child in children]

    @classmethod
    def start(cls, processes: Processes, options: WorkerOptions) -> "Workers":
        """Start the workers. Raises ChildFailedError if one of them does not start."""
        return cls([processes.start(f"worker{number}", options.command()) for number in range(options.count)])

    def work(self) -> list[Work]:
        return [work_of(_metrics(url)) for url in self.urls]

    def cpu_s(self) -> float:
        """Return the processor seconds of all workers since their start."""
        return sum(child.cpu_s() for child in self.children)


def work_of(exposition: str) -> Work:
    """Return the work from vLLM's metrics (vllm/v1/metrics/loggers.py)."""
    totals: dict[str, float] = {}
    for name, value in _SAMPLE.findall(exposition):
        totals[name] = totals.get(name, 0.0) + float(value)
    return Work(
        int(totals["vllm:request_success_total"]),
        int(totals["vllm:prefix_cache_queries_total"]),
        int(totals["vllm:prefix_cache_hits_total"]),
        int(totals["vllm:generation_tokens_total"]),
    )


def since(before: Sequence[Work], after: Sequence[Work]) -> list[Work]:
    """Return the work between two readings of the same workers."""
    return [
        Work(
            b.requests - a.requests,
            b.prompt_tokens - a.prompt_tokens,
            b.cached_tokens - a.cached_tokens,
            b.output_tokens - a.output_tokens,
        )
        for a, b in zip(before, after, strict=True)
    ]


def _metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=SCRAPE_S) as reply:
        text: str = reply.read().decode()
    return text
