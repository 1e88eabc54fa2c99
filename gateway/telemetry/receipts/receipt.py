"""Receipt of a completed request: what was decided about it, why, and what came of it."""

import math
import struct
from typing import Any, Final, Literal

import msgspec

from gateway.proxy import decision
from gateway.telemetry.receipts import record as packed
from gateway.telemetry.receipts.record import Record
from routing.strategies import STRATEGIES

_HEAD: Final = struct.Struct(packed.HEAD)
_CANDIDATE: Final = struct.Struct(decision.CANDIDATE)
_SPAN: Final = struct.Struct("<2f")
_FLOAT: Final = struct.Struct("<f")
_COST_AT: Final = 24
"""Position of the cost among the numbers of a candidate, in bytes."""
_DURATION, _TTFT, _DECIDED, _QUEUED, _RANKED = 1, 3, 4, 5, -2
"""Positions of some of the numbers of a request."""

ANSWERED: Final = "answered"


class ReceiptCandidate(msgspec.Struct, frozen=True):
    """Worker that could have answered the request, with the predictions that the decision was made from."""

    worker: str
    rank: int
    """Position in the order in which the workers were to be tried. The chosen worker has rank 1."""
    hit_blocks: int
    hit_tokens: float
    """Number of prompt tokens that the worker was predicted to have in its cache."""
    hit_source: Literal["reported", "predicted"]
    wait_s: float
    """Predicted seconds until the worker could begin with the request."""
    prefill_s: float
    """Predicted seconds to compute the part of the prompt that is not cached."""
    load_s: float
    """Predicted seconds to load cached blocks that are not in GPU memory."""
    evicts_s: float
    """Expected seconds to recompute the cached blocks that the request evicts."""
    displaces_s: float
    """Expected seconds to recompute what other sessions lose, because a new session begins on this worker."""
    predicted_ttft_s: float
    """Predicted seconds from the decision to the first token."""
    cost_s: float
    """Cost of the request on this worker in seconds, in the cost model of prefix_aware. Strategies that do not rank by
    cost have it for comparison.
    """
    pulled_tokens: float
    """Number of tokens, among `hit_tokens`, that the worker was to pull from the host memory of another worker."""
    pending: int
    decodes: int
    why_not: str | None
    """Reason why the worker was not chosen, or None for the chosen worker."""


class ExcludedWorker(msgspec.Struct, frozen=True):
    """Worker that was not a candidate."""

    worker: str
    why_not: str


class AttemptReceipt(msgspec.Struct, frozen=True):
    backend: str
    outcome: str
    """`answered`, or the name of the error."""


class PhaseReceipt(msgspec.Struct, frozen=True):
    """Part of the time of a request. Phases of attempts can overlap with others."""

    name: str
    began_s: float
    """Seconds from the start of the request to the start of the phase."""
    duration_s: float | None
    """Length of the phase in seconds, or None if its end is unknown."""


class ReceiptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one completed request, without details. It contains no text of the request and no secret."""

    number: int
    """Number of the receipt on this gateway since startup."""
    id: str
    """Request id, as in the header `x-request-id` and in the request log."""
    time: float
    """Start of the request, in seconds since 1970."""
    team: str | None
    key: str | None
    model: str | None
    session: str | None
    """Session as workers receive it in the header `x-session-id`: a digest of the session's name if teams are
    configured. None if the request names no session.
    """
    stream: bool
    status: int
    error: str | None
    refused_by: str | None
    guardrails: tuple[str, ...]
    strategy: str | None
    reason: str | None
    chosen: str | None
    """Worker that the decision chose, or None if there was no decision or no candidate."""
    candidate_count: int
    """Number of candidates, of which a receipt lists the first ones and the one with the longest cache hit."""
    prefill_price: float | None
    """Factor on each second of prefill in the costs, from 1 for an idle fleet to 5 for a busy one."""
    attempt_count: int
    continued: int
    backend: str | None
    """Id of the backend that answered or was tried last."""
    served_by: str
    fell_back: bool
    prefill: str | None
    prefill_worker: str | None
    prompt_tokens: float
    """Number of prompt tokens that routing assumed, exact or estimated."""
    reported_prompt_tokens: int | None
    predicted_hit_tokens: float
    hit_source: Literal["reported", "predicted"]
    cached_tokens: int | None
    """Number of cached prompt tokens that the engine reported, or None."""
    completion_tokens: int | None
    prompt_blocks: int
    queued_s: float
    predicted_ttft_s: float | None
    ttft_s: float | None
    """Seconds to the first byte of a streamed answer, or None."""
    duration_s: float
    regret_s: float | None
    """Seconds by which the chosen worker cost more than the cheapest other candidate, with the cache hit that its
    engine reported in place of the predicted hit. None without a candidate. See `hindsight_cost_s`.
    """
    cost_usd: float
    saved_usd: float
    trace_id: str | None


class Receipt(ReceiptSummary, frozen=True, kw_only=True):
    """Everything that is kept about one completed request."""

    candidates: tuple[ReceiptCandidate, ...]
    excluded: tuple[ExcludedWorker, ...]
    attempts: tuple[AttemptReceipt, ...]
    phases: tuple[PhaseReceipt, ...]


def receipt_of(number: int, record: Record) -> Receipt:
    """Return the receipt *number* that was packed into *record*."""
    head, rare = _HEAD.unpack_from(record.numbers), record.rare
    return Receipt(
        **_summary(number, record, head),
        candidates=_candidates(record, head[_RANKED]),
        excluded=() if rare is None else tuple(ExcludedWorker(*each) for each in rare.excluded or ()),
        attempts=_attempts(record),
        phases=_phases(record, head),
    )


def summary_of(number: int, record: Record) -> ReceiptSummary:
    """Return the summary of the receipt *number* that was packed into *record*, which takes a fraction of the time."""
    return ReceiptSummary(**_summary(number, record, _HEAD.unpack_from(record.numbers)))


def _summary(number: int, record: Record, head: tuple[Any, ...]) -> dict[str, Any]:
    began_at, duration_s, status, *seconds, attempts, continued, _, flags = head
    ttft_s, _, queued_s, predicted_s, hindsight_s, price, hit_tokens, prompt_tokens, cost_usd, saved_usd = seconds[:10]
    reported, cached, completion, blocks, count = seconds[10:]
    rare = record.rare
    return {
        "number": number,
        "id": record.request_id.decode("ascii"),
        "time": round(began_at, 6),
        "team": record.team,
        "key": record.key,
        "model": record.model,
        "session": None if record.session is None else record.session.decode("ascii"),
        "stream": bool(flags & packed.STREAMS),
        "status": status,
        "error": record.error,
        "refused_by": None if rare is None else rare.refused_by,
        "guardrails": () if rare is None else rare.guardrails,
        "strategy": record.strategy,
        "reason": record.reason,
        "chosen": record.workers[0] if record.workers else None,
        "candidate_count": count,
        "prefill_price": _known(price),
        "attempt_count": attempts,
        "continued": continued,
        "backend": record.backend,
        "served_by": record.served_by,
        "fell_back": bool(flags & packed.FELL_BACK),
        "prefill": None if rare is None else rare.prefill,
        "prefill_worker": None if rare is None else rare.prefill_worker,
        "prompt_tokens": round(prompt_tokens, 1),
        "reported_prompt_tokens": None if reported < 0 else reported,
        "predicted_hit_tokens": round(hit_tokens, 1),
        "hit_source": _source(flags),
        "cached_tokens": None if cached < 0 else cached,
        "completion_tokens": None if completion < 0 else completion,
        "prompt_blocks": blocks,
        "queued_s": _seconds(queued_s),
        "predicted_ttft_s": _known(predicted_s),
        "ttft_s": _known(ttft_s),
        "duration_s": _seconds(duration_s),
        "regret_s": _regret_s(record, hindsight_s),
        "cost_usd": _significant(cost_usd),
        "saved_usd": _significant(saved_usd),
        "trace_id": None if rare is None or rare.trace_id is None else f"{rare.trace_id:032x}",
    }


def _candidates(record: Record, ranked: int) -> tuple[ReceiptCandidate, ...]:
    if not record.workers:
        return ()
    first = _candidate(record, 0, None)
    others = (
        _candidate(record, place, _why_not(record, place, ranked, first.cost_s))
        for place in range(1, len(record.workers))
    )
    return (first, *others)


def _regret_s(record: Record, hindsight_s: float) -> float | None:
    """Return the regret of a decision: the seconds by which the chosen worker cost more than the cheapest other one.

    The cost of the chosen worker is *hindsight_s*, and the costs of the other candidates are the predicted ones. The
    regret is 0 if no other candidate would have cost less, and also if there is no other candidate.
    """
    if not record.workers:
        return None
    others_s = [_cost_s(record, place) for place in range(1, len(record.workers))]
    return _seconds(max(0.0, hindsight_s - min(others_s, default=hindsight_s)))


def _candidate(record: Record, place: int, why_not: str | None) -> ReceiptCandidate:
    hit_tokens, wait_s, prefill_s, load_s, evicts_s, displaces_s, cost_s, pulled, blocks, *counts, flags = _numbers(
        record, place
    )
    rank, pending, decodes = counts
    return ReceiptCandidate(
        worker=record.workers[place],
        rank=rank,
        hit_blocks=blocks,
        hit_tokens=round(hit_tokens, 1),
        hit_source=_source(flags),
        wait_s=_seconds(wait_s),
        prefill_s=_seconds(prefill_s),
        load_s=_seconds(load_s),
        evicts_s=_seconds(evicts_s),
        displaces_s=_seconds(displaces_s),
        predicted_ttft_s=_seconds(wait_s + prefill_s),
        cost_s=_seconds(cost_s),
        pulled_tokens=round(pulled, 1),
        pending=pending,
        decodes=decodes,
        why_not=why_not,
    )


def _numbers(record: Record, place: int) -> tuple[Any, ...]:
    return _CANDIDATE.unpack_from(record.numbers, _HEAD.size + place * _CANDIDATE.size)


def _cost_s(record: Record, place: int) -> float:
    cost_s: float = _FLOAT.unpack_from(record.numbers, _HEAD.size + place * _CANDIDATE.size + _COST_AT)[0]
    return cost_s


def _why_not(record: Record, place: int, ranked: int, chosen_cost_s: float) -> str:
    """Return why the candidate at *place*, which is not the first, was not chosen."""
    *_, flags = _numbers(record, place)
    strategy = STRATEGIES.get(record.strategy or "")
    if place >= ranked:
        return "in a later pool of workers"
    if not flags & decision.ADMITS:
        return "warming up, with enough requests"
    if strategy is None or not strategy.ranks_by_cost:
        return "later in the order of the strategy"
    more_s = _seconds(_cost_s(record, place)) - chosen_cost_s
    if more_s > 0.0:
        return "higher cost"
    if more_s < 0.0 and strategy.is_late_bound:
        return "lower cost, but not free"
    return "equal cost" if more_s == 0.0 else "cost counted as equal"


def _attempts(record: Record) -> tuple[AttemptReceipt, ...]:
    failures = () if record.rare is None else record.rare.failures
    found = [AttemptReceipt(*each) for each in failures]
    ended_with_last_failure = record.error is not None and failures and failures[-1][0] == record.backend
    if record.backend is not None and not ended_with_last_failure:
        found.append(AttemptReceipt(record.backend, record.error or ANSWERED))
    return tuple(found)


def _phases(record: Record, head: tuple[Any, ...]) -> tuple[PhaseReceipt, ...]:
    """Return the phases of the request: those of the trace, or coarser ones if the request was not traced."""
    duration_s, queued_s = head[_DURATION], head[_QUEUED]
    ttft_s, decided_s = _known(head[_TTFT]), _known(head[_DECIDED])
    spans = None if record.rare is None else record.rare.spans
    if spans is not None:
        names, times = spans
        return tuple(
            PhaseReceipt(name, _seconds(began_s), _known(length_s))
            for name, (began_s, length_s) in zip(names, _SPAN.iter_unpack(times), strict=True)
        )
    if decided_s is None:
        return (PhaseReceipt("prepare", 0.0, _seconds(duration_s)),)
    queue_s = max(0.0, decided_s - queued_s)
    relay_s = duration_s if ttft_s is None else ttft_s
    found = [
        PhaseReceipt("prepare", 0.0, _seconds(queue_s)),
        PhaseReceipt("queue", _seconds(queue_s), _seconds(decided_s - queue_s)),
        PhaseReceipt("attempt", _seconds(decided_s), _seconds(relay_s - decided_s)),
    ]
    if ttft_s is not None:
        found.append(PhaseReceipt("relay", _seconds(ttft_s), _seconds(duration_s - ttft_s)))
    return tuple(found)


def _source(flags: int) -> Literal["reported", "predicted"]:
    return "reported" if flags & decision.REPORTED else "predicted"


def _seconds(seconds: float) -> float:
    """Round seconds to microseconds, because they are kept with seven digits."""
    return round(seconds, 6)


def _known(seconds: float) -> float | None:
    return None if math.isnan(seconds) else _seconds(seconds)


def _significant(usd: float) -> float:
    """Round an amount to the seven digits that are kept."""
    return float(f"{usd:.7g}")
