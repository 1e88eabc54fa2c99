import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest
from fastapi import FastAPI

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.application import admin_api
from gateway.app.mapping.tenancy import store_rules
from gateway.app.stores import stores_of
from gateway.cli.main import main
from gateway.server.asgi import Message, Receive, Send
from gateway.settings import Settings, build
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.secret import Digester
from tests.gateway.cli.commands.terminal import Printed, Terminal, entry, terminal
from tests.gateway.server import harness

__all__ = ["terminal"]

VIEWER = "the-secret-of-a-viewer"
OWNER = "the-secret-of-an-owner"


def administration(given: Settings) -> FastAPI:
    """`/admin/v1` over the store of the settings, as a gateway has it."""
    stores = stores_of(store_rules(given), wall_clock=time.time)

    async def digester() -> Digester:
        return Digester(await stores.identify())

    return admin_api(
        (AdminKey("watcher", "viewer", VIEWER), AdminKey("boss", "owner", OWNER)),
        store=stores.teams,
        directory=Directory(),
        digester=digester,
        usage_store=stores.usage,
        claims=stores.claims,
        wall_clock=time.time,
    )


class Gateway:
    """Has nothing but administration, on a port of its own."""

    def __init__(self, given: Settings) -> None:
        self._app = harness.create_app(given)
        self.admin = administration(given)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def beside_a_gateway(terminal: Terminal, act: Callable[[str], list[Printed]]) -> list[Printed]:
    """What *act* printed, called with the address of the administration of a gateway that runs."""
    port = harness.free_port()
    given = build(
        {
            "models": [{"name": "tiny", "workers": [{"url": "http://a"}]}],
            "admin": {"port": port},
            "server": {"port": 0},
            "store": {"url": f"sqlite:///{terminal.store}"},
        },
        {},
    )

    def client(url: str) -> list[Printed]:
        printed = act(f"http://127.0.0.1:{port}")
        with suppress(httpx.HTTPError):
            httpx.get(f"{url}/SIGTERM", timeout=60)
        return printed

    return harness.while_served(client, given, create_app=Gateway)


def test_an_address_and_a_key_do_what_the_store_does(terminal: Terminal) -> None:
    """Over a real connection; who did it is the key that was brought."""
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", OWNER)
    terminal.book([entry(request_id="r-1")])

    def act(url: str) -> list[Printed]:
        terminal.monkeypatch.setenv("WARMGATE_ADMIN_URL", url)
        return [
            terminal.run("team", "create", "blue"),
            terminal.run("key", "create", "--team", "blue", "--id", "ci", "--quiet"),
            terminal.run("usage", "--records", "--month", "2026-11", "--url", url),
            terminal.run("audit", "--json"),
        ]

    printed = beside_a_gateway(terminal, act)

    assert [(0, "")] * 4 == [(each.code, each.err) for each in printed]
    assert printed[1].out.startswith("wg-ci-")
    assert [["time", "request_id", "team"], ["2026-11-21T08:00:00.000Z", "r-1", "blue"]] == [
        line.split(",")[:3] for line in printed[2].out.splitlines()
    ]
    assert ["boss", "boss"] == [entry["who"] for entry in printed[3].json]
    assert ["blue"] == [team["name"] for team in terminal.there("team", "list", "--json").json if not team["declared"]]


def test_a_key_that_may_not_is_reported_so(terminal: Terminal) -> None:
    """With the role that is needed; and neither secret is shown."""

    def act(url: str) -> list[Printed]:
        terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", VIEWER)
        forbidden = terminal.run("team", "create", "blue", "--url", url)
        terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", "another-secret")
        return [forbidden, terminal.run("team", "list", "--url", url)]

    forbidden, unknown = beside_a_gateway(terminal, act)

    assert (1, "This needs the role 'owner'; the admin key 'watcher' has the role 'viewer'.\n") == (
        forbidden.code,
        forbidden.err,
    )
    assert (1, "The admin key is unknown.\n") == (unknown.code, unknown.err)


def test_a_command_sees_what_a_gateway_on_the_same_file_has_done(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", OWNER)

    def act(url: str) -> list[Printed]:
        return [
            terminal.there("team", "create", "by-command"),
            terminal.run("team", "create", "by-gateway", "--url", url),
            terminal.run("team", "list", "--json", "--url", url),
            terminal.there("team", "list", "--json"),
        ]

    *_, of_gateway, of_command = beside_a_gateway(terminal, act)

    assert ["by-command", "by-gateway"] == [team["name"] for team in of_gateway.json]
    assert ["by-command", "by-gateway", "declared"] == [team["name"] for team in of_command.json]


def test_a_reader_that_has_enough_ends_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as unreachable:
        monkeypatch.setattr(sys, "stdout", unreachable)

        assert 1 == main(["team", "list", "--config", str(terminal.config)])
