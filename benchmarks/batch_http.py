"""Lines of a batch over HTTP, and the same lines sent as ordinary requests in the order of their file, with the real
gateway and simulated workers in real time.

Groups of lines share a long prefix. In the file, no line follows one of its group. Both set-ups begin with cold caches,
and have equally many lines in flight. The time of the batch includes its upload and its validation, and ends when its
output file is complete.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from benchmarks.processes import ChildFailedError, Processes, free_port, start_gateway
from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude

ENDPOINT: Final = "/v1/completions"
SECRET, ADMIN = "key-of-the-team-with-the-batch", "key-of-the-owner-of-the-gateway"
LETTERS: Final = "etaoinshrdlcumpg"
"""Letters of which the simulated vocabulary makes one token from any four."""
CHARACTERS_PER_TOKEN: Final = 4
BLOCK_TOKENS: Final = 16
PER_WORKER: Final = 16
OUTPUT_TOKENS: Final = 10
MIN_SPEEDUP, MIN_HIT_SHARE = 2.4, 0.98
POLL_S: Final = 0.1
TIMEOUT_S: Final = 600.0


class BatchFailedError(Exception):
    """Error for a batch that did not complete."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Lines of *groups* groups, each with *lines* lines."""

    groups: int
    lines: int
    shared_tokens: int
    own_tokens: int

    @property
    def count(self) -> int:
        return self.groups * self.lines

    @property
    def boundless_hit(self) -> float:
        """Share of the prompt tokens that a cache without a limit would have."""
        shared = self.shared_tokens // BLOCK_TOKENS * BLOCK_TOKENS
        return (self.lines - 1) * shared / (self.lines * (self.shared_tokens + self.own_tokens))

    def bodies(self) -> list[dict[str, Any]]:
        """Return the bodies of all requests in the order of the file."""
        return [
            {
                "model": "tiny",
                "prompt": _words(group, self.shared_tokens) + _words(self.count + number, self.own_tokens),
                "max_tokens": OUTPUT_TOKENS,
                "ignore_eos": True,
            }
            for number, group in enumerate(list(range(self.groups)) * self.lines)
        ]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one set-up."""

    seconds: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    ledger: tuple[int, int, int]
    """Requests, prompt tokens and completion tokens in the sums of the ledger."""

    @property
    def hit(self) -> float:
        return self.cached_tokens / self.prompt_tokens


@contextmanager
def serving(options: argparse.Namespace) -> Iterator[str]:
    """Yield the URL of a gateway with new workers and a new store."""
    with Processes() as processes:
        flags = ["--port", "0", "--timing", "fifo", "--blocks", str(options.blocks)]
        command = [sys.executable, "-m", "gateway", "simulate", *flags]
        workers = [processes.start(f"worker{number}", command) for number in range(options.workers)]
        settings: dict[str, Any] = {
            "server": {"port": free_port()},
            "models": [{"name": "tiny", "workers": [{"url": each.wait_for_ready_line()} for each in workers]}],
            "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": SECRET}]}],
            "admin": {"keys": [{"id": "root", "role": "owner", "secret": ADMIN}]},
            "store": {"url": f"sqlite:///{processes.directory / 'store.db'}"},
            "files": {"folder": str(processes.directory / "files")},
            "batches": {"max_in_flight_per_worker": PER_WORKER},
            "health": {"metrics_interval_s": 0.5},
        }
        yield start_gateway(processes, settings)[1]


def a_client(url: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {SECRET}"}
    return httpx.AsyncClient(
        base_url=url, headers=headers, timeout=TIMEOUT_S, limits=httpx.Limits(max_connections=None)
    )


async def as_batch(client: httpx.AsyncClient, bodies: Sequence[dict[str, Any]]) -> tuple[float, list[dict[str, Any]]]:
    """Run *bodies* as a batch. Return the seconds that it took, and the usage of each answer.

    Raises:
        BatchFailedError: if the batch ended otherwise than completed, or did not end in time.
    """
    lines = [
        {"custom_id": str(number), "method": "POST", "url": ENDPOINT, "body": body}
        for number, body in enumerate(bodies)
    ]
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    begun = time.monotonic()
    file = await _json(client.post("/v1/files", files={"file": ("lines.jsonl", content)}, data={"purpose": "batch"}))
    wanted = {"input_file_id": file["id"], "endpoint": ENDPOINT, "completion_window": "24h"}
    batch = await _json(client.post("/v1/batches", json=wanted))
    while batch["status"] not in {"completed", "failed", "expired", "cancelled"}:
        if time.monotonic() - begun > TIMEOUT_S:
            raise BatchFailedError(f"the batch did not end in {TIMEOUT_S:g} s: {batch['request_counts']}")
        await asyncio.sleep(POLL_S)
        batch = await _json(client.get(f"/v1/batches/{batch['id']}"))
    seconds = time.monotonic() - begun
    if batch["status"] != "completed" or batch["request_counts"]["completed"] != len(bodies):
        raise BatchFailedError(f"the batch ended as {batch['status']}: {batch['request_counts']}")
    output = await client.get(f"/v1/files/{batch['output_file_id']}/content")
    return seconds, [json.loads(line)["response"]["body"]["usage"] for line in output.text.splitlines()]


async def in_file_order(
    client: httpx.AsyncClient, bodies: Sequence[dict[str, Any]], in_flight: int
) -> tuple[float, list[dict[str, Any]]]:
    """Send *bodies* as requests in their order, of which *in_flight* run at a time. Return the same as `as_batch`."""
    waiting, usages = iter(bodies), list[dict[str, Any]]()

    async def one_after_the_other() -> None:
        for body in waiting:
            usages.append((await _json(client.post(ENDPOINT, json=body)))["usage"])

    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(in_flight):
            tasks.create_task(one_after_the_other())
    return time.monotonic() - begun, usages


async def figures(client: httpx.AsyncClient, seconds: float, usages: Sequence[dict[str, Any]]) -> Figures:
    """Return the figures of a set-up, once the ledger has all of its requests."""
    give_up_at = time.monotonic() + TIMEOUT_S
    ledger = await _ledger(client)
    while ledger[0] < len(usages) and time.monotonic() < give_up_at:
        await asyncio.sleep(POLL_S)
        ledger = await _ledger(client)
    cached = sum((each.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for each in usages)
    prompts, answers = (sum(each[name] for each in usages) for name in ("prompt_tokens", "completion_tokens"))
    return Figures(seconds, prompts, cached, answers, ledger)


async def run(options: argparse.Namespace) -> Report:
    workload = Workload(options.groups, options.lines, options.shared_tokens, options.own_tokens)
    bodies = workload.bodies()
    with serving(options) as url:
        async with a_client(url) as client:
            filed = await figures(client, *await in_file_order(client, bodies, PER_WORKER * options.workers))
    with serving(options) as url:
        async with a_client(url) as client:
            batch = await figures(client, *await as_batch(client, bodies))
    return report_of(options, workload, filed, batch)


def report_of(options: argparse.Namespace, workload: Workload, filed: Figures, batch: Figures) -> Report:
    report = Report(
        "batch_http",
        "Lines of a batch over HTTP",
        Circumstances.observe(seed=None, packages=("fastapi", "uvicorn", "httpx", "msgspec")),
    )
    written = (workload.count, batch.prompt_tokens, batch.completion_tokens)
    hit_share = batch.hit / workload.boundless_hit
    report.bars = [
        Bar("speed of a batch, of that of the order of its file", filed.seconds / batch.seconds, ">=", MIN_SPEEDUP),
        Bar("hit rate of a batch, of that of a cache without limit", hit_share, ">=", MIN_HIT_SHARE),
        Bar(
            "difference of the ledger from the output: requests and tokens", _difference(batch.ledger, written), "<=", 0
        ),
    ]
    rows = [
        (name, each.seconds, each.hit, *each.ledger)
        for name, each in (("requests in the order of the file", filed), ("batch", batch))
    ]
    names = ("set-up", "seconds", "hit", "requests in the ledger", "prompt tokens", "completion tokens")
    report.tables = [Table("Runs", names, rows)]
    report.notes = [
        f"{workload.count:,} lines in {workload.groups:,} groups: {workload.shared_tokens:,} tokens that a group "
        f"shares, and {workload.own_tokens:,} of each line.",
        f"{options.workers} simulated workers of 10,000 prompt tokens per second, with a cache of "
        f"{options.blocks * BLOCK_TOKENS:,} tokens each, and {PER_WORKER} lines in flight per worker.",
        "The time of the batch includes its upload, its validation and its output file.",
    ]
    return report


def _difference(ledger: tuple[int, int, int], written: tuple[int, int, int]) -> int:
    return sum(abs(one - other) for one, other in zip(ledger, written, strict=True))


def _words(number: int, tokens: int) -> str:
    """Return a text of *tokens* tokens, which differs from those of other numbers in its first block."""
    word = "".join(LETTERS[number >> bits & 15] for bits in range(0, 24, 4)) + "et"
    return word * (tokens * CHARACTERS_PER_TOKEN // len(word))


async def _json(answer: Any) -> Any:
    response: httpx.Response = await answer
    response.raise_for_status()
    return response.json()


async def _ledger(client: httpx.AsyncClient) -> tuple[int, int, int]:
    found = await _json(client.get("/admin/v1/usage", headers={"authorization": f"Bearer {ADMIN}"}))
    total = found["total"]
    return total["requests"], total["prompt_tokens"], total["completion_tokens"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser("batch_http", __doc__ or "")
    parser.add_argument("--groups", type=int, default=60)
    parser.add_argument("--lines", type=int, default=10, help="per group (%(default)s)")
    parser.add_argument("--shared-tokens", type=int, default=1024)
    parser.add_argument("--own-tokens", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=1280, help="cache of a worker, in blocks of 16 tokens")
    options = parser.parse_args(arguments)
    faults = (ChildFailedError, BatchFailedError, httpx.HTTPError)
    return conclude("batch_http", lambda: asyncio.run(run(options)), results=options.results, cannot_run=faults)


if __name__ == "__main__":
    sys.exit(main())
