"""What Langfuse takes from a trace beside the conventions."""

from gateway.protocol.usage import Usage
from gateway.proxy.tracing.labels import Labels
from gateway.telemetry.trace_export.delivery import CompletedTrace
from gateway.telemetry.trace_export.langfuse import langfuse_attributes
from tests.gateway.examples import an_exchange
from tests.gateway.telemetry.trace_export.examples import a_trace, answered


def test_a_request_is_a_generation() -> None:
    """With tokens that add up, money, and the moment of its first token; all in JSON."""
    ended = answered()
    ended.exchange.team, ended.exchange.key, ended.trace.project = "blue", "ci", "search"
    ended.trace.labels = Labels(session="s", user="u", name="n", tags=("a", "b"), metadata={"screen": "cart"})

    assert {
        "langfuse.observation.type": "generation",
        "langfuse.trace.name": "n",
        "langfuse.user.id": "u",
        "langfuse.session.id": "s",
        "langfuse.observation.model.name": "tiny",
        "langfuse.trace.metadata.team": "blue",
        "langfuse.trace.metadata.key": "ci",
        "langfuse.trace.metadata.project": "search",
        "langfuse.trace.metadata.backend": "b",
        "langfuse.trace.metadata.strategy": "prefix_aware",
        "langfuse.trace.metadata.request_id": "r-1",
        "langfuse.trace.metadata.screen": "cart",
        "langfuse.trace.tags": ["a", "b"],
        "langfuse.observation.usage_details": '{"input":16,"output":9,"input_cached_tokens":48}',
        "langfuse.observation.cost_details": '{"total":0.25}',
        "langfuse.observation.completion_start_time": '"2026-01-01T00:00:02.500Z"',
    } == langfuse_attributes(ended)


def test_unknown_values_are_left_out() -> None:
    """An engine that counts no cached tokens, a request that failed."""
    failed = an_exchange(status=503, error="NoWorker", usage=Usage(64, 9))
    attributes = langfuse_attributes(CompletedTrace(failed, a_trace(), 101.0))

    assert {
        "langfuse.observation.type": "generation",
        "langfuse.trace.metadata.request_id": "r-1",
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "NoWorker",
        "langfuse.observation.usage_details": '{"input":64,"output":9}',
    } == attributes


def test_what_the_caller_did_is_a_warning() -> None:
    refused = an_exchange(status=429, error="RateLimited")

    assert "WARNING" == langfuse_attributes(CompletedTrace(refused, a_trace(), 101.0))["langfuse.observation.level"]
