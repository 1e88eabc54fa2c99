"""The cache map and the truth of the index from outside, over real sockets."""

import asyncio
from typing import Any

from tests.e2e.stack import Stack, stack
from tests.e2e.traced import UNREACHABLE

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


async def test_words_of_recorded_prompts_are_on_the_map_only() -> None:
    """A request of a team without recording removes them."""
    recorded = {"endpoint": UNREACHABLE, "content": True}
    teams = [
        {"name": "blue", "keys": [{"id": "b", "secret": "wg-blue-5d0c1a6f4b7e49b2"}], "tracing": recorded},
        {"name": "red", "keys": [{"id": "r", "secret": "wg-red-5d0c1a6f4b7e49b2"}]},
    ]
    async with stack(1, admin={**ADMIN, "prefix_words": True}, teams=teams) as served:
        for _ in range(3):
            await ask_as(served, "wg-blue-5d0c1a6f4b7e49b2")
        named = await words_of(served, requests=3)
        texts = [(await served.http.get("/metrics")).text, served.log.getvalue().decode()]
        await ask_as(served, "wg-red-5d0c1a6f4b7e49b2")
        hidden = await words_of(served, requests=4)

    assert ["You answer questions about invoices of last year. You answer questions about inv"] == named
    assert [None] == hidden
    assert [False, False] == ["invoices" in text for text in texts]


async def ask_as(served: Stack, secret: str) -> None:
    body = {"model": "tiny", "messages": [{"role": "system", "content": SYSTEM}], "max_tokens": 2}
    headers = {"authorization": f"Bearer {secret}"}
    assert (await served.http.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200


async def words_of(served: Stack, *, requests: int) -> list[str | None]:
    """Words of all prefixes on the map after so many *requests* were observed."""
    await served.lines(requests)
    await counted(served, requests)
    return [each["words"] for each in (await shown(served, "/admin/v1/cache-map"))["prefixes"]]


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
