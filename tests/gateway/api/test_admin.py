"""What an operator sees of the workers, and draining them."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from cache_index import WorkerId
from gateway.app import create_app
from gateway.model import Model
from gateway.settings import build
from tests.gateway.asgi import Caller
from tests.routing.examples import ABORTED, a_request, book

A, B = WorkerId("a"), WorkerId("b")
TOKEN = {"authorization": "Bearer t-1"}


class Admin:
    """A gateway whose workers are all taken to be up, without I/O, and an operator's client for it."""

    def __init__(self, *, token: str | None = "t-1") -> None:
        def worker(name: str) -> dict[str, str]:
            return {"url": f"http://{name}:1", "id": name}

        models = [
            {"name": "tiny", "aliases": ["gpt-4o"], "workers": [worker("a"), worker("b")]},
            {"name": "big", "workers": [worker("a")]},
        ]
        self.gateway = create_app(build({"models": models, "server": {"admin_token": token}}, {}))
        self.models: dict[str, Model] = {model.name: model for model in self.gateway._proxy._models}
        for model in self.models.values():
            for state in model.fleet:
                model.fleet.set_up(state.id, up=True)

    @asynccontextmanager
    async def client(self, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.gateway)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            yield client

    async def workers(self) -> list[dict[str, Any]]:
        async with self.client(**TOKEN) as client:
            listed: list[dict[str, Any]] = (await client.get("/warmgate/workers")).json()["workers"]
            return listed

    async def post(self, path: str, **body: Any) -> httpx.Response:
        async with self.client(**TOKEN) as client:
            return await client.post(f"/warmgate/workers/{path}", json=body)


async def test_every_worker_is_listed_with_its_state() -> None:
    """Of every model, in the order of the settings."""
    admin = Admin()
    tiny = admin.models["tiny"]
    tiny.fleet.set_up(B, up=False)
    admin.models["big"].fleet.set_asleep(A, asleep=True)
    book(tiny.fleet, a_request("abc"), time.monotonic(), A)
    first, second, third = await admin.workers()

    assert {
        "model": "tiny",
        "worker": "a",
        "url": "http://a:1",
        "tier": 0,
        "role": "both",
        "state": "up",
        "up": True,
        "asleep": False,
        "draining": False,
        "draining_by": [],
        "drained": False,
        "hand_over_in_s": None,
        "breaker_open": False,
        "in_flight": 1,
        "held_blocks": 3,
    } == first
    assert [("tiny", "b", "down"), ("big", "a", "asleep")] == [
        (each["model"], each["worker"], each["state"]) for each in (second, third)
    ]


async def test_a_worker_drains_until_it_has_nothing_to_do() -> None:
    """Its requests go on; it is drained when the last one has ended, and up again when that is wanted."""
    admin = Admin()
    fleet = admin.models["tiny"].fleet
    booking = book(fleet, a_request(), time.monotonic(), A)
    (told,) = (await admin.post("drain", worker="a", model="tiny")).json()["workers"]
    fleet.release(booking, ABORTED, time.monotonic())
    listed = (await admin.workers())[0]
    (undrained,) = (await admin.post("undrain", worker="a", model="tiny")).json()["workers"]

    assert ("draining", True, False, 1) == (told["state"], told["draining"], told["drained"], told["in_flight"])
    assert ("drained", True, True, 0) == (listed["state"], listed["draining"], listed["drained"], listed["in_flight"])
    assert ("up", False, False) == (undrained["state"], undrained["draining"], undrained["drained"])


async def test_without_a_model_a_worker_drains_for_all_of_them() -> None:
    """It is one process."""
    admin = Admin()
    response = await admin.post("drain", worker="a")

    assert [("tiny", "drained"), ("big", "drained")] == [
        (each["model"], each["state"]) for each in response.json()["workers"]
    ]
    assert ["drained", "up", "drained"] == [each["state"] for each in await admin.workers()]


async def test_the_last_worker_may_be_drained() -> None:
    """Then the model is not ready, and the reason says why."""
    admin = Admin()
    await admin.post("drain", worker="a", model="big")
    async with admin.client() as client:
        ready = (await client.get("/readyz")).json()["models"]

    assert {"tiny": "ready", "big": "all of 1 workers are draining"} == ready


