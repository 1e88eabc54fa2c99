"""Receipts from outside: why a worker was chosen for a past request, and what came of it."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.e2e.stack import Stack, stack

TOKEN = "the-admins-own-token"
ADMIN = {"keys": [{"role": "viewer", "secret": TOKEN}]}
PROMPT = "One long and shared prompt, of which nobody shall read. " * 30


async def asked(served: Stack, name: str, **more: Any) -> httpx.Response:
    body = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4, **more}
    return await served.http.post("/v1/chat/completions", json=body, headers={"x-request-id": name})


async def shown(served: Stack, path: str) -> Any:
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json"}
    response = await served.http.get(f"/admin/v1/{path}", headers=headers)
    assert 200 == response.status_code, response.text
    return response.json()


async def kept(served: Stack, path: str) -> Any:
    return await shown(served, f"requests{path}")


async def state_of(served: Stack, worker: str) -> str:
    (state,) = [each["state"] for each in (await shown(served, "workers"))["workers"] if each["worker"] == worker]
    return str(state)


@pytest.mark.parametrize("strategy", ["prefix_aware", "kv_aware"])
async def test_a_receipt_says_why_the_worker_was_chosen(strategy: str) -> None:
    """The second request with a prompt goes to the worker that has it, and the receipt shows the longer hit there."""
    async with stack(3, model={"strategy": strategy}, admin=ADMIN) as served:
        first = await asked(served, "first")
        second = await asked(served, "second", stream=True, stream_options={"include_usage": True})
        cold, warm = await kept(served, "/first"), await kept(served, "/second")

        assert first.headers["x-warmgate-worker"] == cold["chosen"]
        assert second.headers["x-warmgate-worker"] == warm["chosen"] == cold["chosen"]
        assert (strategy, "cold") == (cold["strategy"], cold["reason"])
        assert (strategy, "hit") == (warm["strategy"], warm["reason"])
        chosen, *others = warm["candidates"]
        assert [None, "higher cost", "higher cost"] == [each["why_not"] for each in warm["candidates"]]
        assert {0.0} == {each["hit_tokens"] for each in others}
        assert chosen["hit_tokens"] > 100.0
        assert all(chosen["cost_s"] < each["cost_s"] for each in others)
        assert [{"backend": warm["chosen"], "outcome": "answered"}] == warm["attempts"]
        assert warm["cached_tokens"] > 100
        assert ["prepare", "queue", "attempt", "relay"] == [phase["name"] for phase in warm["phases"]]
        assert 0.0 == warm["regret_s"]
        assert 0.0 < warm["ttft_s"] <= warm["duration_s"]


async def test_a_receipt_shows_the_attempts() -> None:
    """No health check runs after the start, so only the request itself finds that the worker is dead."""
    async with stack(2, admin=ADMIN, health={"interval_s": 3600}) as served:
        dead = (await asked(served, "first")).headers["x-warmgate-worker"]
        await served.fault(dead, "engine_dead")
        await asked(served, "second")
        second = await kept(served, "/second")
        (living,) = [worker for worker in served.workers if worker != dead]

        assert (dead, living, 200) == (second["chosen"], second["backend"], second["status"])
        assert [dead, living] == [attempt["backend"] for attempt in second["attempts"]]
        assert "answered" == second["attempts"][1]["outcome"]


async def test_a_receipt_shows_the_workers_that_were_out() -> None:
    async with stack(2, admin=ADMIN) as served:
        dead, living = served.workers
        await served.fault(dead, "engine_dead")
        async with asyncio.timeout(60):
            while await state_of(served, dead) != "down":
                await asyncio.sleep(0.05)
        await asked(served, "first")
        first = await kept(served, "/first")

        assert living == first["chosen"]
        assert [{"worker": dead, "why_not": "down"}] == first["excluded"]


async def test_receipts_say_nothing_of_the_prompt() -> None:
    async with stack(1, admin=ADMIN) as served:
        await asked(served, "first")
        listed, opened = await kept(served, ""), await kept(served, "/first")

        assert ["first"] == [each["id"] for each in listed["data"]]
        assert "nobody shall read" not in f"{listed}{opened}"


async def test_a_gateway_without_admin_keys_keeps_nothing() -> None:
    async with stack(1) as served:
        await asked(served, "first")
        response = await served.http.get("/admin/v1/requests", headers={"authorization": f"Bearer {TOKEN}"})

        assert 403 == response.status_code
