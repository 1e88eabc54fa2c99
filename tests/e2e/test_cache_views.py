"""The cache map and the truth of the index from outside, over real sockets."""

import asyncio
from typing import Any

from tests.e2e.stack import Stack, stack

TOKEN = "the-admins-own-token"
ADMIN = {"keys": [{"role": "viewer", "secret": TOKEN}]}
SYSTEM = "You answer questions about invoices of last year. " * 40


async def shown(served: Stack, path: str) -> dict[str, Any]:
    answer = await served.http.get(path, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def ask(served: Stack, times: int) -> None:
    """Ask *times* times, and wait until all hits are counted.

    Hits are counted a little later, and of more than eight requests in 50 ms only a sample is counted.
    """
    for number in range(times):
        content = f"Question {number}: which invoices are open? " * 10
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
        body = {"model": "tiny", "messages": messages, "max_tokens": 2}
        assert (await served.http.post("/v1/chat/completions", json=body)).status_code == 200
        if number % 4 == 3:
            await counted(served, number + 1)
    await counted(served, times)


async def counted(served: Stack, requests: int) -> None:
    async with asyncio.timeout(60):
        while sum(minute["requests"] for minute in await minutes(served)) < requests:
            await asyncio.sleep(0.02)


async def minutes(served: Stack) -> list[dict[str, Any]]:
    """All minutes of all workers: a test may run over the end of one."""
    truth = await shown(served, "/admin/v1/index-truth")
    return [minute for worker in truth["workers"] for minute in worker["minutes"]]


async def test_a_shared_prefix_is_on_the_map_and_its_text_is_not() -> None:
    """All requests with the same system prompt went to the worker that has it."""
    async with stack(3, admin=ADMIN) as served:
        await ask(served, 16)
        answer = await served.http.get("/admin/v1/cache-map", headers={"authorization": f"Bearer {TOKEN}"})
    found = answer.json()
    hottest = found["prefixes"][0]
    holders = [(worker, held) for worker in found["workers"] for held in worker["held"]]

    assert 250 < hottest["tokens"] < 600
    assert [""] == [team["team"] for team in hottest["teams"]]
    assert {hottest["id"]} == {held["prefix"] for _, held in holders}
    ((worker, held),) = holders
    assert hottest["tokens"] == held["tokens"]
    assert worker["reuse_share"] > 0.5
    assert "invoices" not in answer.text


async def test_predicted_and_reported_hits_agree() -> None:
    async with stack(2, admin=ADMIN) as served:
        await ask(served, 8)
        found = await minutes(served)

    assert 8 == sum(minute["requests"] for minute in found)
    assert all(minute["accuracy"] > 0.8 for minute in found if minute["requests"])


async def test_nothing_is_observed_if_that_is_switched_off() -> None:
    async with stack(1, admin={**ADMIN, "cache_activity": False}) as served:
        headers = {"authorization": f"Bearer {TOKEN}"}
        answers = [await served.http.get(f"/admin/v1/{name}", headers=headers) for name in ("cache-map", "index-truth")]

        assert [404, 404] == [answer.status_code for answer in answers]