async def test_a_worker_that_is_down_drains_as_well() -> None:
    """It is still down, and gets nothing when it comes back."""
    admin = Admin()
    admin.models["tiny"].fleet.set_up(B, up=False)
    (told,) = (await admin.post("drain", worker="b")).json()["workers"]

    assert ("down", True, True) == (told["state"], told["draining"], told["drained"])


@pytest.mark.parametrize(
    ("said", "left_s"), [({}, 30), ({"hand_over_after_s": 7}, 7), ({"hand_over_after_s": None}, None)]
)
async def test_a_drain_may_say_when_streams_are_handed_over(said: dict[str, Any], left_s: float | None) -> None:
    """null: never; without a word it is drain.hand_over_after_s."""
    admin = Admin()
    book(admin.models["big"].fleet, a_request(), time.monotonic(), A)
    (told,) = (await admin.post("drain", worker="a", model="big", **said)).json()["workers"]

    assert ["operator"] == told["draining_by"]
    assert left_s == (None if told["hand_over_in_s"] is None else round(told["hand_over_in_s"] + 0.5))


@pytest.mark.parametrize(("path", "after_s"), [("drain", -1), ("drain", "7"), ("undrain", 7)])
async def test_a_time_that_cannot_be_is_refused(path: str, after_s: object) -> None:
    """And one that has no meaning."""
    response = await Admin().post(path, worker="a", hand_over_after_s=after_s)

    assert (400, "hand_over_after_s") == (response.status_code, response.json()["error"]["param"])


@pytest.mark.parametrize("path", ["drain", "undrain"])
@pytest.mark.parametrize(
    ("body", "status", "code", "param", "message"),
    [
        ({"worker": "z"}, 404, "worker_not_found", "worker", "There is no worker 'z'"),
        (
            {"worker": "b", "model": "big"},
            404,
            "worker_not_found",
            "worker",
            "There is no worker 'b' of the model 'big'",
        ),
        ({"worker": "a", "model": "x"}, 404, "model_not_found", "model", "The model 'x' is not configured"),
        ({"worker": "a", "model": "gpt-4o"}, 404, "model_not_found", "model", "aliases do not count here"),
        ({}, 400, None, "worker", "Object missing required field `worker`"),
        ({"worker": 1}, 400, None, "worker", "Expected `str`, got `int` - at `$.worker`"),
        ({"worker": "a", "modell": "x"}, 400, None, "modell", "Object contains unknown field `modell`"),
    ],
)
async def test_what_cannot_be_done_names_the_field(
    path: str, body: dict[str, Any], status: int, code: str | None, param: str, message: str
) -> None:
    """In OpenAI's shape; nothing has changed."""
    admin = Admin()
    response = await admin.post(path, **body)
    error = response.json()["error"]

    assert (status, code, param) == (response.status_code, error["code"], error["param"])
    assert message in error["message"]
    assert ["up"] * 3 == [each["state"] for each in await admin.workers()]


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"worker": "a"}', "text/plain", 415),
        (b" " * 20_000, "application/json", 413),
    ],
)
async def test_a_body_that_is_none_is_refused(content: bytes, media: str, status: int) -> None:
    """Also one of a type that a web page could send without being asked for leave."""
    async with Admin().client(**TOKEN) as client:
        response = await client.post("/warmgate/workers/drain", content=content, headers={"content-type": media})

    assert status == response.status_code
    assert "message" in response.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/drain"), ("POST", "/undrain")],
)
@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [(None, TOKEN, 403), (None, {}, 403), ("t-1", {}, 401), ("t-1", {"authorization": "Bearer t-2"}, 401)],
)
async def test_nobody_without_the_token(
    method: str, path: str, token: str | None, headers: dict[str, str], status: int
) -> None:
    """Not to read, not to change, and not from this machine either; before the body is looked at."""
    async with Admin(token=token).client(**headers) as client:
        response = await client.request(method, f"/warmgate/workers{path}", content=b"{")

    assert (status, "invalid_request_error") == (response.status_code, response.json()["error"]["type"])
    assert (status == 401) == ("www-authenticate" in response.headers)


@pytest.mark.parametrize("path", ["drain", "undrain"])
async def test_a_caller_that_leaves_in_the_middle_is_no_error(path: str) -> None:
    """Nobody is there to be told."""
    caller = Caller(
        b'{"worker',
        path=f"/warmgate/workers/{path}",
        headers=[(b"authorization", b"Bearer t-1")],
        finishes_body=False,
    )
    caller.leave()
    await caller.call(Admin().gateway)

    assert 200 == caller.status
