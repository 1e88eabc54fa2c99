"""Kept responses that are read again name the model as the request did that made them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from simulator.server import serving
from tests.e2e.governed import bearer
from tests.e2e.stack import Stack, gateway, quick
from tests.storage import RedisServer

SECRET = "wg-blue-0123456789abcdef"
TEAMS = [{"name": "blue", "keys": [{"id": "b", "secret": SECRET}]}]
MODEL = {"name": "small", "upstream_model": "tiny", "aliases": ["gpt-4o"]}


@pytest.fixture
async def worker() -> AsyncIterator[str]:
    async with serving(quick()) as url:
        yield url


async def made(running: Stack) -> str:
    body = {"model": "gpt-4o", "input": "hi"}
    reply = await running.http.post("/v1/responses", json=body, headers=bearer(SECRET))
    assert 200 == reply.status_code, reply.text
    return str(reply.json()["id"])


async def name(running: Stack, response_id: str) -> str:
    """The name of the model in the response as it is read again."""
    reply = await running.http.get(f"/v1/responses/{response_id}", headers=bearer(SECRET))
    assert (200, response_id) == (reply.status_code, reply.json()["id"])
    return str(reply.json()["model"])


@pytest.mark.parametrize("teams", [TEAMS, []])
async def test_a_response_that_is_read_again_names_the_model_as_it_was_asked_for(
    worker: str, teams: list[dict[str, Any]]
) -> None:
    """With teams and without."""
    async with gateway([worker], model=MODEL, teams=teams) as running:
        assert "gpt-4o" == await name(running, await made(running))


@pytest.mark.parametrize("more", [{}, {"answer_model": "backend"}])
async def test_of_a_response_that_no_one_remembers_the_configured_name_is_reported(
    worker: str, more: dict[str, Any]
) -> None:
    """Unless answers are to keep what the worker says."""
    async with gateway([worker], model=MODEL | more) as running:
        response_id = await made(running)
    async with gateway([worker], model=MODEL | more) as running:
        assert ("tiny" if more else "small") == await name(running, response_id)


@pytest.mark.redis
async def test_another_replica_knows_the_name_as_well(worker: str, redis_server: RedisServer) -> None:
    store = {"url": redis_server.url}
    async with gateway([worker], model=MODEL, teams=TEAMS, store=store) as one:
        response_id = await made(one)
    async with gateway([worker], model=MODEL, teams=TEAMS, store=store) as other:
        assert "gpt-4o" == await name(other, response_id)
