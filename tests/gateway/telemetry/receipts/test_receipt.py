"""The readable form of a receipt."""

from typing import Any

import pytest

from gateway.protocol.usage import Usage
from gateway.telemetry.receipts.receipt import Receipt, receipt_of
from gateway.telemetry.receipts.record import Packer
from tests.gateway.examples import Clock, an_exchange
from tests.gateway.telemetry.receipts.examples import (
    SECONDS_OF_2026,
    a_decision,
    a_record,
    answered,
    warm_and_idle,
)
from tests.gateway.telemetry.trace_export.examples import a_trace
from tests.routing.examples import a_candidate


def the_receipt(**known: Any) -> Receipt:
    return receipt_of(7, a_record(answered(**known)))


def test_a_receipt_of_an_answered_request() -> None:
    receipt = the_receipt(session=b"s-1", cost_usd=0.1, saved_usd=0.025)

    assert (7, "r-1", SECONDS_OF_2026) == (receipt.number, receipt.id, receipt.time)
    assert ("blue", "ci", "tiny", "s-1") == (receipt.team, receipt.key, receipt.model, receipt.session)
    assert (200, None, True) == (receipt.status, receipt.error, receipt.stream)
    assert ("prefix_aware", "hit", "a", 2) == (
        receipt.strategy,
        receipt.reason,
        receipt.chosen,
        receipt.candidate_count,
    )
    assert (1000.0, 1000, 800.0, 800, 9) == (
        receipt.prompt_tokens,
        receipt.reported_prompt_tokens,
        receipt.predicted_hit_tokens,
        receipt.cached_tokens,
        receipt.completion_tokens,
    )
    assert (0.5, 1.5, 1.5, 2.0, 0.0) == (
        receipt.queued_s,
        receipt.predicted_ttft_s,
        receipt.ttft_s,
        receipt.duration_s,
        receipt.regret_s,
    )
    assert (0.1, 0.025) == (receipt.cost_usd, receipt.saved_usd)
    assert (None, (), (), None) == (receipt.trace_id, receipt.excluded, receipt.guardrails, receipt.refused_by)


def test_candidates_have_the_predictions_of_the_ranking() -> None:
    """Seconds at 1,000 tokens per second, with 0.01 s for each prefill."""
    first, second = the_receipt().candidates

    assert ("a", 1, 50, 800.0, "predicted") == (
        first.worker,
        first.rank,
        first.hit_blocks,
        first.hit_tokens,
        first.hit_source,
    )
    assert (0.25, 0.21, 0.46, 0.46) == (first.wait_s, first.prefill_s, first.predicted_ttft_s, first.cost_s)
    assert (1, 0, None) == (first.pending, first.decodes, first.why_not)
    assert ("b", 2, 1.01, "higher cost") == (second.worker, second.rank, second.cost_s, second.why_not)


@pytest.mark.parametrize(
    ("strategy", "others", "reserves", "why_not"),
    [
        ("prefix_aware", [a_candidate("b")], 0, "equal cost"),
        ("prefix_aware", [a_candidate("b", backlog_s=0.5)], 0, "higher cost"),
        ("prefix_aware", [a_candidate("b", hit_tokens=100.0)], 0, "cost counted as equal"),
        ("kv_aware", [a_candidate("b", hit_tokens=100.0)], 0, "lower cost, but not free"),
        ("prefix_aware", [a_candidate("b", admits=False)], 0, "warming up, with enough requests"),
        ("prefix_aware", [a_candidate("b")], 1, "in a later pool of workers"),
        ("round_robin", [a_candidate("b")], 0, "later in the order of the strategy"),
    ],
)
def test_why_a_candidate_was_not_chosen(strategy: str, others: list[Any], reserves: int, why_not: str) -> None:
    decision = a_decision(a_candidate("a"), *others, strategy=strategy, reserves=reserves)
    receipt = the_receipt(decision=decision, strategy=strategy)

    assert [None, why_not] == [candidate.why_not for candidate in receipt.candidates]


def test_the_rank_of_a_candidate_far_behind() -> None:
    order = [a_candidate(f"w{number}", hit_tokens=16.0 if number == 12 else 0.0) for number in range(1, 13)]
    receipt = the_receipt(decision=a_decision(*order))

    assert [("w7", 7), ("w12", 12)] == [(each.worker, each.rank) for each in receipt.candidates[-2:]]
    assert 12 == receipt.candidate_count


