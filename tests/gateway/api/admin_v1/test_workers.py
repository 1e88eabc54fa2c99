"""/admin/v1/workers."""

from collections.abc import AsyncIterator

import pytest

from cache_index import WorkerId
from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.settings import build
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import Administration, administration, fault
from tests.gateway.examples import a_draining, a_model, the_models
from tests.routing.examples import a_request, book

SETTINGS = build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}, {})


@pytest.fixture
async def admin() -> AsyncIterator[Administration]:
    models = the_models(a_model(Answers(), Answers(), name="tiny"), a_model(Answers(), name="big"))
    book(models.find("tiny").fleet, a_request(), 100.0, WorkerId("b"))
    gateway = AdminGateway(models, lambda: configured_models(SETTINGS), draining=a_draining(models))
    async with administration(gateway=gateway) as made:
        yield made


async def states(admin: Administration) -> list[tuple[str, str, str]]:
    workers = (await admin.get("/workers"))["workers"]
    return [(each["model"], each["worker"], each["state"]) for each in workers]


async def test_every_worker_is_listed(admin: Administration) -> None:
    assert [("tiny", "a", "up"), ("tiny", "b", "up"), ("big", "a", "up")] == await states(admin)


async def test_a_worker_drains_and_comes_back(admin: Administration) -> None:
    drained = await admin.ask("POST", "/workers/drain", {"worker": "a", "model": "tiny"}, who="op")
    meanwhile = await states(admin)
    back = await admin.ask("POST", "/workers/undrain", {"worker": "a"}, who="op")

    assert [("tiny", "a", "drained")] == [
        (each["model"], each["worker"], each["state"]) for each in drained.json()["workers"]
    ]
    assert [("tiny", "a", "drained"), ("tiny", "b", "up"), ("big", "a", "up")] == meanwhile
    assert ["tiny", "big"] == [each["model"] for each in back.json()["workers"]]
    assert {"up"} == {state for *_, state in await states(admin)}


@pytest.mark.parametrize(
    ("said", "left_s"), [({}, 30.0), ({"hand_over_after_s": 7}, 7.0), ({"hand_over_after_s": None}, None)]
)
async def test_a_drain_may_say_when_streams_are_handed_over(
    admin: Administration, said: dict[str, object], left_s: float | None
) -> None:
    """null: never; without a word it is drain.hand_over_after_s."""
    drained = await admin.ask("POST", "/workers/drain", {"worker": "b", **said}, who="op")

    assert [(["operator"], left_s)] == [
        (each["draining_by"], each["hand_over_in_s"]) for each in drained.json()["workers"]
    ]


@pytest.mark.parametrize(("action", "after_s"), [("drain", -1), ("drain", 10**7), ("drain", "7"), ("undrain", 7)])
async def test_a_time_that_cannot_be_is_refused(admin: Administration, action: str, after_s: object) -> None:
    response = await admin.ask("POST", f"/workers/{action}", {"worker": "a", "hand_over_after_s": after_s})

    assert (400, None, "hand_over_after_s") == fault(response)


async def test_both_are_in_the_audit_log(admin: Administration) -> None:
    await admin.ask("POST", "/workers/drain", {"worker": "a", "model": "tiny"}, who="op")
    await admin.ask("POST", "/workers/undrain", {"worker": "a"})

    assert [
        ("ow", "undrain", "worker", "a", {"models": ["tiny", "big"]}),
        ("op", "drain", "worker", "a", {"models": ["tiny"]}),
    ] == [
        (entry["who"], entry["action"], entry["kind"], entry["id"], entry["after"]) for entry in await admin.audited()
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"worker": "z"}, (404, "worker_not_found", "worker")),
        ({"worker": "b", "model": "big"}, (404, "worker_not_found", "worker")),
        ({"worker": "a", "model": "x"}, (404, "model_not_found", "model")),
        ({}, (400, None, "worker")),
        ({"worker": 1}, (400, None, "worker")),
        ({"worker": "a", "modell": "x"}, (400, None, "modell")),
    ],
)
@pytest.mark.parametrize("action", ["drain", "undrain"])
async def test_what_cannot_be_done_is_neither_done_nor_logged(
    admin: Administration, action: str, body: dict[str, object], found: tuple[int, str | None, str]
) -> None:
    assert found == fault(await admin.ask("POST", f"/workers/{action}", body))
    assert {"up"} == {state for *_, state in await states(admin)}
    assert [] == await admin.audited()


@pytest.mark.parametrize("path", ["/workers/drain", "/workers/undrain"])
async def test_a_viewer_only_looks(admin: Administration, path: str) -> None:
    assert (403, "role_not_sufficient", None) == fault(await admin.ask("POST", path, {"worker": "a"}, who="vi"))


async def test_no_one_without_a_key(admin: Administration) -> None:
    async with admin.client(None) as client:
        responses = [await client.get("/admin/v1/workers"), await client.post("/admin/v1/workers/drain")]

    assert [401, 401] == [response.status_code for response in responses]


async def test_a_worker_drains_while_the_store_is_away(admin: Administration) -> None:
    """The log of this process has it then."""
    await admin.get("/audit")
    await admin.file.run(lambda connection: connection.execute("DROP TABLE directory_audit"))
    response = await admin.ask("POST", "/workers/drain", {"worker": "b"})

    assert 200 == response.status_code
    assert ("tiny", "b", "draining") in await states(admin)
