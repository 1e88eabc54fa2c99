"""ASGI application of the console under `/console`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.api.admin_access import AdminAccess
from gateway.api.refused_logins import RefusedLogins
from gateway.console.admin_client import AdminRefused
from gateway.console.all_pages import ACTIONS, DOWNLOADS, PAGES, SENDING
from gateway.console.answers import HEADERS, NOT_KEPT, redirect
from gateway.console.identity_provider import IdentityProvider
from gateway.console.login import Login
from gateway.console.login_links import LoginLinks
from gateway.console.login_records import LoginRecords
from gateway.console.page import Action, Page
from gateway.console.provider_login import CALLBACK, ProviderLogin
from gateway.console.request_checks import RequestRefused, check_host
from gateway.console.sessions import Sessions
from gateway.console.site import HOME, LOGIN, Site
from gateway.console.static_files import PREFIX, StaticFiles
from gateway.console.templates import Templates
from gateway.server.asgi import App, Message, Receive, Send

DOCUMENTATION = "https://github.com/warmgate/warmgate/tree/main/"
"""Address of the folder that contains the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    allowed_hosts: frozenset[str]
    """Host names that requests may name, in addition to those of this machine."""
    session_idle_s: float
    session_max_s: float
    trusted_proxies: Sequence[str] = ()


def console(
    options: ConsoleOptions,
    *,
    admin: App,
    access: AdminAccess,
    links: LoginLinks,
    refused_logins: RefusedLogins,
    login_records: LoginRecords,
    clock: Callable[[], float],
    new_token: Callable[[], str],
    completions: App | None = None,
    providers: Sequence[IdentityProvider] = (),
    pages: Sequence[Page] = PAGES,
    actions: Sequence[Action] = ACTIONS,
) -> App:
    """Return the application. *admin* is the application of `/admin/v1`, which checks and executes everything.

    *new_token* returns a random token with at least 256 bits. *completions* serves completions that a page sends.
    *providers* are identity providers with which people can log in.
    """
    static_files = StaticFiles()
    templates = Templates(
        {
            "static": static_files.addresses,
            "version": version("warmgate"),
            "documentation": DOCUMENTATION,
            "once": new_token,
            "plays": completions is not None,
        }
    )
    sessions = Sessions(idle_s=options.session_idle_s, max_s=options.session_max_s, clock=clock, new_token=new_token)
    site = Site(
        pages,
        sessions=sessions,
        templates=templates,
        static_files=static_files,
        admin=admin,
        clock=clock,
        completions=completions,
    )
    login = Login(
        site,
        access=access,
        sessions=sessions,
        links=links,
        refused_logins=refused_logins,
        records=login_records,
        trusted_proxies=options.trusted_proxies,
        clock=clock,
        providers=[each.name for each in providers],
    )
    by_name = {each.name: each for each in providers}
    provider_login = ProviderLogin(site, login, by_name, clock=clock, new_token=new_token)
    handled = (RequestRefused, AdminRefused, HTTPException, Exception)
    routes = _routes(site, login, pages, (*actions, *_sending(completions)))
    if providers:
        routes += _routes_of_providers(provider_login)
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(handled, site.error))
    app.router.redirect_slashes = False
    return _with_host_check(app, options.allowed_hosts)


def _routes(site: Site, login: Login, pages: Sequence[Page], actions: Sequence[Action]) -> list[Route]:
    return [
        Route(f"{HOME}/", _to_home, methods=["GET"]),
        Route(LOGIN, login.show, methods=["GET"]),
        Route(LOGIN, login.log_in, methods=["POST"]),
        Route(f"{HOME}/logout", login.log_out, methods=["POST"]),
        Route(f"{PREFIX}{{name}}", site.static, methods=["GET"]),
        *(Route(page.path, site.page(page), methods=["GET"]) for page in pages),
        *(Route(each.path, site.download(each), methods=["GET"]) for each in DOWNLOADS),
        *(Route(each.path, site.action(each), methods=["POST"]) for each in actions),
    ]


def _routes_of_providers(login: ProviderLogin) -> list[Route]:
    return [
        Route(f"{LOGIN}/with/{{name}}", login.start, methods=["GET"]),
        Route(CALLBACK, login.finish, methods=["GET"]),
    ]


def _sending(completions: App | None) -> tuple[Action, ...]:
    """Return the actions that send completions."""
    return () if completions is None else SENDING


async def _to_home(_request: Request) -> Response:
    return redirect(HOME)


def _with_host_check(app: App, allowed: frozenset[str]) -> App:
    """Return *app*, changed so that it answers only requests for the hosts *allowed* and for this machine."""

    async def checking(scope: Message, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            check_host(request.headers, allowed)
        except RequestRefused as refused:
            response = PlainTextResponse(refused.message, refused.status, {**HEADERS, **NOT_KEPT})
            await response(scope, receive, send)
            return
        await app(scope, receive, send)

    return checking
