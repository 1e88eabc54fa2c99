"""The decision which requests are traced."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.incoming import Incoming
from gateway.proxy.tracing.tracer import Tracer, Tracers
from tests.gateway.asgi import Caller
from tests.gateway.examples import Clock

SAMPLED = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def a_tracer(ratio: float, **more: Any) -> Tracer:
    given_: dict[str, Any] = {
        "max_content_bytes": 100,
        "keeps_content": lambda _: False,
        "may_keep_content": False,
        "clock": Clock(100.5),
        "wall_clock": Clock(1000.0),
        "rng": random.Random(7),
    }
    return Tracer(ratio, **(given_ | more))


def incoming(*headers: tuple[bytes, bytes]) -> Incoming:
    caller = Caller(headers=list(headers))
    return Incoming(caller.scope, caller.receive)


def upstream(request: Incoming) -> dict[bytes, bytes]:
    return dict(request.upstream_headers(b"r-1", b"application/json"))


def test_a_ratio_of_zero_traces_nothing() -> None:
    assert Tracers().current is None


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_the_decision_of_a_caller_is_followed(ratio: float) -> None:
    """The ratio does not matter."""
    traced = a_tracer(ratio).begin(incoming((b"traceparent", SAMPLED), (b"tracestate", b"a=1")), 100.0)
    request = incoming((b"traceparent", SAMPLED[:-2] + b"00"))

    assert traced is not None
    assert traced.parent is not None
    assert (0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, b"a=1") == (
        traced.trace_id,
        traced.parent.span_id,
        traced.parent.state,
    )
    assert a_tracer(ratio).begin(request, 100.0) is None
    assert SAMPLED[:-2] + b"00" == upstream(request)[b"traceparent"]


@given(ratio=st.floats(0, 1), seed=st.integers(0, 1000))
def test_the_ratio_decides_by_the_low_half_of_the_id(ratio: float, seed: int) -> None:
    """OpenTelemetry's `TraceIdRatioBased` does the same, so that all samplers decide alike."""
    request = incoming()
    trace = a_tracer(ratio, rng=random.Random(seed)).begin(request, 100.0)
    trace_id = random.Random(seed).getrandbits(128)

    assert (trace_id & (2**64 - 1) < round(ratio * 2**64)) == (trace is not None)
    if trace is not None:
        assert (trace_id, None) == (trace.trace_id, trace.parent)
        assert b"traceparent" not in upstream(request)
    else:
        assert b"00-%032x-" % trace_id == upstream(request)[b"traceparent"][:36]
        assert upstream(request)[b"traceparent"].endswith(b"-00")


def test_the_share_of_traces_is_about_the_ratio() -> None:
    tracer = a_tracer(0.25)

    assert 400 < sum(tracer.begin(incoming(), 100.0) is not None for _ in range(2000)) < 600


def test_the_beginning_is_known_on_both_clocks() -> None:
    """The request arrived half a second before the decision."""
    trace = a_tracer(1.0).begin(incoming((b"host", b"gw.example.com:8080")), 100.0)

    assert trace is not None
    assert (100.0, 999.5, "gw.example.com:8080", None) == (trace.began, trace.wall_s, trace.host, trace.content)


def test_content_is_possible_only_with_a_receiver() -> None:
    trace = a_tracer(1.0, may_keep_content=True).begin(incoming(), 100.0)

    assert trace is not None
    assert trace.content is not None
    assert 100 == trace.content.max_bytes


def test_no_id_is_zero() -> None:
    """Zero means that there is no id."""

    class Zeros(random.Random):
        def getrandbits(self, k: int) -> int:
            return 0

    trace = a_tracer(1.0, rng=Zeros()).begin(incoming(), 100.0)

    assert trace is not None
    assert (1, 1) == (trace.trace_id, trace.span_id)