def test_attempts_end_with_the_backend_that_answered() -> None:
    receipt = the_receipt(failures=(("a", "ConnectFailed"),), backend="b", attempts=2)

    assert [("a", "ConnectFailed"), ("b", "answered")] == [(each.backend, each.outcome) for each in receipt.attempts]


def test_attempts_that_all_failed() -> None:
    """The last failure is also the error of the request, and is listed once."""
    failures = (("a", "ConnectFailed"), ("b", "UpstreamRefused"))
    receipt = the_receipt(failures=failures, backend="b", attempts=2, status=503, error="NoWorker")

    assert [("a", "ConnectFailed"), ("b", "UpstreamRefused")] == [
        (each.backend, each.outcome) for each in receipt.attempts
    ]


def test_an_attempt_that_broke_off() -> None:
    receipt = the_receipt(error="ReplyBroken")

    assert [("a", "ReplyBroken")] == [(each.backend, each.outcome) for each in receipt.attempts]


def test_phases_of_a_request_that_is_not_traced() -> None:
    """It waited half a second until the decision at 1 s, and the first byte came at 1.5 s."""
    assert [("prepare", 0.0, 0.5), ("queue", 0.5, 0.5), ("attempt", 1.0, 0.5), ("relay", 1.5, 0.5)] == [
        (phase.name, phase.began_s, phase.duration_s) for phase in the_receipt().phases
    ]


def test_phases_of_an_answer_that_is_not_streamed() -> None:
    assert [("prepare", 0.5), ("queue", 0.5), ("attempt", 1.0)] == [
        (phase.name, phase.duration_s) for phase in the_receipt(first_byte=None, streams=False).phases
    ]


def test_phases_of_a_traced_request_are_those_of_its_trace() -> None:
    clock = Clock(100.0)
    trace = a_trace(clock)
    trace.enter("authenticate")
    clock.now = 100.25
    trace.enter("receive")
    receipt = the_receipt(trace=trace)

    assert "00000000000000000000000000000abc" == receipt.trace_id
    assert [("authenticate", 0.0, 0.25), ("receive", 0.25, None)] == [
        (phase.name, phase.began_s, phase.duration_s) for phase in receipt.phases
    ]


def test_a_request_that_was_refused_before_any_decision() -> None:
    exchange = an_exchange(team="blue", status=429, error="LimitReached", refused_by="key/tokens_per_minute")
    receipt = receipt_of(0, Packer().record(exchange, 100.5, SECONDS_OF_2026))

    assert (429, "LimitReached", "key/tokens_per_minute") == (receipt.status, receipt.error, receipt.refused_by)
    assert (None, (), 0, ()) == (receipt.chosen, receipt.candidates, receipt.candidate_count, receipt.attempts)
    assert (None, None, None, None) == (
        receipt.regret_s,
        receipt.ttft_s,
        receipt.predicted_ttft_s,
        receipt.prefill_price,
    )
    assert [("prepare", 0.5)] == [(phase.name, phase.duration_s) for phase in receipt.phases]


def test_unreported_tokens_are_unknown() -> None:
    receipt = the_receipt(usage=Usage(1000, 9, None))

    assert (1000, None, 9) == (receipt.reported_prompt_tokens, receipt.cached_tokens, receipt.completion_tokens)
    nothing = the_receipt(usage=None)

    assert (None, None, None) == (
        nothing.reported_prompt_tokens,
        nothing.cached_tokens,
        nothing.completion_tokens,
    )


def test_excluded_workers_have_a_reason() -> None:
    decision = a_decision(*warm_and_idle())
    decision.excluded = [("c", "down")]

    assert [("c", "down")] == [(each.worker, each.why_not) for each in the_receipt(decision=decision).excluded]


def test_regret_is_what_the_missing_part_of_the_hit_cost() -> None:
    """Worker a cost 0.25 + 0.01 + 0.9 s in hindsight, and worker b 0.01 + 1.0 s."""
    assert 0.15 == the_receipt(usage=Usage(1000, 9, 100)).regret_s


def test_regret_of_a_strategy_that_ignores_costs() -> None:
    """Round robin chose b, and a would have been 1.01 - 0.46 s cheaper."""
    turned = a_decision(*reversed(warm_and_idle()), strategy="round_robin")

    assert 0.55 == the_receipt(decision=turned, backend="b", usage=Usage(1000, 9, 0)).regret_s


def test_regret_without_alternatives_or_candidates() -> None:
    alone = a_decision(a_candidate("a"))

    assert 0.0 == the_receipt(decision=alone, usage=Usage(1000, 9, 0)).regret_s
    assert the_receipt(decision=a_decision()).regret_s is None
