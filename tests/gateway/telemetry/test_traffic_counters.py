import pytest

from gateway.protocol.usage import Usage
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.traffic_counters import RECENT_STREAMS, TrafficCounters
from tests.gateway.examples import an_ended_request


def a_stream(at: float, first_byte: float, events: int = 17, **more: object) -> list[CompletedRequest]:
    """A stream that was sent at 100 s."""
    known = {"streams": True, "sent_at": 100.0, "first_byte": first_byte, "streamed_events": events, **more}
    return [an_ended_request(at, model="tiny", strategy="prefix_aware", backend="w1", **known)]


def test_requests_are_counted_by_worker() -> None:
    """Fallbacks are not workers, and a request without a worker counts for none."""
    counters = TrafficCounters()
    known = {"model": "tiny", "strategy": "prefix_aware", "usage": Usage(64, 1, 48)}
    counters.observe([an_ended_request(101.0, backend=name, **known) for name in ("w1", "w1", "w2")])
    counters.observe([an_ended_request(101.0, backend="openai:x", served_by="openai", **known)])
    counters.observe([an_ended_request(101.0, model="tiny", error="NoWorker")])
    traffic = counters.of("tiny")

    assert {"w1": 2, "w2": 1} == {name: worker.requests for name, worker in traffic.workers.items()}
    assert (256, 192) == (traffic.prompt_tokens, traffic.cached_tokens)
    assert {} == counters.of("other").workers


def test_prompts_without_a_block_are_short() -> None:
    counters = TrafficCounters()
    for blocks in (0, 0, 3):
        counters.observe([an_ended_request(101.0, model="tiny", strategy="prefix_aware", prompt_blocks=blocks)])

    assert [True, True, False] == list(counters.of("tiny").short)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (a_stream(100.5, 100.499), [True]),
        (a_stream(100.5, 100.02), [False]),
        (a_stream(100.5, 100.499, events=15, usage=Usage(64, 200, 48)), []),
        (a_stream(100.09, 100.089), []),
        (a_stream(100.5, 100.499, continued=1), []),
        (a_stream(100.5, 100.499, error="CallerGone"), []),
        (a_stream(100.5, 100.499, streams=False), []),
    ],
)
def test_a_stream_that_arrives_as_a_whole_after_a_wait(stream: list[CompletedRequest], expected: list[bool]) -> None:
    """17 events within a millisecond; streams that are quick or have few events are not judged."""
    counters = TrafficCounters()
    counters.observe(stream)

    assert expected == list(counters.of("tiny").workers["w1"].at_once)


def test_only_recent_streams_count() -> None:
    counters = TrafficCounters()
    for _ in range(2 * RECENT_STREAMS):
        counters.observe(a_stream(100.5, 100.02))

    assert RECENT_STREAMS == len(counters.of("tiny").workers["w1"].at_once)
