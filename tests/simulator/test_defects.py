from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from simulator.defects import Defects
from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving

PROMPT = "the same words in the same order, again and again, until they fill a few blocks of the cache"


@asynccontextmanager
async def worker(**defects: Any) -> AsyncIterator[httpx.AsyncClient]:
    options = SimulatorOptions(port=0, speed=0, defects=Defects(**defects), kv_events=EventOptions())
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


async def cached(client: httpx.AsyncClient) -> int:
    """Cached tokens that the second of two equal requests reports."""
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 1}
    answers = [(await client.post("/v1/completions", json=body)).json() for _ in range(2)]
    found: int = answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reported_blocks": 0}, "reported_blocks must be at least 1, got 0"),
        ({"reported_block_size": -1}, "reported_block_size must be at least 1, got -1"),
        ({"cached_tokens_factor": -1.0}, "cached_tokens_factor must be finite and not negative, got -1.0"),
        ({"clock_skew_s": float("inf")}, "clock_skew_s must be finite, got inf"),
    ],
)
def test_an_invalid_defect_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Defects(**wrong)


def test_reported_cached_tokens_never_exceed_the_prompt() -> None:
    assert [16, 8, 20] == [Defects(cached_tokens_factor=f).reported_cached_tokens(16, 20) for f in (1.0, 0.5, 3.0)]


async def test_without_prefix_caching_nothing_is_cached_and_the_metrics_say_so() -> None:
    async with worker() as sound, worker(enable_prefix_caching=False) as client:
        assert 16 == await cached(sound)
        assert 0 == await cached(client)
        assert 'enable_prefix_caching="False"' in (await client.get("/metrics")).text
        assert 0 == (await client.get("/control/kv_events")).json()["next_sequence"]


async def test_an_answer_reports_a_multiple_of_its_cached_tokens() -> None:
    async with worker(cached_tokens_factor=0.5) as client:
        assert 8 == await cached(client)


async def test_metrics_report_another_cache() -> None:
    async with worker(reported_blocks=77, reported_block_size=128) as client:
        text = (await client.get("/metrics")).text

    assert 'block_size="128"' in text
    assert 'num_gpu_blocks="77"' in text


async def test_a_buffered_stream_comes_at_its_end() -> None:
    """In one piece, with the same events."""
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 8, "stream": True}
    pieces = []
    async with worker(buffer_streams=True) as client, client.stream("POST", "/v1/completions", json=body) as answer:
        pieces = [piece async for piece in answer.aiter_raw()]

    assert 1 == len(pieces)
    assert pieces[0].endswith(b"data: [DONE]\n\n")
    assert 9 <= pieces[0].count(b"data: ")
