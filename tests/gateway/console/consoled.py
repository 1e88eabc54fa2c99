"""The console over the admin application of its tests, and browsers that keep a cookie."""

import itertools
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gateway.api.admin_access import AdminAccess, AdminKey
from gateway.api.admin_v1.parts import AdminGateway
from gateway.console.all_pages import ACTIONS, PAGES
from gateway.console.answers import COOKIE
from gateway.console.application import ConsoleOptions, console
from gateway.console.identity_provider import IdentityProvider
from gateway.console.login_links import LoginLinks
from gateway.console.login_records import LoginRecords
from gateway.console.page import Action, Page
from gateway.server.asgi import App
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import KEYS, Administration, administration
from tests.gateway.api.admin_v1.test_models import of
from tests.gateway.examples import Clock, a_model, the_models

SAME = {"sec-fetch-site": "same-origin"}
"""Header of a request that a page of the console sends."""


@dataclass
class Browser:
    """A client that keeps cookies and follows no redirects."""

    http: httpx.AsyncClient

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
        return await self.http.post(path, data=fields, headers=SAME if headers is None else headers)

    async def log_in(self, secret: str = "s3cret-of-ow") -> httpx.Response:
        return await self.post("/console/login", None, key=secret)

    async def submit(self, path: str, **fields: str) -> httpx.Response:
        """Send a form with the token of the session."""
        return await self.post(path, None, csrf=await self.csrf(), **fields)

    async def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', (await self.get("/console")).text)
        assert found is not None
        return found[1]

    @property
    def cookie(self) -> str | None:
        return self.http.cookies.get(COOKIE)


@dataclass
class Consoled:
    app: App
    administration: Administration
    clock: Clock
    links: LoginLinks

    def browser(self, host: str = "127.0.0.1:8080", peer: str = "127.0.0.1") -> Browser:
        transport = httpx.ASGITransport(self.app, client=(peer, 1234))
        return Browser(httpx.AsyncClient(transport=transport, base_url=f"https://{host}"))

    async def logged_in(self, who: str = "ow") -> Browser:
        browser = self.browser()
        assert 303 == (await browser.log_in(f"s3cret-of-{who}")).status_code
        return browser

    async def changes(self) -> list[Any]:
        """Audit log entries except those of logins, latest first."""
        return [entry for entry in await self.administration.audited() if entry["kind"] != "login"]


@asynccontextmanager
async def consoled(
    *,
    keys: tuple[AdminKey, ...] = KEYS,
    gateway: AdminGateway | None = None,
    pages: Sequence[Page] = PAGES,
    actions: Sequence[Action] = ACTIONS,
    allowed_hosts: frozenset[str] = frozenset({"gateway.example.com"}),
    completions: App | None = None,
    providers: Sequence[IdentityProvider] = (),
    **how: Any,
) -> AsyncIterator[Consoled]:
    gateway = gateway or of(the_models(a_model(Answers(), name="tiny")))
    async with administration(keys=keys, gateway=gateway, **how) as admin:
        clock, numbers = Clock(), itertools.count(1)
        links = LoginLinks(clock=clock)
        app = console(
            ConsoleOptions(
                allowed_hosts=allowed_hosts, session_idle_s=600, session_max_s=3600, trusted_proxies=["10.0.0.0/8"]
            ),
            admin=admin.api,
            access=AdminAccess(keys),
            links=links,
            refused_logins=admin.refused_logins,
            login_records=LoginRecords(admin.store, wall_clock=admin.clock),
            clock=clock,
            new_token=lambda: f"token-{next(numbers)}",
            completions=completions,
            providers=providers,
            pages=pages,
            actions=actions,
        )
        yield Consoled(app, admin, clock, links)
