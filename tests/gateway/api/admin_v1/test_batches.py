"""/admin/v1/batches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.batch.batch import BatchInfo, begun, failed, new_batch
from gateway.batch.plan import LineFault
from tests.gateway.api.admin_v1.administration import KEYS, Administration, administration
from tests.gateway.api.admin_v1.test_one_team import LIMITED
from tests.gateway.batch.examples import NOW
from tests.gateway.batch.test_batches import FIELDS, Stage, staged
from tests.gateway.examples import a_draining, the_models


def a_gateway(stage: Stage | None) -> AdminGateway:
    """A gateway with the batches of *stage*, or without batches."""
    models = the_models()
    if stage is None:
        return AdminGateway(models, tuple, draining=a_draining(models))
    return AdminGateway(models, tuple, draining=a_draining(models), batches=stage.batches, files=stage.files)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Administration, Stage]]:
    async with staged(folder) as stage, administration(keys=(*KEYS, LIMITED), gateway=a_gateway(stage)) as admin:
        yield admin, stage


async def test_a_batch_with_everything(tmp_path: Path) -> None:
    """The names are part of the API."""
    async with served(tmp_path) as (admin, stage):
        batch_id = await stage.created(metadata={"for": "tests"})
        shown = await admin.get(f"/batches/{batch_id}?team=blue")
        (listed,) = (await admin.get("/batches"))["data"]

    expected: dict[str, object] = {
        "object": "batch",
        "id": batch_id,
        "team": "blue",
        "key": "ci",
        "status": "validating",
        "endpoint": "/v1/embeddings",
        "models": [],
        "created_at": "2025-11-21T04:40:00Z",
        "expires_at": "2025-11-22T04:40:00Z",
        "in_progress_at": None,
        "finalizing_at": None,
        "cancelling_at": None,
        "ended_at": None,
        "total": 0,
        "completed": 0,
        "failed": 0,
        "can_cancel": True,
    }
    more: dict[str, object] = {
        "input_file": {"id": "file-1", "filename": "a", "bytes": 1, "lines": 1},
        "output_file": None,
        "error_file": None,
        "errors": [],
        "usage": None,
        "metadata": {"for": "tests"},
    }
    assert expected == listed
    assert {**expected, **more} == shown


async def test_faults_of_the_input_file_are_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as (admin, stage):
        batch_id = await stage.created()
        batch, _ = await stage.batches.find("blue", batch_id)
        fault = LineFault("invalid_json", "The line is not valid JSON", None, 3)
        await stage.store.put(batch.changed(failed(batch.info, [fault], NOW)).record)
        await stage.files.remove("blue", "file-1")
        shown = await admin.get(f"/batches/{batch_id}?team=blue")

    assert [{"code": "invalid_json", "message": "The line is not valid JSON", "param": None, "line": 3}] == shown[
        "errors"
    ]
    assert ("failed", "2025-11-21T04:40:00Z", False, None) == (
        shown["status"],
        shown["ended_at"],
        shown["can_cancel"],
        shown["input_file"],
    )


async def test_a_validated_batch_names_the_models_of_its_lines(tmp_path: Path) -> None:
    async with served(tmp_path) as (admin, stage):
        batch_id = await stage.created()
        batch, _ = await stage.batches.find("blue", batch_id)
        await stage.store.put(batch.changed(begun(batch.info, 2, ["tiny", "small"], NOW)).record)
        shown = await admin.get(f"/batches/{batch_id}?team=blue")

    assert ["tiny", "small"] == shown["models"]


async def test_batches_of_a_team_come_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path) as (admin, stage):
        ids = [await stage.created() for _ in range(3)]
        first = await admin.get("/batches?team=blue&limit=2")
        second = await admin.get(f"/batches?team=blue&limit=2&after={first['next']}")
        everything = await admin.get("/batches?limit=2")
        nothing = await admin.get("/batches?team=green")

    assert [ids[2], ids[1]] == [each["id"] for each in first["data"]]
    assert ([ids[0]], False, None) == ([each["id"] for each in second["data"]], second["has_more"], second["next"])
    assert (2, True, None) == (len(everything["data"]), everything["has_more"], everything["next"])
    assert [] == nothing["data"]


async def test_batches_of_all_teams_begin_with_those_that_have_not_ended(tmp_path: Path) -> None:
    """Then the newest come first."""
    async with served(tmp_path) as (admin, stage):
        for team, created in (("blue", NOW), ("green", NOW + 2), ("red", NOW + 1)):
            info = BatchInfo("/v1/embeddings", "file-1", "ci", int(created), int(NOW) + 9999)
            batch = new_batch(f"batch_{team}", team, info)
            if team == "green":
                batch = batch.changed(failed(info, [], NOW), due_at=NOW + 999)
            await stage.store.add(batch.record, max_count=9, max_size=0)
        everything = await admin.get("/batches")
        first = await admin.get("/batches?limit=2")

    assert (["red", "blue", "green"], False) == ([each["team"] for each in everything["data"]], everything["has_more"])
    assert (["red", "blue"], True) == ([each["team"] for each in first["data"]], first["has_more"])


@pytest.mark.parametrize("query", ["after=batch_1", "team=blue&after=batch_1", "limit=101", "state=failed"])
async def test_queries_that_are_wrong(tmp_path: Path, query: str) -> None:
    async with served(tmp_path) as (admin, _):
        answer = await admin.ask("GET", f"/batches?{query}", who="vi")

    assert 400 == answer.status_code


async def test_operators_cancel_batches_and_the_audit_log_shows_it(tmp_path: Path) -> None:
    """Canceling again changes nothing."""
    async with served(tmp_path) as (admin, stage):
        batch_id = await stage.created()
        path = f"/batches/{batch_id}/cancel?team=blue"
        refused = await admin.ask("POST", path, who="vi")
        unknown = await admin.ask("POST", f"/batches/{batch_id}/cancel?team=green", who="op")
        answers = [await admin.ask("POST", path, who="op") for _ in range(2)]
        (entry,) = await admin.audited()

    assert [403, 404, 200, 200] == [each.status_code for each in (refused, unknown, *answers)]
    assert ["cancelling", "cancelling"] == [each.json()["status"] for each in answers]
    assert ("op", "cancel", "batch", batch_id, "blue", {"status": "validating"}, {"status": "cancelling"}) == tuple(
        entry[name] for name in ("who", "action", "kind", "id", "team", "before", "after")
    )


async def test_an_ended_batch_cannot_be_cancelled(tmp_path: Path) -> None:
    async with served(tmp_path) as (admin, stage):
        batch_id = await stage.created()
        batch, _ = await stage.batches.find("blue", batch_id)
        await stage.store.put(batch.changed(failed(batch.info, [], NOW)).record)
        answer = await admin.ask("POST", f"/batches/{batch_id}/cancel?team=blue", who="op")
        entries = await admin.audited()

    assert (409, []) == (answer.status_code, entries)


async def test_viewers_of_a_team_see_only_its_batches(tmp_path: Path) -> None:
    async with served(tmp_path) as (admin, stage):
        batch_id = await stage.created()
        file = (await stage.files.find("blue", "file-1")).info
        await stage.files.add("green", "file-9", file)
        other = (await stage.batches.create("green", "ci", {**FIELDS, "input_file_id": "file-9"})).id
        listed = await admin.get("/batches", who="bv")
        own = await admin.get(f"/batches/{batch_id}", who="bv")
        answers = [
            await admin.ask("GET", path, who="bv")
            for path in (f"/batches/{other}?team=green", f"/batches/{other}?team=blue", "/batches?team=green")
        ]
        cancelled = await admin.ask("POST", f"/batches/{batch_id}/cancel?team=blue", who="bv")

    assert ([batch_id], batch_id) == ([each["id"] for each in listed["data"]], own["id"])
    assert [403, 404, 403, 403] == [answer.status_code for answer in (*answers, cancelled)]


async def test_without_files_there_is_no_route() -> None:
    async with administration(gateway=a_gateway(None)) as admin:
        answer = await admin.ask("GET", "/batches", who="vi")

    assert 404 == answer.status_code
