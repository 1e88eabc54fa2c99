"""/admin/v1/workers: what is added, what is removed, and where workers come from."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.api.admin_v1.application import admin_api
from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.app.mapping.workers import model_workers
from gateway.settings import build
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.team_store import PutWorker
from gateway.workers.added_workers import KnownWorkers
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import KEYS, Administration, administration, fault, message
from tests.gateway.examples import a_draining, a_model, the_models

SETTINGS = build(
    {"models": [{"name": "tiny", "workers": [{"url": "http://a", "id": "a"}, {"url": "http://b", "id": "b"}]}]}, {}
)
NEW = {"model": "tiny", "url": "http://10.0.0.7:8000", "id": "w7"}


@pytest.fixture
async def admin() -> AsyncIterator[Administration]:
    models = the_models(a_model(Answers(), Answers(), name="tiny"))
    gateway = AdminGateway(models, lambda: configured_models(SETTINGS), draining=a_draining(models))
    async with administration(gateway=gateway, listed=model_workers(SETTINGS.models)) as made:
        yield made


async def listed(admin: Administration) -> list[tuple[str, str, str, str]]:
    workers = (await admin.get("/workers"))["workers"]
    return [(each["model"], each["worker"], each["source"], each["state"]) for each in workers]


async def test_an_added_worker_is_in_the_store_and_in_the_audit_log(admin: Administration) -> None:
    """Until it is removed. A gateway that has not put it in force yet says so."""
    added = await admin.ask("POST", "/workers", NEW)
    kept = (await admin.store.load()).workers
    between = await listed(admin)
    removed = await admin.ask("DELETE", "/workers?model=tiny&worker=w7")

    assert (201, [("w7", "api", "pending")]) == (
        added.status_code,
        [(each["worker"], each["source"], each["state"]) for each in added.json()["workers"]],
    )
    assert {"w7 tiny": AddedWorker("tiny", "http://10.0.0.7:8000", "w7", admin.clock())} == kept
    rest = [("tiny", "a", "settings", "up"), ("tiny", "b", "settings", "up")]
    assert [*rest, ("tiny", "w7", "api", "pending")] == between
    assert (204, rest, {}) == (removed.status_code, await listed(admin), (await admin.store.load()).workers)
    shown = {"model": "tiny", "url": "http://10.0.0.7:8000"}
    assert [("ow", "delete", "w7", shown, None), ("ow", "create", "w7", None, shown)] == [
        (each["who"], each["action"], each["id"], each["before"], each["after"]) for each in await admin.audited()
    ]


async def test_an_id_is_made_of_the_address(admin: Administration) -> None:
    """The same for every spelling, and without the address in it."""
    added = await admin.ask("POST", "/workers", {"model": "tiny", "url": "http://10.0.0.7:8000/"})
    twice = await admin.ask("POST", "/workers", {"model": "tiny", "url": "HTTP://10.0.0.7:8000"})

    (worker,) = added.json()["workers"]
    assert ("http://10.0.0.7:8000", True) == (worker["url"], worker["worker"].startswith("worker-"))
    assert (409, "conflict", "url") == fault(twice)
    assert "already has the added worker 'worker-" in message(twice)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"model": "big"}, (404, "model_not_found", "model")),
        ({"url": "http://a"}, (409, "conflict", "url")),
        ({"id": "a"}, (409, "conflict", "id")),
        ({"id": "w#7"}, (400, None, "id")),
        ({"id": "w 7"}, (400, None, "id")),
        ({"id": "w" * 201}, (400, None, "id")),
        ({"model": "m" * 301}, (400, None, "model")),
        ({"url": "http://" + "a" * 1000}, (400, None, "url")),
        ({"url": "http://me:s3cret@h"}, (400, None, "url")),
        ({"url": "file:///etc/passwd"}, (400, None, "url")),
        ({"api_key": "s3cret"}, (400, None, "api_key")),
        ({"url": None}, (400, None, "url")),
    ],
)
async def test_what_cannot_be_added_is_refused_and_not_logged(
    admin: Administration, change: dict[str, Any], found: tuple[int, str | None, str]
) -> None:
    """Fields are bounded, and no secret is taken: none would be safe in the store."""
    response = await admin.ask("POST", "/workers", NEW | change)

    assert found == fault(response)
    assert "s3cret" not in response.text
    assert ([], 0) == (await admin.audited(), (await admin.store.load()).revision)


@pytest.mark.parametrize(
    ("worker", "found", "text"),
    [
        ("a", (409, "conflict", "worker"), "is listed in the configuration (models[].workers)"),
        ("z", (404, "worker_not_found", "worker"), "There is no worker 'z' of the model 'tiny'"),
    ],
)
async def test_only_what_was_added_can_be_removed(
    admin: Administration, worker: str, found: tuple[int, str, str], text: str
) -> None:
    response = await admin.ask("DELETE", f"/workers?model=tiny&worker={worker}")

    assert found == fault(response)
    assert text in message(response)
    assert [] == await admin.audited()


@pytest.mark.parametrize("who", ["vi", "op"])
async def test_only_owners_add_and_remove(admin: Administration, who: str) -> None:
    for method, path, body in (("POST", "/workers", NEW), ("DELETE", "/workers?model=tiny&worker=w7", None)):
        assert (403, "role_not_sufficient", None) == fault(await admin.ask(method, path, body, who=who))


async def test_a_repeated_request_adds_nothing(admin: Administration) -> None:
    """Also if another replica was asked first; what was removed meanwhile is added again."""
    first = await admin.ask("POST", "/workers", NEW, idempotency_key="k-1")
    again = await admin.ask("POST", "/workers", NEW, idempotency_key="k-1")
    other = await admin.ask("POST", "/workers", NEW | {"id": "w8"}, idempotency_key="k-1")
    without = await admin.ask("POST", "/workers", NEW)

    assert [201, 201, 409, 409] == [each.status_code for each in (first, again, other, without)]
    assert first.json() == again.json()
    assert (None, "true") == tuple(each.headers.get("idempotent-replayed") for each in (first, again))
    assert 1 == len(await admin.audited())


async def test_workers_of_a_model_that_is_gone_stay_in_the_list(admin: Administration) -> None:
    """With the reason, and can be removed."""
    (entry,) = [each for each in [await _gone(admin)] if each["worker"] == "w9"]

    assert ("api", "model_not_configured", "the model 'gone' is not configured", False) == (
        *(entry[name] for name in ("source", "state", "reason", "up")),
    )
    assert 204 == (await admin.ask("DELETE", "/workers?model=gone&worker=w9")).status_code


async def _gone(admin: Administration) -> Any:
    """The entry of a worker that another gateway, with other settings, has added."""
    await admin.ask("POST", "/workers", NEW)
    audit = (await admin.store.audit()).items[0]
    await admin.store.write(PutWorker(AddedWorker("gone", "http://10.0.0.9:8000", "w9")), audit)
    return (await admin.get("/workers"))["workers"][-1]


async def test_workers_are_listed_while_the_store_is_away(admin: Administration) -> None:
    await admin.ask("POST", "/workers", NEW)
    before = await listed(admin)
    await admin.file.run(lambda connection: connection.execute("DROP TABLE directory_workers"))
    await admin.file.run(lambda connection: connection.execute("UPDATE directory SET revision = 9"))

    assert before == await listed(admin)
    assert 503 == (await admin.ask("DELETE", "/workers?model=tiny&worker=w7")).status_code


async def test_answers_have_the_fields_that_are_described(admin: Administration) -> None:
    """Whether a worker is in use or not."""
    await admin.ask("POST", "/workers", NEW)
    workers = (await admin.get("/workers"))["workers"]
    described = set(admin.api.openapi()["components"]["schemas"]["ListedWorkerResponse"]["properties"])

    assert [described] * 3 == [set(worker) for worker in workers]


async def test_without_a_gateway_workers_are_listed_and_added(admin: Administration) -> None:
    api = admin_api(
        KEYS,
        store=admin.store,
        directory=admin.directory,
        digester=admin.api.state.parts.digester,
        usage_store=admin.api.state.parts.usage,
        claims=admin.api.state.parts.claims,
        wall_clock=admin.clock,
        known_workers=lambda: KnownWorkers(model_workers(SETTINGS.models)),
    )
    admin.api = api
    added = await admin.ask("POST", "/workers", NEW)
    listing = await listed(admin)
    drained = await admin.ask("POST", "/workers/drain", {"worker": "a"})

    assert [201, 404] == [added.status_code, drained.status_code]
    rest = [("tiny", "a", "settings", "unknown"), ("tiny", "b", "settings", "unknown")]
    assert [*rest, ("tiny", "w7", "api", "unknown")] == listing
