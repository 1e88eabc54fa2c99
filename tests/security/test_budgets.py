"""A team that tries to get more than its budget has room for, from workers that take their time to answer."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Self

import httpx
import pytest

from simulator.options import SimulatorOptions
from tests.e2e.governed import Administration, MadeKey, administration, chat, governed
from tests.e2e.stack import Stack

SLOW = SimulatorOptions(port=0, tpot_ms=500, blocks=8192, prefill_tokens_per_s=1e9)
"""Two tokens a second, and room for answers of 100,000."""


@pytest.fixture
async def slow() -> AsyncIterator[Stack]:
    async with governed(1, options=SLOW) as served:
        yield served


class Streams:
    """Requests that are sent beside each other, and stay open."""

    def __init__(self, served: Stack, key: MadeKey) -> None:
        self._served = served
        self._key = key
        self._exits = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    async def begin(self, path: str = "/v1/chat/completions", **body: Any) -> httpx.Response:
        """The head of an answer, as soon as it is there."""
        stream = self._served.http.stream("POST", path, json=chat(stream=True, **body), headers=self._key.headers)
        return await self._exits.enter_async_context(stream)

    async def statuses(self, count: int, **body: Any) -> list[int]:
        answers = await asyncio.gather(*(self.begin(**body) for _ in range(count)))
        return [answer.status_code for answer in answers]


async def prime(served: Stack, key: MadeKey, answers: int, **body: Any) -> None:
    """Have limits see so many short answers."""
    for _ in range(answers):
        body = {"max_tokens": 1, **body}
        response = await served.http.post("/v1/chat/completions", json=chat(**body), headers=key.headers)
        assert 200 == response.status_code, response.text


def admin_of(served: Stack) -> Administration:
    return administration(served)


@pytest.mark.parametrize(
    "long",
    [
        {"max_tokens": 50_000},
        {"max_tokens": 1, "max_completion_tokens": 50_000},
    ],
    ids=["max_tokens", "max_completion_tokens"],
)
async def test_short_answers_do_not_open_a_budget_for_long_ones(slow: Stack, long: dict[str, Any]) -> None:
    """70 answers of one token, then 100 requests for 50,000: 33 of them are what fifty dollars a day can have."""
    key = await admin_of(slow).limited(usd_per_day=50.0)
    await prime(slow, key, 70)

    async with Streams(slow, key) as streams:
        statuses = await streams.statuses(100, **long)

    assert {200: 33, 429: 67} == {status: statuses.count(status) for status in set(statuses)}


async def test_a_limit_of_tokens_per_day_is_as_tight(slow: Stack) -> None:
    key = await admin_of(slow).limited(tokens_per_day=200_000)
    await prime(slow, key, 70)

    async with Streams(slow, key) as streams:
        statuses = await streams.statuses(20, max_tokens=50_000)

    assert 3 == statuses.count(200)


async def test_who_leaves_at_once_gets_back_what_it_did_not_use(slow: Stack) -> None:
    """Aborts open no budget either: each costs what it had, and the next finds the room."""
    key = await admin_of(slow).limited(usd_per_day=2.0)
    for _ in range(5):
        async with Streams(slow, key) as streams:
            assert [200, 429] == sorted(await streams.statuses(2, max_tokens=50_000))
        async with asyncio.timeout(60):
            while await _in_flight(slow):
                await asyncio.sleep(0.02)


async def test_requests_that_set_no_limit_are_taken_to_be_long() -> None:
    async with governed(1, options=SLOW, model={"max_output_tokens": 10_000}) as served:
        key = await admin_of(served).limited(usd_per_day=1.0)
        async with Streams(served, key) as streams:
            statuses = await streams.statuses(5, max_tokens=None)

    assert [200, 200, 200, 429, 429] == sorted(statuses)


async def _in_flight(served: Stack) -> float:
    return sum((await served.metric("warmgate_requests_in_flight")).values())


async def events_of(served: Stack, key: MadeKey, **body: Any) -> list[str]:
    """The data of all events of a stream."""
    async with served.http.stream(
        "POST", "/v1/chat/completions", json=chat(stream=True, **body), headers=key.headers
    ) as answer:
        assert 200 == answer.status_code
        return [line.removeprefix("data: ") async for line in answer.aiter_lines() if line.startswith("data: ")]


@pytest.mark.parametrize(
    ("declared", "budget"),
    [({"max_output_tokens": 20}, {"usd_per_day": 0.002}), ({}, {"usd_per_day": 0.002}), ({}, {"tokens_per_day": 60})],
    ids=["the engine generates more than was declared", "all of a small budget in dollars", "in tokens"],
)
async def test_a_stream_ends_when_its_budget_is_spent(declared: dict[str, Any], budget: dict[str, float]) -> None:
    """With an error that names the limit, in OpenAI's shape; what was streamed is charged, and the next is refused."""
    options = SimulatorOptions(port=0, tpot_ms=5, blocks=8192)
    async with governed(1, options=options, model=declared) as served:
        key = await admin_of(served).limited(**budget)
        events = await events_of(served, key, ignore_eos=True, max_tokens=50_000 if declared else None)
        (record,) = await admin_of(served).records(key.team)
        after = await served.http.post("/v1/chat/completions", json=chat(), headers=key.headers)

    error = json.loads(events[-1])["error"]
    assert ("insufficient_quota", "insufficient_quota") == (error["type"], error["code"])
    counted = "US dollars" if "usd_per_day" in budget else "tokens"
    assert f"The budget of team {key.team} on {counted} per day" in error["message"]
    assert "[DONE]" not in events
    assert 30 < record["completion_tokens"] < 5000
    assert 429 == after.status_code
