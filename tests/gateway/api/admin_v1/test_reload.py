"""/admin/v1/reload."""

from collections.abc import Awaitable, Callable

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.settings import build
from gateway.telemetry.reloads import Reloaded
from tests.gateway.api.admin_v1.administration import administration, fault, message
from tests.gateway.examples import a_draining, the_models

SETTINGS = build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}, {})


def gateway(reload: Callable[[], Awaitable[Reloaded]] | None) -> AdminGateway:
    models = the_models()
    return AdminGateway(models, lambda: configured_models(SETTINGS), reload, draining=a_draining(models))


def coming_to(reloaded: Reloaded) -> Callable[[], Awaitable[Reloaded]]:
    async def reload() -> Reloaded:
        return reloaded

    return reload


async def test_what_came_of_it_is_reported_and_logged() -> None:
    reload = coming_to(Reloaded("applied", needs_restart=("server.port",)))
    async with administration(gateway=gateway(reload)) as admin:
        response = await admin.ask("POST", "/reload", who="op")
        (entry,) = await admin.audited()

    found = {"outcome": "applied", "needs_restart": ["server.port"]}
    assert (200, {"object": "reload"} | found) == (response.status_code, response.json())
    assert ("op", "reload", "settings", "configuration", found) == tuple(
        entry[name] for name in ("who", "action", "kind", "id", "after")
    )


async def test_a_configuration_that_is_no_good_is_a_conflict() -> None:
    """With every fault, and nothing is logged: nothing has changed."""
    reload = coming_to(Reloaded("refused", ("models[0].name is missing.", "server.port is 'x'.")))
    async with administration(gateway=gateway(reload)) as admin:
        response = await admin.ask("POST", "/reload")
        entries = await admin.audited()

    assert (409, "conflict", None) == fault(response)
    assert "nothing has changed: models[0].name is missing. server.port is 'x'." in message(response)
    assert [] == entries


async def test_without_a_file_there_is_nothing_to_read() -> None:
    async with administration(gateway=gateway(None)) as admin:
        response = await admin.ask("POST", "/reload")

    assert (409, "conflict", None) == fault(response)


@pytest.mark.parametrize(
    ("who", "content", "found"),
    [
        ("vi", b"", (403, "role_not_sufficient", None)),
        ("ow", b"a=1", (415, "unsupported_media_type", None)),
    ],
)
async def test_who_may_not_changes_nothing(who: str, content: bytes, found: tuple[int, str, None]) -> None:
    async def reload() -> Reloaded:
        raise AssertionError("nobody may")

    async with administration(gateway=gateway(reload)) as admin, admin.client(who) as client:
        response = await client.post("/admin/v1/reload", content=content)

    assert found == fault(response)
