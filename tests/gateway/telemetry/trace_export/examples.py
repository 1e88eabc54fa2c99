"""Traces for the tests of their export: one request that was answered by its second worker."""

from typing import Any

from cache_index import WorkerId
from gateway.protocol.errors import ConnectFailed
from gateway.protocol.usage import Usage
from gateway.proxy.exchange import Exchange
from gateway.proxy.tracing.context import Context
from gateway.proxy.tracing.trace import Trace
from gateway.telemetry.trace_export.delivery import CompletedTrace
from routing.booking import Ending
from routing.candidate import Candidate, Load
from routing.dispatcher import Dispatch
from tests.gateway.examples import Clock, a_call, an_exchange
from tests.routing.examples import a_request

PARENT = Context(0xABC, 0xDEF, is_sampled=True, state=b"shop=1")
WALL_S = 1_767_225_600.0
"""The beginning of 2026, UTC."""


def a_trace(clock: Clock | None = None, parent: Context | None = None, **more: Any) -> Trace:
    """One that began at 100 s; its spans are numbered from 1, the request's own first."""
    numbers = iter(range(1, 1000))
    return Trace(
        0xABC, parent, began=100.0, wall_s=WALL_S, clock=clock or Clock(), new_span_id=lambda: next(numbers), **more
    )


def a_candidate(name: str, *, hit_tokens: float = 0.0, backlog_s: float = 0.0) -> Candidate:
    load = Load(
        backlog_s=backlog_s,
        pending=1,
        decodes=2,
        busy_share=0.5,
        prefill_overhead_s=0.01,
        prefill_s_per_token=0.001,
        decode_s_per_token=0.0001,
    )
    return Candidate(WorkerId(name), hit_blocks=int(hit_tokens // 16), hit_tokens=hit_tokens, load=load)


def a_dispatch(*candidates: Candidate) -> Dispatch:
    return Dispatch(a_request("abcd"), list(candidates), None, "hit", "prefix_aware")


def answered(exchange: Exchange | None = None, parent: Context | None = None, **more: Any) -> CompletedTrace:
    """A request with two attempts, 1 s each, that ended at 103 s."""
    clock = Clock(100.0)
    trace = a_trace(clock, parent, **more)
    trace.enter("queue")
    dispatch = a_dispatch(a_candidate("a", hit_tokens=48.0), a_candidate("b", backlog_s=0.5))
    clock.now = 101.0
    trace.dispatched(dispatch)
    trace.attempt(a_call(), "a", "worker", "http://10.0.0.5:8000")
    trace.booked(dispatch.request, dispatch.order[0], None)
    clock.now = 102.0
    trace.failed(ConnectFailed("connection refused"))
    trace.end_attempt(Ending.FAILED)
    trace.attempt(a_call(), "b", "worker", "https://b.example.com")
    clock.now = 102.5
    trace.first_byte(200)
    clock.now = 103.0
    trace.end_attempt(Ending.ANSWERED)
    known = {"model": "tiny", "backend": "b", "status": 200, "usage": Usage(64, 9, 48), "first_byte": 102.5}
    exchange = exchange or an_exchange(**known, attempts=2, strategy="prefix_aware", reason="hit", cost_usd=0.25)
    exchange.trace = trace
    return CompletedTrace(exchange, trace, 103.0)
