"""Priorities that reach the engines."""

import base64
import json
from typing import Any

import pytest

from tests.e2e.stack import stack

PRIORITIES = ("high", "normal", "low")
TEAMS = [{"name": each, "priority": each, "keys": [{"id": each, "secret": f"sk-{each}"}]} for each in PRIORITIES]
CHAT: dict[str, Any] = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "tiny", "max_tokens": 2, "prompt": "hi", "stream": True},
    "/v1/responses": {"model": "tiny", "max_output_tokens": 2, "input": "hi"},
    "/v1/messages": CHAT,
}


@pytest.mark.parametrize(("order", "numbers"), [("low_first", [-1, 0, 1]), ("high_first", [1, 0, -1]), (None, None)])
async def test_workers_receive_the_priority_of_the_team(order: str | None, numbers: list[int] | None) -> None:
    """With every API that generates, and only if the model's settings say how engines order priorities."""
    async with stack(1, model={"engine_priority": order} if order else {}, teams=TEAMS) as served:
        for path, body in BODIES.items():
            for each in PRIORITIES:
                reply = await served.http.post(path, json=body, headers={"authorization": f"Bearer sk-{each}"})
                assert 200 == reply.status_code
        bodies = [json.loads(base64.b64decode(each["body"])) for each in await served.served(served.workers[0])]

    expected = [None] * 3 if numbers is None else numbers
    assert expected * len(BODIES) == [body.get("priority") for body in bodies]


async def test_callers_cannot_choose_their_priority() -> None:
    """The field is refused as internal to engines."""
    async with stack(1, model={"engine_priority": "low_first"}, teams=TEAMS) as served:
        headers = {"authorization": "Bearer sk-low"}
        reply = await served.http.post("/v1/chat/completions", json={**CHAT, "priority": -9}, headers=headers)

        assert (400, "priority") == (reply.status_code, reply.json()["error"]["param"])
        assert [] == await served.served(served.workers[0])
