"""A kept response is its own team's: after restarts, on other replicas, and for anyone who guesses an id."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.server import serving
from tests.e2e.governed import OWNER, administration, bearer, chat
from tests.e2e.stack import Stack, gateway, quick
from tests.storage import RedisServer

BLUE, RED = "wg-blue-0123456789abcdef", "wg-red-0123456789abcdef0"
TEAMS: list[dict[str, Any]] = [
    {"name": "blue", "keys": [{"id": "b", "secret": BLUE}], "limits": {"requests_per_minute": 60}},
    {"name": "red", "keys": [{"id": "r", "secret": RED}]},
    {"name": "narrow", "models": ["other"], "keys": [{"id": "n", "secret": "wg-narrow-0123456789abc"}]},
]


ADMIN = {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]}


@asynccontextmanager
async def served(workers: list[str], store: str | None = None, **groups: Any) -> AsyncIterator[Stack]:
    more: dict[str, Any] = {} if store is None else {"store": {"url": store}}
    async with gateway(workers, teams=TEAMS, **more, **groups) as running:
        yield running


@pytest.fixture
async def workers() -> AsyncIterator[list[str]]:
    async with serving(quick()) as one, serving(quick()) as other:
        yield [one, other]


async def made(running: Stack, secret: str = BLUE) -> str:
    reply = await running.http.post("/v1/responses", json={"model": "tiny", "input": "hi"}, headers=bearer(secret))
    assert 200 == reply.status_code, reply.text
    return str(reply.json()["id"])


async def ways(running: Stack, response_id: str, secret: str) -> list[int]:
    """The status of every way to a response: seen, its items, cancelled, gone on from, deleted."""
    path, headers = f"/v1/responses/{response_id}", bearer(secret)
    body = {"model": "tiny", "input": "and?", "previous_response_id": response_id}
    replies = [
        await running.http.get(path, headers=headers),
        await running.http.get(f"{path}/input_items", headers=headers),
        await running.http.get(f"{path}?stream=true", headers=headers),
        await running.http.post(f"{path}/cancel", headers=headers),
        await running.http.post("/v1/responses", json=body, headers=headers),
        await running.http.delete(path, headers=headers),
    ]
    return [reply.status_code for reply in replies]


async def calls(running: Stack) -> int:
    return sum([len(await running.served(worker)) for worker in running.workers])


async def test_no_way_leads_to_another_teams_response(workers: list[str]) -> None:
    """Known or not, it is not found, and no worker is asked."""
    async with served(workers) as running:
        response_id = await made(running)
        before = await calls(running)

        assert [404] * 6 == await ways(running, response_id, RED)
        assert [404] * 6 == await ways(running, "resp_" + "0" * 32, RED)
        assert before == await calls(running)
        assert 200 == (await running.http.get(f"/v1/responses/{response_id}", headers=bearer(BLUE))).status_code


async def test_after_a_restart_a_response_is_still_its_teams(workers: list[str], tmp_path: Path) -> None:
    """The store knows whose it is."""
    store = f"sqlite:///{tmp_path}/db"
    async with served(workers, store) as running:
        response_id = await made(running)
    async with served(workers, store) as running:
        assert [404] * 6 == await ways(running, response_id, RED)
        assert 200 == (await running.http.get(f"/v1/responses/{response_id}", headers=bearer(BLUE))).status_code


async def test_after_a_restart_without_a_store_it_is_nobodys(workers: list[str]) -> None:
    """Its own team's neither: no one can tell."""
    async with served(workers) as running:
        response_id = await made(running)
    async with served(workers) as running:
        before = await calls(running)

        assert [404] * 6 == await ways(running, response_id, RED)
        assert [404] * 6 == await ways(running, response_id, BLUE)
        assert before == await calls(running)


@pytest.mark.redis
async def test_replicas_know_whose_it_is(workers: list[str], redis_server: RedisServer) -> None:
    """Soon after it was made."""
    async with served(workers, redis_server.url) as one, served(workers, redis_server.url) as other:
        response_id = await made(one)
        async with asyncio.timeout(60):
            while (await other.http.get(f"/v1/responses/{response_id}", headers=bearer(BLUE))).status_code != 200:
                await asyncio.sleep(0.05)

        assert [404] * 6 == await ways(other, response_id, RED)


async def test_a_caller_cannot_choose_the_id_of_its_response(workers: list[str]) -> None:
    async with served(workers) as running:
        response_id = await made(running)
        body = {"model": "tiny", "input": "mine", "request_id": response_id}
        reply = await running.http.post("/v1/responses", json=body, headers=bearer(RED))

        assert (400, "request_id") == (reply.status_code, reply.json()["error"]["param"])


