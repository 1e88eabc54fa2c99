"""Responses that are generated in the background, where no one counts their tokens."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.app.tenancy import Tenancy
from tests.e2e.governed import administration, chat, governed
from tests.e2e.stack import Stack
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked

QUEUED: dict[str, Any] = {"id": "resp_1", "object": "response", "status": "queued", "output": [], "usage": None}


@pytest.fixture
async def served() -> AsyncIterator[Stack]:
    async with governed(1) as started:
        yield started


@pytest.mark.parametrize("spelling", [True, 1, "true", "yes", "on"], ids=repr)
@pytest.mark.parametrize(
    "more",
    [{}, {"store": True}, {"stream": True}, {"max_output_tokens": 5000}],
    ids=["alone", "kept", "streamed", "long"],
)
async def test_a_team_cannot_have_answers_that_are_not_counted(
    served: Stack, spelling: object, more: dict[str, Any]
) -> None:
    """400 that names the field, whatever engines take for true; no worker hears of it, and nothing is charged."""
    key = await administration(served).limited(tokens_per_day=100)
    body = {"model": "tiny", "input": "hi", "background": spelling, **more}

    answer = await served.http.post("/v1/responses", json=body, headers=key.headers)

    assert (400, "background") == (answer.status_code, answer.json()["error"]["param"])
    assert "models[].allow_background" in answer.json()["error"]["message"]
    assert [] == await served.served(served.workers[0])


async def test_an_escaped_name_is_the_same_field(served: Stack) -> None:
    key = await administration(served).limited(tokens_per_day=100)
    raw = rb'{"model": "tiny", "input": "hi", "back\u0067round": true}'

    answer = await served.http.post(
        "/v1/responses", content=raw, headers={**key.headers, "content-type": "application/json"}
    )

    assert (400, "background") == (answer.status_code, answer.json()["error"]["param"])


async def test_other_endpoints_count_all_the_same(served: Stack) -> None:
    """There the field is not one that engines know: the answer comes whole, and is charged."""
    admin = administration(served)
    key = await admin.limited(tokens_per_day=1000)

    answer = await served.http.post("/v1/chat/completions", json=chat(background=True), headers=key.headers)

    assert 200 == answer.status_code
    (record,) = await admin.records(key.team)
    assert answer.json()["usage"]["completion_tokens"] == record["completion_tokens"] > 0


@pytest.mark.parametrize("given", [{}, {"background": False}, {"background": None}], ids=["absent", "false", "null"])
async def test_other_responses_are_served(served: Stack, given: dict[str, Any]) -> None:
    key = await administration(served).limited(tokens_per_day=100_000)
    body = {"model": "tiny", "input": "hi", "max_output_tokens": 8, **given}

    assert 200 == (await served.http.post("/v1/responses", json=body, headers=key.headers)).status_code


@pytest.fixture
async def blue() -> AsyncIterator[Tenancy]:
    async with at_work(a_tenancy(a_team(limits={"tokens_per_day": 12_000}))) as tenancy:
        yield tenancy


async def test_where_it_is_allowed_the_longest_answer_is_charged(blue: Tenancy) -> None:
    """Two of 5,000 tokens are what 12,000 a day have room for, though the worker has said nothing of tokens yet."""
    queued = json.dumps(QUEUED | {"usage": {"input_tokens": 0, "output_tokens": 0}}).encode()
    model = a_model(Answers(200, queued), Answers(200, queued))
    model.allows_background = True
    stage = Stage(model, tenancy=blue)
    body = {"model": "tiny", "input": "hi", "background": True, "max_output_tokens": 5000}

    statuses = [
        (await stage.ask(json.dumps(body).encode(), path="/v1/responses", headers=[AUTHORIZATION])).status
        for _ in range(3)
    ]

    assert [200, 200, 429] == statuses
    assert [5000, 5000] == [record.completion_tokens for record in await booked(blue, 2)]
