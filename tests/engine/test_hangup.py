"""A caller that leaves: the engine is free within a second, though it would have been busy for many."""

import time
from typing import Any

import pytest
from openai import APITimeoutError

from tests.engine.examples import chat
from tests.engine.stack import WORKER_HEADER, Stack

LONG_ANSWER: dict[str, Any] = {"max_tokens": 12_000, "extra_body": {"ignore_eos": True}}
PATIENCE_S = 30.0
FREE_WITHIN_S = 1.0
READ_EVERY_S = 0.2  # writing its metrics takes vLLM's API server some 10 ms, in which it notices no hang-up


def until_running(served: Stack, count: int, *, within_s: float, engine: str) -> None:
    """Ask the engine until it runs *count* requests, or says otherwise although asked after *within_s*."""
    give_up_at = time.monotonic() + within_s
    asked_at = time.monotonic()  # a busy machine may take its time to answer
    while (running := served.requests_running(engine)) != count:
        assert asked_at < give_up_at, f"{engine} runs {running:g} requests after {within_s:g} s, not {count}"
        time.sleep(READ_EVERY_S)
        asked_at = time.monotonic()


@pytest.mark.parametrize("read", [1, 50], ids=["at once", "midway"])
def test_an_aborted_stream_frees_the_engine(served: Stack, read: int) -> None:
    """Closed after the first of its chunks, or after fifty."""
    with served.openai.chat.completions.with_streaming_response.create(**chat(stream=True) | LONG_ANSWER) as reply:
        engine = reply.headers[WORKER_HEADER]
        chunks = iter(reply.parse())
        for _ in range(read):
            next(chunks)
        until_running(served, 1, within_s=PATIENCE_S, engine=engine)

    until_running(served, 0, within_s=FREE_WITHIN_S, engine=engine)


def test_a_caller_that_waits_no_longer_frees_the_engine(served: Stack) -> None:
    """Also when the answer would have come whole: the SDK's timeout is a hang-up."""
    with pytest.raises(APITimeoutError):
        served.openai.with_options(timeout=2.0).chat.completions.create(**chat() | LONG_ANSWER)

    for engine in served.engines:
        until_running(served, 0, within_s=FREE_WITHIN_S, engine=engine)


def test_an_aborted_stream_leaves_its_prompt_in_the_cache(served: Stack) -> None:
    question = chat("A question that its caller breaks off. " * 30, stream=True)
    with served.openai.chat.completions.with_streaming_response.create(**question | LONG_ANSWER) as reply:
        engine = reply.headers[WORKER_HEADER]
        next(iter(reply.parse()))
    until_running(served, 0, within_s=FREE_WITHIN_S, engine=engine)
    again = served.openai.chat.completions.with_raw_response.create(**{**question, "stream": False})
    usage = again.parse().usage

    assert engine == again.headers[WORKER_HEADER]
    assert usage.prompt_tokens_details.cached_tokens > usage.prompt_tokens / 2
