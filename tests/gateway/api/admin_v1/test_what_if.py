"""/admin/v1/what-if and /admin/v1/savings."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.parts import AdminGateway, ConfiguredModel
from gateway.telemetry.shapes.segments import Segments
from gateway.telemetry.what_if.job import Job
from gateway.telemetry.what_if.replays import result_of
from gateway.telemetry.what_if.runner import WhatIfRunner
from gateway.telemetry.what_if.what_if import WhatIf
from tests.gateway.api.admin_v1.administration import KEYS, Administration, administration
from tests.gateway.examples import a_draining, a_model, the_models
from tests.gateway.telemetry.what_if.examples import a_job, folder
from tests.replay.examples import asked
from tests.routing.examples import A, B, a_fleet

CONFIGURED = ConfiguredModel(
    name="tiny",
    aliases=(),
    upstream_model="tiny",
    adapter_of=None,
    strategy="prefix_aware",
    input_usd=2.0,
    cached_input_usd=0.5,
    output_usd=8.0,
    gpu_hour_usd=None,
    max_output_tokens=None,
    bedrock=None,
)
TRACE = "\n".join(json.dumps(asked(1000 * at, 1100, [1, 2, 3])) for at in range(3))


@asynccontextmanager
async def served(
    directory: Path | None, *, models: int = 1, keys: tuple[AdminKey, ...] = KEYS
) -> AsyncIterator[tuple[Administration, WhatIfRunner]]:
    """The admin application of a gateway that records into *directory*. No job ever begins to run."""
    registry = the_models(a_model(fleet=a_fleet(A, B)))
    files = None
    if directory is not None:
        files = Segments(directory, max_bytes=10**6, keep_s=60.0, wall_clock=lambda: 1000.0)
    runner = WhatIfRunner(lambda: 1000.0)
    what_if = WhatIf(runner, files, lambda: None, 32_768, lambda: 1000.0)
    gateway = AdminGateway(registry, lambda: [CONFIGURED] * models, draining=a_draining(registry), what_if=what_if)
    async with administration(keys=keys, gateway=gateway) as admin:
        yield admin, runner


def job_of(runner: WhatIfRunner) -> Job:
    assert runner.latest is not None
    return runner.latest.job


async def test_a_replay_starts_and_can_be_cancelled(tmp_path: Path) -> None:
    """Nothing, then one that runs, then one that was cancelled. Only one runs at a time."""
    body = {"alternatives": [{"strategy": "round_robin"}, {"workers": 4, "cache_factor": 2.0}], "last_s": 600}
    async with served(tmp_path) as (admin, runner):
        before = await admin.get("/what-if", who="op")
        started = await admin.ask("POST", "/what-if", body, who="op")
        again = await admin.ask("POST", "/what-if", body, who="op")
        cancelled = await admin.ask("DELETE", "/what-if", who="op")

    assert {
        "object": "what_if",
        "id": None,
        "status": "idle",
        "model": None,
        "source": None,
        "started_at": None,
        "done": 0.0,
        "kv_events": None,
        "alternatives": [],
        "result": None,
        "error": None,
        "recording": {"enabled": True, "keep_s": 60.0},
    } == before
    assert (202, "running", "tiny") == (started.status_code, started.json()["status"], started.json()["model"])
    assert [
        {"strategy": "round_robin", "workers": 2, "cache_tokens": 32_768},
        {"strategy": "prefix_aware", "workers": 4, "cache_tokens": 65_536},
    ] == started.json()["alternatives"]
    assert (409, "conflict") == (again.status_code, again.json()["error"]["code"])
    assert (200, "cancelled") == (cancelled.status_code, cancelled.json()["status"])
    assert (400.0, 1.5e-6) == (job_of(runner).since, job_of(runner).saved_token_usd)


async def test_the_result_is_shown_with_its_savings(tmp_path: Path) -> None:
    """Savings are estimates against round robin, by team."""
    async with served(tmp_path) as (admin, runner):
        none = await admin.get("/savings", who="op")
        replay = runner.start(a_job(folder(tmp_path)))
        replay.result = result_of(replay.job, lambda _: None)
        replay.end("done")
        runner.of_shapes = replay.job, replay.result
        shown = await admin.get("/what-if", who="vi")
        savings = await admin.get("/savings", who="vi")

    assert (None, 0, []) == (none["begins_at"], none["requests"], none["teams"])
    assert 36 == shown["result"]["requests"]
    assert ["prefix_aware", 2] == [shown["result"]["recorded"]["fleet"][name] for name in ("strategy", "workers")]
    assert (True, "round_robin", "tiny") == (savings["is_estimate"], savings["compared_with"], savings["model"])
    assert ["blue", "red"] == [each["team"] for each in savings["teams"]]
    assert savings["requests"] == sum(each["requests"] for each in savings["teams"]) > 0


async def test_an_admin_key_of_one_team_gets_the_estimate_of_this_team(tmp_path: Path) -> None:
    async with served(tmp_path, keys=(*KEYS, AdminKey("rv", "viewer", "s3cret-of-rv", "red"))) as (admin, runner):
        job = a_job(folder(tmp_path))
        runner.of_shapes = job, result_of(job, lambda _: None)
        savings = await admin.get("/savings", who="rv")

    (red,) = savings["teams"]
    assert ("red", red["requests"]) == (red["team"], savings["requests"])


async def test_the_latest_replays_are_listed_and_found(tmp_path: Path) -> None:
    """Also one that an uploaded trace began, and without the trace."""
    async with served(tmp_path) as (admin, runner):
        for body in ({"alternatives": [{"workers": 3}]}, {"trace": TRACE, "alternatives": [{}], "kv_events": True}):
            await admin.ask("POST", "/what-if", body, who="op")
            runner.cancel()
        listed = (await admin.get("/what-if/replays", who="vi"))["data"]
        latest, first = [await admin.get(f"/what-if/replays/{each['id']}", who="vi") for each in listed]
        unknown = await admin.ask("GET", "/what-if/replays/none", who="vi")

    assert [("trace", "cancelled", 1000.0), ("recorded", "cancelled", 1000.0)] == [
        (each["source"], each["status"], each["started_at"]) for each in listed
    ]
    assert [("trace", True), ("recorded", False)] == [(each["source"], each["kv_events"]) for each in (latest, first)]
    assert [{"strategy": "prefix_aware", "workers": 3, "cache_tokens": 32_768}] == first["alternatives"]
    assert (404, "This gateway keeps no replay with this id.") == (
        unknown.status_code,
        unknown.json()["error"]["message"],
    )


async def test_a_trace_can_be_uploaded() -> None:
    """Recorded shapes are not needed for it."""
    async with served(None) as (admin, runner):
        started = await admin.ask("POST", "/what-if", {"trace": TRACE, "users": 5, "alternatives": [{}]}, who="op")

    assert 202 == started.status_code
    assert (TRACE, 5) == (job_of(runner).trace, job_of(runner).users)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 409, "Request shapes are not recorded. Set request_shapes.enabled."),
        ({"trace": TRACE}, 400, "'alternatives' is required with a trace."),
        (
            {"trace": "{}", "alternatives": [{}]},
            400,
            "'trace' is not valid: The trace: line 1 has no field 'timestamp'.",
        ),
        ({"model": "other"}, 400, "'model' names a model that is not configured; give its name, not an alias."),
        ({"alternatives": [{"strategy": "none"}]}, 400, "strategy"),
        ({"alternatives": [{"workers": 0}]}, 400, "workers"),
        ({"alternatives": [{}] * 13}, 400, "alternatives"),
        ({"users": 0}, 400, "users"),
    ],
)
async def test_faults_name_their_field(body: dict[str, Any], status: int, said: str) -> None:
    async with served(None) as (admin, _):
        answer = await admin.ask("POST", "/what-if", body, who="op")

    assert status == answer.status_code
    assert said in answer.json()["error"]["message"]


async def test_several_models_require_a_name() -> None:
    async with served(None, models=2) as (admin, _):
        answer = await admin.ask("POST", "/what-if", {}, who="op")

    assert "'model' is required, because several models are configured." == answer.json()["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_viewers_may_not_replay(tmp_path: Path, method: str) -> None:
    """Operators may: a replay takes processor time of the machine."""
    async with served(tmp_path) as (admin, _):
        answer = await admin.ask(method, "/what-if", who="vi")

    assert 403 == answer.status_code
