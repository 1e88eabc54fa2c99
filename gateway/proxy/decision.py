"""Record of a routing decision, kept for the receipt of the request: the candidates in the order of their ranking."""

from typing import Final

from librt.strings import BytesWriter, write_f32_le, write_i16_le, write_i32_le

from cache_index.native import mypyc_attr
from routing.candidate import Candidate, WhyNot
from routing.dispatcher import Dispatch
from routing.explanation import prefill_s
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.prefix_aware import cost_s, price_of

MAX_CANDIDATES: Final = 8
"""Maximum number of candidates to keep. If there are more, these are the first ones and the one with the longest cache
hit.
"""
MAX_EXCLUDED: Final = 8
"""Maximum number of excluded workers to keep."""
CANDIDATE: Final = "<8fi3hB"
"""Format of the numbers of a candidate, for the module `struct`: cached tokens, then seconds, then counts, and flags.
See `_write` for the order.
"""
ADMITS: Final = 1
REPORTED: Final = 4
"""Flag of a predicted hit that comes from the engine's cache events."""
UNKNOWN: Final = float("nan")
"""Seconds that are not known."""
_MAX_I32: Final = 2**31 - 1
_MAX_I16: Final = 2**15 - 1


@mypyc_attr(acyclic=True)
class Decision:
    """Candidates and excluded workers of one dispatch, in about 400 bytes, so that a stream of minutes can afford it.

    The candidates are packed when they are decided on. To keep the objects until the end of the request would cost a
    busy gateway more than to pack them, because the memory would no longer be in the caches of the core.
    """

    __slots__ = (
        "at",
        "chosen_cost_s",
        "chosen_hit_tokens",
        "chosen_prefill_s_per_token",
        "count",
        "excluded",
        "numbers",
        "price",
        "prompt_tokens",
        "ranked",
        "workers",
    )

    def __init__(self, dispatch: Dispatch, fleet: Fleet, at: float) -> None:
        """Keep the decision *dispatch* of *fleet*, made at the monotonic time *at* in seconds."""
        order, request = dispatch.order, dispatch.request
        self.at = at
        self.prompt_tokens = request.prompt_tokens
        self.count = len(order)
        """Number of candidates, including those that are not kept."""
        self.ranked = len(order) - dispatch.reserves
        """Number of candidates that the strategy ranked. The others belong to later pools of workers."""
        self.price = price_of(order[0].load.busy_share) if order else 1.0
        """Factor on each second of prefill in the cost of the first candidate, which grows with its worker's load."""
        self.chosen_cost_s = UNKNOWN
        """Cost of the first candidate, the chosen one, or NaN without candidates."""
        self.chosen_hit_tokens = order[0].hit_tokens if order else 0.0
        self.chosen_prefill_s_per_token = order[0].load.prefill_s_per_token if order else 0.0
        self.excluded: list[tuple[str, WhyNot]] | None = None
        """Workers that were not candidates, each with the reason, or None if all workers were candidates."""
        if len(order) < fleet.size:
            self.excluded = fleet.left_out(request, order, MAX_EXCLUDED)
        last_rank = len(order)
        if len(order) > MAX_CANDIDATES:
            last_rank = _rank_of_longest_hit(order)
            order = [*order[: MAX_CANDIDATES - 1], order[last_rank - 1]]
        self.workers: tuple[str, ...] = tuple([candidate.worker for candidate in order])
        """Kept candidates, in the order in which they were to be tried."""
        self.numbers = self._packed(request, order, last_rank)
        """Numbers of the kept candidates, each in the format `CANDIDATE`."""

    def _packed(self, request: Request, kept: list[Candidate], last_rank: int) -> bytes:
        """Return the numbers of the *kept* candidates, of which the last one has the rank *last_rank*."""
        writer = BytesWriter()
        rank, last = 1, len(kept)
        for candidate in kept:
            candidate_cost_s = cost_s(request, candidate)
            if rank == 1:
                self.chosen_cost_s = candidate_cost_s
            _write(writer, request, candidate, candidate_cost_s, rank if rank != last else last_rank)
            rank += 1
        return writer.getvalue()


def _write(writer: BytesWriter, request: Request, candidate: Candidate, candidate_cost_s: float, rank: int) -> None:
    load = candidate.load
    write_f32_le(writer, candidate.hit_tokens)
    write_f32_le(writer, load.backlog_s)
    write_f32_le(writer, prefill_s(request, candidate))
    write_f32_le(writer, candidate.load_s)
    write_f32_le(writer, candidate.evicts_s)
    write_f32_le(writer, candidate.displaces_s)
    write_f32_le(writer, candidate_cost_s)
    write_f32_le(writer, 0.0 if candidate.pull is None else candidate.pull.tokens)
    write_i32_le(writer, min(candidate.hit_blocks, _MAX_I32))
    write_i16_le(writer, min(rank, _MAX_I16))
    write_i16_le(writer, min(load.pending, _MAX_I16))
    write_i16_le(writer, min(load.decodes, _MAX_I16))
    flags = ADMITS if candidate.admits else 0
    if candidate.source == "reported":
        flags |= REPORTED
    writer.append(flags)


def _rank_of_longest_hit(order: list[Candidate]) -> int:
    """Return the position of the longest cache hit in *order*, or `MAX_CANDIDATES` if that is among the first."""
    hits = [candidate.hit_blocks for candidate in order]
    return max(MAX_CANDIDATES, hits.index(max(hits)) + 1)
