"""Explanations from outside, and strategies that a request asks for."""

import asyncio
from typing import Any

import httpx

from tests.e2e.stack import HELD_KEY, Stack, stack

TOKEN = "the-admins-own-token"
ADMIN = {"keys": [{"role": "viewer", "secret": TOKEN}]}
PROMPT = "One long and shared prompt, of which nobody shall read. " * 30


def a_body(prompt: str = PROMPT, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, **more}


async def explained(served: Stack, body: dict[str, Any], *, path: str | None = None, **headers: str) -> httpx.Response:
    return await served.http.post(
        "/warmgate/explain",
        json=body,
        params={"path": path} if path else None,
        headers={"authorization": f"Bearer {TOKEN}", **headers},
    )


async def test_an_explanation_foretells_the_answer() -> None:
    async with stack(3, admin=ADMIN) as served:
        for turn in range(1, 4):
            body = a_body(PROMPT * turn)
            for _ in range(3):
                reported = (await explained(served, body)).json()
            reply = await served.http.post("/v1/chat/completions", json=body)

            first = reported["workers"][0]
            assert reply.headers["x-warmgate-worker"] == first["worker"]
            assert reply.headers["x-warmgate-hit-blocks"] == str(first["hit_blocks"])
            assert reply.headers["x-warmgate-strategy"] == reported["strategy"]
            assert ("hit" if turn > 1 else "cold") == reported["reason"]
            assert (turn > 1) == (first["hit_blocks"] > 10)
        heard = [request for worker in served.workers for request in await served.served(worker)]

        assert 3 == len(heard)
        assert 3 == len(await served.lines(3))
        assert {3.0} == set((await served.metric("warmgate_requests_total")).values())


async def test_the_admin_api_explains_in_the_same_way() -> None:
    async with stack(2, admin=ADMIN) as served:
        headers = {"authorization": f"Bearer {TOKEN}"}
        own = (await served.http.post("/admin/v1/explain", json=a_body(), headers=headers)).json()
        reported = (await explained(served, a_body())).json()

        assert own.keys() == reported.keys()
        assert [worker["rank"] for worker in own["workers"]] == [1, 2]


async def test_an_explanation_says_nothing_of_the_prompt() -> None:
    async with stack(1, admin=ADMIN) as served:
        reported = await explained(served, a_body())
        refused = await served.http.post(
            "/warmgate/explain", json=a_body(), headers={"authorization": f"Bearer {HELD_KEY}"}
        )

        assert (200, 401) == (reported.status_code, refused.status_code)
        assert "nobody shall read" not in reported.text + refused.text + served.log.getvalue().decode()
        assert refused.headers["content-type"] == "application/json"
        assert "invalid_admin_key" == refused.json()["error"]["code"]


async def test_a_dead_worker_is_reported_as_down() -> None:
    """It stands at the end, without a rank."""
    async with stack(2, admin=ADMIN) as served:
        await served.fault(served.workers[0], "engine_dead")
        async with asyncio.timeout(60):
            while (await explained(served, a_body())).json()["effective_strategy"] != "only_candidate":
                await asyncio.sleep(0.05)
        reported = (await explained(served, a_body())).json()

        assert [(1, None), (None, "down")] == [(worker["rank"], worker["why_not"]) for worker in reported["workers"]]
        assert served.workers[0] == reported["workers"][1]["worker"]


async def test_bodies_of_every_api_are_explained() -> None:
    async with stack(1, admin=ADMIN) as served:
        for path, body in {
            "/v1/responses": {"model": "tiny", "input": PROMPT},
            "/v1/messages": a_body(),
            "/v1/embeddings": {"model": "tiny", "input": PROMPT},
        }.items():
            reported = await explained(served, body, path=path)

            assert 200 == reported.status_code, reported.text
            assert reported.json()["prompt_blocks"] > 10
        wrong = await explained(served, {"model": "tiny"}, path="/v1/messages")
        nowhere = await explained(served, a_body(), path="/v1/images")

        assert (400, "messages") == (wrong.status_code, wrong.json()["error"]["param"])
        assert (400, "path") == (nowhere.status_code, nowhere.json()["error"]["param"])


async def test_a_request_may_name_its_strategy_where_the_settings_allow_it() -> None:
    """Three in turn with a prompt that would stay on one worker; each strategy is counted by its name."""
    async with stack(3, model={"strategy_header": True}, admin=ADMIN) as served:
        warm = [await served.http.post("/v1/chat/completions", json=a_body()) for _ in range(3)]
        asking = {"x-warmgate-strategy": "round_robin"}
        turns = [await served.http.post("/v1/chat/completions", json=a_body(), headers=asking) for _ in range(3)]
        unknown = await served.http.post(
            "/v1/chat/completions", json=a_body(), headers={"x-warmgate-strategy": "fastest"}
        )

        assert 1 == len({reply.headers["x-warmgate-worker"] for reply in warm})
        assert 3 == len({reply.headers["x-warmgate-worker"] for reply in turns})
        assert ["prefix_aware"] * 3 + ["round_robin"] * 3 == [
            reply.headers["x-warmgate-strategy"] for reply in (*warm, *turns)
        ]
        assert (400, "x-warmgate-strategy") == (unknown.status_code, unknown.json()["error"]["param"])
        counted = (await served.metric("warmgate_decisions_total")).items()
        assert 3.0 == sum(value for labels, value in counted if "round_robin" in labels)
