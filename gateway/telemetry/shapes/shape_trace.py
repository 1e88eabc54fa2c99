"""Recorded shapes as a trace that a replay reads.

The steps of a prompt become blocks of the trace. Steps in bytes of text are converted with the mean bytes per token of
all requests, so that prompts that share text share blocks. Prompts of sessions extend earlier prompts, and a session's
next request arrives some time after the answer before. So a request whose prompt extends an earlier one follows it, and
the blocks between the two prompts are those that the earlier answer filled.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.telemetry.shapes.shape import Shape
from replay.trace import Recorded, Trace
from replay.workload import SessionStart

MIN_BLOCK_TOKENS = 64
MAX_BLOCKS = 3_000_000
"""Maximum number of blocks of all prompts together. Blocks become larger until they are no more."""


@dataclass(frozen=True, slots=True)
class ShapeTrace:
    """A trace of shapes, and the sessions in it."""

    trace: Trace
    """All requests with their times of arrival, for an open loop."""
    sessions: Sequence[SessionStart]
    """The same requests by session: each after the first arrives some time after the answer before."""
    shapes: Sequence[Shape]
    """Shape of each request of the trace, by its number."""


def trace_of(shapes: Sequence[Shape]) -> ShapeTrace:
    """Return the trace of *shapes*, which are ordered by arrival.

    Raises:
        ValueError: there are no shapes.
    """
    if not shapes:
        raise ValueError("no requests were recorded in this time")
    block_tokens = MIN_BLOCK_TOKENS
    while sum(shape.prompt_tokens // block_tokens for shape in shapes) > MAX_BLOCKS:
        block_tokens *= 2
    blocks = _Blocks(shapes, block_tokens)
    begin = shapes[0].at
    requests = [
        Recorded(
            number,
            None,
            shape.at - begin,
            shape.prompt_tokens,
            shape.output_tokens,
            blocks.of(shape),
        )
        for number, shape in enumerate(shapes)
    ]
    previous = _previous(shapes)
    _fill_answers(requests, previous, block_tokens)
    sessions = _sessions(shapes, requests, previous)
    return ShapeTrace(Trace(block_tokens, False, requests), sessions, shapes)


class _Blocks:
    """Ids of the blocks of the trace, by the step and the depth that they end in."""

    def __init__(self, shapes: Sequence[Shape], block_tokens: int) -> None:
        measured = [shape for shape in shapes if shape.bytes_per_step]
        tokens = sum(shape.prompt_tokens for shape in measured)
        self._bytes_per_token = sum(shape.prompt_bytes for shape in measured) / tokens if tokens else 4.0
        self._block_tokens = block_tokens
        self._ids: dict[tuple[int, int, int], int] = {}

    def of(self, shape: Shape) -> tuple[int, ...]:
        """Return the ids of the full blocks of the prompt."""
        step_tokens = shape.tokens_per_step or shape.bytes_per_step / self._bytes_per_token
        spans = shape.steps.spans()
        ids = []
        span = 0
        table = id(shape.steps.table)
        for block in range(shape.prompt_tokens // self._block_tokens):
            # The step in which most of the block's end lies.
            step = max(0, round((block + 1) * self._block_tokens / step_tokens) - 1)
            if step >= shape.steps.count:
                ids.append(self._new())
                continue
            while span + 1 < len(spans) and spans[span + 1][0] <= step:
                span += 1
            depth, first = spans[span]
            ids.append(self._ids.setdefault((table, first + step - depth, block), len(self._ids)))
        return tuple(ids)

    def _new(self) -> int:
        """Return the id of a block that no other prompt has."""
        return self._ids.setdefault((0, len(self._ids), -1), len(self._ids))


def _previous(shapes: Sequence[Shape]) -> list[int | None]:
    """Return the number of the request that each request continues, or None if it continues none.

    A request continues the last one whose whole prompt it extends and that had ended when it arrived.
    """
    ended: dict[tuple[int, int], int] = {}
    found: list[int | None] = []
    for number, shape in enumerate(shapes):
        steps = shape.steps
        key = (id(steps.table), steps.parent)
        before = ended.get(key) if steps.parent and steps.count > steps.shared else None
        if before is not None and _follows(shape, shapes[before]):
            del ended[key]
        else:
            before = None
        found.append(before)
        if steps.count:
            ended[id(steps.table), steps.last] = number
    return found


def _follows(shape: Shape, earlier: Shape) -> bool:
    """Return whether *shape* can be the next turn after *earlier*, whose prompt it extends."""
    return earlier.at + earlier.duration_s <= shape.at and earlier.session == shape.session


def _fill_answers(requests: list[Recorded], previous: Sequence[int | None], block_tokens: int) -> None:
    """Set the blocks that answers fill, for each request that another one continues.

    The last blocks of the earlier prompt, in which its text ends and the template of the answer begins, are taken from
    the later prompt too.
    """
    for number in range(len(requests) - 1, -1, -1):
        before = previous[number]
        if before is None:
            continue
        earlier, blocks = requests[before], requests[number].blocks
        end = len(earlier.blocks)
        # An engine does not compute the last token that it generates.
        filled = (earlier.prompt_tokens + earlier.output_tokens - 1) // block_tokens
        whole = blocks[:end] if len(blocks) >= end else earlier.blocks
        requests[before] = dataclasses.replace(earlier, blocks=whole, answer_blocks=blocks[end:filled])


def _sessions(
    shapes: Sequence[Shape], requests: Sequence[Recorded], previous: Sequence[int | None]
) -> list[SessionStart]:
    """Return the requests by session. Requests that continue no other begin a session."""
    session_of: dict[int, list[Recorded]] = {}
    found: list[tuple[float, list[Recorded]]] = []
    for number, before in enumerate(previous):
        request = requests[number]
        if before is None:
            found.append((request.wait_s, [request]))
            session_of[number] = found[-1][1]
            continue
        waited_s = max(0.0, shapes[number].at - shapes[before].at - shapes[before].duration_s)
        session = session_of[number] = session_of.pop(before)
        session.append(dataclasses.replace(request, wait_s=waited_s))
    return [SessionStart(begins_s, session) for begins_s, session in found if math.isfinite(begins_s)]
