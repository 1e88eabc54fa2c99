"""Recorded requests, as replays take them: lengths, and ids of blocks instead of text."""

import dataclasses
import gzip
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request of a trace."""

    number: int
    session: str | None
    wait_s: float
    """Open loop: from the beginning of the trace. Closed loop: from the answer before."""
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    """Ids of the full blocks of the prompt; an id stands for its block and all before it."""
    answer_blocks: tuple[int, ...] = ()
    """Ids of the further full blocks that its answer fills; nothing where no one can ask for them."""
    group: str | None = None
    """Group of sub-agents to which the session of the request belongs; None for a session of its own."""
    spawns: str | None = None
    """Group of sub-agents that begins with the answer. The next request of the session waits for all their answers."""


@dataclass(frozen=True, slots=True)
class Trace:
    block_tokens: int
    is_closed_loop: bool
    requests: Sequence[Recorded]

    def part(self, skip: int, limit: int | None) -> "Trace":
        """Return the trace without the first *skip* requests, or sessions, and with at most *limit* of the others.

        An open loop then begins with its first request.

        Raises:
            ValueError: nothing is left.
        """
        asked = list(itertools.islice(self._lines(), skip, None if limit is None else skip + limit))
        requests = [request for line in asked for request in line]
        if not requests:
            raise ValueError(f"nothing is left of the trace after the first {skip}")
        if self.is_closed_loop:
            return Trace(self.block_tokens, True, requests)
        begin_s = requests[0].wait_s
        shifted = [dataclasses.replace(request, wait_s=request.wait_s - begin_s) for request in requests]
        return Trace(self.block_tokens, False, shifted)

    def _lines(self) -> Iterator[list[Recorded]]:
        """Yield the requests of each line, and of a session together with those of its sub-agents."""
        if not self.is_closed_loop:
            return ([request] for request in self.requests)
        return with_sub_agents(self.requests)


def with_sub_agents(requests: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    """Yield the requests of each session together with those of its sub-agents, which follow it in the trace."""
    found: list[Recorded] = []
    for request in requests:
        if found and request.group is None and request.session != found[0].session:
            yield found
            found = []
        found.append(request)
    if found:
        yield found


def read_trace(path: Path) -> Trace:
    """A trace of one request, or one session, per line; plain or gzipped.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON, or lacks a field.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        lines: list[dict[str, Any]] = [json.loads(line) for line in text]
    if not lines:
        raise ValueError(f"{path.name} is empty")
    try:
        return _trace(lines)
    except KeyError as missing:
        raise ValueError(f"{path.name}: a line has no field {missing}") from missing


def _trace(lines: list[dict[str, Any]]) -> Trace:
    is_closed_loop = "requests" in lines[0]
    asked = lines
    if is_closed_loop:
        asked = [
            {**request, "session": line["session"], "group": line.get("group")}
            for line in lines
            for request in line["requests"]
        ]
    # Every full block has an id, a partial one at the end may have: what is left over never makes a block.
    least = max(request["input_length"] / (len(request["hash_ids"]) + 1) for request in asked)
    block_tokens = 2 ** math.ceil(math.log2(least))
    return Trace(block_tokens, is_closed_loop, [_recorded(*one, block_tokens) for one in enumerate(asked)])


def _recorded(number: int, request: dict[str, Any], block_tokens: int) -> Recorded:
    return Recorded(
        number,
        request.get("session"),
        request["think_s"] if "think_s" in request else request["timestamp"] / 1000,
        request["input_length"],
        max(1, request["output_length"]),
        tuple(request["hash_ids"][: request["input_length"] // block_tokens]),
        group=request.get("group"),
        spawns=request.get("spawns"),
    )


def boundless_hit_rate(trace: Trace) -> float:
    """Share of all prompt tokens that one cache without limit would have held, in the order of the trace."""
    seen: set[int] = set()
    hit = 0
    for request in trace.requests:
        leading = next((i for i, block in enumerate(request.blocks) if block not in seen), len(request.blocks))
        # An engine computes at least the last token of a prompt.
        hit += min(leading, (request.prompt_tokens - 1) // trace.block_tokens) * trace.block_tokens
        seen.update(request.blocks)
    return hit / sum(request.prompt_tokens for request in trace.requests)
