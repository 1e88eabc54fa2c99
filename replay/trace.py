"""Recorded requests, as replays take them: lengths, and ids of blocks instead of text."""

import dataclasses
import gzip
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_NUMBER = 10**12
"""Numbers in a trace are below this limit."""


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
        return parse_trace(text, path.name)


def parse_trace(text: Iterable[str], name: str) -> Trace:
    """Return the trace in the lines *text*. Errors call it *name*, and name the line and the field.

    Raises:
        ValueError: it is empty, a line is not JSON, or a field is missing or not of its type.
    """
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(text, 1):
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(f"{name}: line {number} is not JSON") from None
        is_session = bool(lines and "requests" in lines[0])
        lines.append(parsed)
        fault = _fault_of_line(parsed, is_session=is_session if number > 1 else None)
        if fault is not None:
            raise ValueError(f"{name}: line {number} {fault}")
    if not lines:
        raise ValueError(f"{name} is empty")
    return _trace(lines)


def _fault_of_line(line: object, *, is_session: bool | None) -> str | None:
    """Return what is wrong with one line, or None. *is_session* is None for the first line, which decides it."""
    if not isinstance(line, dict):
        return "is not an object"
    if is_session is not None and is_session != ("requests" in line):
        return "has no field 'requests'" if is_session else "has the field 'requests', and the first line has not"
    if "requests" not in line:
        return _fault_of_request(line, "timestamp")
    return _fault_of_session(line)


def _fault_of_session(line: dict[str, Any]) -> str | None:
    if "session" not in line:
        return "has no field 'session'"
    if not isinstance(line["requests"], list) or not line["requests"]:
        return "has a field 'requests' that is not a list of requests"
    for place, request in enumerate(line["requests"]):
        fault = _fault_of_request(request, "think_s")
        if fault is not None:
            return f"requests[{place}] {fault}"
    return None


def _fault_of_request(request: object, time: str) -> str | None:
    if not isinstance(request, dict):
        return "is not an object"
    for field, least in ((time, 0), ("input_length", 1), ("output_length", 0)):
        if field not in request:
            return f"has no field '{field}'"
        value = request[field]
        types = (int, float) if field == time else (int,)
        if isinstance(value, bool) or not isinstance(value, types) or not least <= value < MAX_NUMBER:
            return f"has a field '{field}' that is not a number from {least} to {MAX_NUMBER:,}"
    if "hash_ids" not in request:
        return "has no field 'hash_ids'"
    ids = request["hash_ids"]
    if not isinstance(ids, list) or not all(type(block) is int and 0 <= block < 2**32 for block in ids):
        return "has a field 'hash_ids' with an id that is not a number below 2^32"
    return None


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
