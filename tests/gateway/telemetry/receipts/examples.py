"""Completed requests and records for the tests of receipts."""

from typing import Any

from gateway.protocol.usage import Usage
from gateway.proxy.decision import Decision
from gateway.proxy.exchange import Exchange
from gateway.telemetry.receipts.record import Packer, Record
from routing.candidate import Candidate
from routing.dispatcher import Dispatch
from tests.gateway.examples import an_exchange
from tests.routing.examples import a_candidate, a_fleet, a_request

SECONDS_OF_2026 = 1_767_225_600.0


def a_decision(
    *order: Candidate, strategy: str = "prefix_aware", prompt_tokens: float = 1000.0, reserves: int = 0
) -> Decision:
    """A decision at 101 s about a prompt of 1,000 tokens; workers prefill 1,000 tokens per second."""
    request = a_request("abcd", prompt_tokens=prompt_tokens, output_tokens=0.0)
    return Decision(Dispatch(request, list(order), None, "hit", strategy, reserves), a_fleet(), 101.0)


def warm_and_idle() -> list[Candidate]:
    """Worker a has 800 of the tokens, worker b is idle and has none."""
    return [a_candidate("a", hit_tokens=800.0, hit_blocks=50, backlog_s=0.25, pending=1), a_candidate("b")]


def answered(**known: Any) -> Exchange:
    """A request from 100 s on, answered by worker a, with its decision among `warm_and_idle`."""
    facts: dict[str, Any] = {
        "team": "blue",
        "key": "ci",
        "model": "tiny",
        "strategy": "prefix_aware",
        "reason": "hit",
        "streams": True,
        "backend": "a",
        "hit_tokens": 800.0,
        "hit_source": "predicted",
        "prompt_tokens": 1000.0,
        "prompt_blocks": 62,
        "queued_s": 0.5,
        "predicted_ttft_s": 1.5,
        "attempts": 1,
        "status": 200,
        "first_byte": 101.5,
        "usage": Usage(1000, 9, 800),
        "decision": a_decision(*warm_and_idle()),
    }
    return an_exchange(**facts | known)


def a_record(exchange: Exchange | None = None, *, ended: float = 102.0) -> Record:
    return Packer().record(exchange or answered(), ended, SECONDS_OF_2026)