async def test_looks_are_requests_of_a_limit(workers: list[str]) -> None:
    """300 of them under 60 a minute make no 300 calls of workers."""
    async with served(workers) as running:
        response_id = await made(running)
        before = await calls(running)
        replies = [await running.http.get(f"/v1/responses/{response_id}", headers=bearer(BLUE)) for _ in range(300)]

    assert {200, 429} == {reply.status_code for reply in replies}
    assert 60 >= sum(reply.status_code == 200 for reply in replies)
    assert 60 >= await calls_of_workers(workers) - before


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/{}"),
        ("GET", "/v1/responses/{}/input_items"),
        ("POST", "/v1/responses/{}/cancel"),
        ("DELETE", "/v1/responses/{}"),
        ("POST", "/v1/responses"),
    ],
)
async def test_guessed_ids_are_requests_of_a_limit(workers: list[str], method: str, path: str) -> None:
    """Each 404 takes one of 60 a minute, whichever way an id is tried, and is in the ledger of who tried."""
    async with served(workers, admin=ADMIN) as running:
        ids = [f"resp_{number:032x}" for number in range(100)]
        bodies = [{"model": "tiny", "input": "hi", "previous_response_id": each} for each in ids]
        replies = [
            await running.http.request(
                method, path.format(each), headers=bearer(BLUE), json=body if path == "/v1/responses" else None
            )
            for each, body in zip(ids, bodies, strict=True)
        ]
        statuses = [reply.status_code for reply in replies]
        records = await administration(running).records("blue", statuses.count(404))

    assert {404, 429} == set(statuses)
    assert 60 >= statuses.count(404)
    assert [("failed", 404)] * statuses.count(404) == [(each["outcome"], each["status"]) for each in records]


async def test_guesses_take_from_the_same_limit_as_answers(workers: list[str]) -> None:
    slow = [{"name": "slow", "keys": [{"id": "s", "secret": BLUE}], "limits": {"requests_per_minute": 1}}]
    async with gateway(workers, teams=slow) as running:
        guess = await running.http.get("/v1/responses/resp_1", headers=bearer(BLUE))
        answer = await running.http.post("/v1/chat/completions", json=chat(), headers=bearer(BLUE))

    assert [404, 429] == [guess.status_code, answer.status_code]


async def calls_of_workers(workers: list[str]) -> int:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        reported = [(await client.get(f"{worker}/control/requests")).json()["requests"] for worker in workers]
    return sum(map(len, reported))


async def test_looks_are_logged(workers: list[str]) -> None:
    """With who looked, and no id: anyone who reads the log could look as well."""
    async with served(workers) as running:
        response_id = await made(running)
        await running.http.get(f"/v1/responses/{response_id}", headers=bearer(BLUE))
        await running.http.get(f"/v1/responses/{response_id}", headers=bearer(RED))
        lines = await running.lines(3)

    looks = [line for line in lines if line["path"] == "/v1/responses/{response_id}"]
    assert [("blue", "b", 200), ("red", "r", 404)] == [(line["team"], line["key"], line["status"]) for line in looks]
    assert response_id not in json.dumps(looks)


@pytest.mark.parametrize(
    "spelt", ["..", "%2e%2e", "..%2Fmodels", "%2e%2e%2fmodels", "resp%0a", "resp%00", "a%20b", "a%25"]
)
async def test_no_spelling_of_an_id_leads_elsewhere(workers: list[str], spelt: str) -> None:
    """Not through the path, by which workers would be asked for something else; sent as it is, byte by byte."""
    async with served(workers) as running:
        url = httpx.URL(running.url)
        request = f"GET /v1/responses/{spelt} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {BLUE}\r\n"

        def raw() -> bytes:
            with socket.create_connection((url.host, url.port or 80), timeout=60) as connection:
                connection.sendall(f"{request}connection: close\r\n\r\n".encode())
                return connection.makefile("rb").read()

        answer = await asyncio.to_thread(raw)

        assert answer.split(b" ", 2)[1] in {b"400", b"404"}
        assert 0 == await calls(running)


@pytest.mark.parametrize("spelt", ["..", "a/b", "a b", "a\n", "\x00", "r" * 257])
async def test_no_spelling_of_a_previous_response_passes(workers: list[str], spelt: str) -> None:
    async with served(workers) as running:
        body = {"model": "tiny", "input": "and?", "previous_response_id": spelt}
        reply = await running.http.post("/v1/responses", json=body, headers=bearer(BLUE))

        assert (400, "previous_response_id") == (reply.status_code, reply.json()["error"]["param"])


async def test_what_goes_on_is_held_to_the_variants_that_a_key_may_use(workers: list[str]) -> None:
    """`variant_permits` holds of requests that go where their response is kept, too."""
    teams = [
        {"name": "blue", "keys": [{"id": "b", "secret": BLUE}, {"id": "n", "secret": RED, "models": ["auto", "new"]}]}
    ]
    routes = [
        {
            "name": "auto",
            "to": [{"model": "tiny", "weight": 1}, {"model": "new", "weight": 1}],
            "variant_permits": True,
        }
    ]
    entries = [{"url": workers[0]}]
    models = [{"name": "tiny", "workers": entries}, {"name": "new", "upstream_model": "tiny", "workers": entries}]
    async with gateway([workers[0]], models=models, teams=teams, routes=routes) as running:
        response_id = await made(running)
        body = {"model": "auto", "input": "and?", "previous_response_id": response_id}
        ours = await running.http.post("/v1/responses", json=body, headers=bearer(BLUE))
        narrowed = await running.http.post("/v1/responses", json=body, headers=bearer(RED))

    assert (200, "tiny") == (ours.status_code, ours.headers["x-warmgate-model"])
    assert (403, "model_not_allowed") == (narrowed.status_code, narrowed.json()["error"]["code"])
