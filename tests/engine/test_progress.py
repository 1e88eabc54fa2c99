"""What reports a stream whose engine works from one whose engine is stuck: vLLM's counter of generated tokens."""

from gateway.backends.engine_metrics import MetricsPage
from tests.engine.examples import chat
from tests.engine.stack import WORKER_HEADER, Stack

TOKENS = 400


def generated(served: Stack, engine: str) -> float:
    page = MetricsPage()
    page.feed(served.http.get(f"{served.engines[engine]}/metrics").content)
    reading = page.reading()
    assert reading is not None
    assert reading.generated is not None
    return reading.generated


def test_tokens_are_counted_while_a_stream_is_under_way(served: Stack) -> None:
    """Step by step, not when the request ends; once it has ended the counter stands still."""
    body = chat("Tell me all.", max_tokens=TOKENS, stream=True, ignore_eos=True)
    counts: list[float] = []
    with served.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        engine = reply.headers[WORKER_HEADER]
        while not counts or served.requests_running(engine):
            counts.append(generated(served, engine))
        reply.read()
    after = generated(served, engine)

    assert sorted(counts) == counts
    assert len(set(counts)) > 2
    assert counts[0] < after <= counts[0] + TOKENS
    assert after == generated(served, engine)
