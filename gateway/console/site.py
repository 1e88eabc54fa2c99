"""Handlers of the console for pages, event streams, actions and static files."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.console import answers
from gateway.console.admin_client import AdminClient, AdminRefused, Query
from gateway.console.events import EventStreams
from gateway.console.forms import form_of
from gateway.console.page import Action, Context, Done, Download, Page, Sent, View
from gateway.console.playground import Played
from gateway.console.request_checks import RequestRefused, check_csrf, check_origin
from gateway.console.sessions import Session, Sessions
from gateway.console.static_files import StaticFiles
from gateway.console.templates import Templates
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.stop import SCOPE_KEY

HOME = "/console"
LOGIN = "/console/login"
TEAM = "/console/teams"
EVENTS = "text/event-stream"

Handler = Callable[[Request], Awaitable[Response]]


class Site:
    """Handlers that need a session. *admin* is the application of the admin API. *completions* serves completions, or
    is None if the console cannot send any.
    """

    def __init__(
        self,
        pages: Sequence[Page],
        *,
        sessions: Sessions,
        templates: Templates,
        static_files: StaticFiles,
        admin: App,
        clock: Callable[[], float],
        completions: App | None = None,
    ) -> None:
        self._sessions = sessions
        self._templates = templates
        self._static_files = static_files
        self._admin = admin
        self._completions = completions
        self._sections = {page.path: page.section or page.path for page in pages}
        self._navigation = [page for page in pages if page.in_navigation]
        self._streams = EventStreams(is_live=sessions.is_live, clock=clock)

    def page(self, page: Page) -> Handler:
        """Return the handler of *page*, which also serves the event stream of its live parts."""

        async def serve(request: Request) -> Response:
            is_stream = EVENTS in request.headers.get("accept", "")
            session = self.session_of(request, is_use=not is_stream)
            if session is None:
                return self._needs_login(request, is_stream=is_stream)
            if session.key.team is not None and not page.for_one_team:
                return self._only_for_all_teams(page, session)
            view = self._view(request, session)
            if is_stream:
                return self._events(request, page, view)
            context = await page.load(view)
            html = self.render(
                page.template,
                context,
                session=session,
                title=page.title,
                section=self._sections[page.path],
                is_live=bool(page.live),
            )
            return answers.page(html)

        return serve

    def action(self, action: Action) -> Handler:
        """Return the handler of *action*."""

        async def serve(request: Request) -> Response:
            check_origin(request.headers)
            session = self.session_of(request)
            if session is None:
                return answers.redirect(LOGIN)
            is_team_owner = session.key.team is not None and session.key.role == "owner"
            if not (session.key.may(action.role) or (action.for_team_owner and is_team_owner)):
                raise RequestRefused(403, f"This action needs the role {action.role}.")
            form = await form_of(request, max_upload_bytes=action.max_upload_bytes)
            check_csrf(form.get("csrf", ""), session)
            try:
                outcome = await action.act(self._view(request, session), form)
            except AdminRefused as refused:
                session.notify("failed", refused.message)
                return answers.redirect(back_to(form.get("back"), action.back))
            if isinstance(outcome, Done):
                session.notify(outcome.kind, outcome.text)
                return answers.redirect(outcome.location)
            section = self._sections.get(action.back)
            html = self.render(outcome.template, outcome.context, session=session, title=outcome.title, section=section)
            if isinstance(outcome, Sent):
                assert self._completions is not None, "the console cannot send completions"
                return Played(self._completions, html, body=outcome.body, key=outcome.key)
            return answers.page(html)

        return serve

    def download(self, download: Download) -> Handler:
        """Return the handler of *download*."""

        async def serve(request: Request) -> Response:
            session = self.session_of(request)
            if session is None:
                return self._needs_login(request, is_stream=False)
            view = self._view(request, session)
            path, query = download.source(view)
            return Forwarded(view.admin, path, query)

        return serve

    async def static(self, request: Request) -> Response:
        """Serve a file of the folder `static`."""
        file = self._static_files.find(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        return answers.static(file)

    async def error(self, request: Request, fault: Exception) -> Response:
        """Return the error page for *fault*."""
        match fault:
            case RequestRefused() | AdminRefused():
                status, text = fault.status, fault.message
            case HTTPException(status_code=404):
                status, text = 404, "The console has no page with this address."
            case HTTPException(status_code=405):
                status, text = 405, "This address cannot be used in this way."
            case _:
                status, text = 500, "The console failed to serve this request. The log of the gateway has the reason."
        session = self.session_of(request, is_use=False)
        context = {"status": status, "text": text}
        return answers.page(self.render("error.html", context, session=session, title=f"Error {status}"), status)

    def session_of(self, request: Request, *, is_use: bool = True) -> Session | None:
        """Return the session of *request*, or None if it has none."""
        return self._sessions.find(request.cookies.get(answers.COOKIE), is_use=is_use)

    def render(
        self,
        template: str,
        context: Context,
        *,
        session: Session | None,
        title: str,
        section: str | None = None,
        is_live: bool = False,
    ) -> str:
        """Return the HTML of a whole page with the navigation for *session*.

        *section* is the path of the page that the navigation marks. *is_live* states whether parts of the page change.
        """
        return self._templates.render(
            template,
            {
                **_shared(session),
                "title": title,
                "navigation": self._navigation_of(session),
                "section": section,
                "is_live": is_live,
                "notices": [] if session is None else session.take_notices(),
                **context,
            },
        )

    def _navigation_of(self, session: Session | None) -> list[Page]:
        if session is None:
            return []
        return [page for page in self._navigation if page.for_one_team or session.key.team is None]

    def _view(self, request: Request, session: Session) -> View:
        client = AdminClient(self._admin, session.key)
        return View(session, client, dict(request.query_params), dict(request.path_params))

    def _only_for_all_teams(self, page: Page, session: Session) -> Response:
        """Lead from the overview to the team of the admin key, and refuse other pages that show all teams."""
        if page.path == HOME:
            return answers.redirect(f"{TEAM}/{session.key.team}")
        raise RequestRefused(403, f"Your admin key is limited to the team {session.key.team}.")

    def _needs_login(self, request: Request, *, is_stream: bool) -> Response:
        if is_stream:
            return Response(status_code=401, headers={**answers.HEADERS, **answers.NOT_KEPT})
        query = f"?{request.url.query}" if request.url.query else ""
        place = f"{request.url.path}{query}"
        return answers.redirect(LOGIN if place == HOME else f"{LOGIN}?next={quote(place, safe='')}")

    def _events(self, request: Request, page: Page, view: View) -> Response:
        if not page.live:
            raise HTTPException(404)
        if not self._streams.has_room(view.session):
            return Response(status_code=429, headers={**answers.HEADERS, **answers.NOT_KEPT})
        stop = request.scope.get("state", {}).get(SCOPE_KEY)
        stream = self._streams.stream(
            view.session, partial(self._parts, page, view), interval_s=page.interval_s, stop=stop
        )
        headers = {**answers.HEADERS, **answers.NOT_KEPT, "x-accel-buffering": "no"}
        return StreamingResponse(stream, media_type=EVENTS, headers=headers)

    async def _parts(self, page: Page, view: View) -> dict[str, str]:
        """Return the HTML of each live part of *page*. An error of the admin API keeps the parts as they are."""
        try:
            context = {**_shared(view.session), **await page.load(view)}
        except AdminRefused:
            return {}
        return {name: self._templates.render(template, context) for name, template in page.live.items()}


class Forwarded(Response):
    """Response of the admin API that passes through the console, with the headers that protect it."""

    def __init__(self, admin: AdminClient, path: tuple[str, ...], query: Query) -> None:
        super().__init__()
        self._answer = partial(admin.forward, path, query)

    async def __call__(self, _scope: Message, receive: Receive, send: Send) -> None:
        """Send the response as it arrives."""

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in answers.HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._answer(receive, protected)


def back_to(place: str | None, otherwise: str) -> str:
    """Return *place* if it is a path of the console, else *otherwise*. A form or a link states *place*."""
    if place is None or not (place == HOME or place.startswith((f"{HOME}/", f"{HOME}?"))):
        return otherwise
    return place if place.isascii() and place.isprintable() and "\\" not in place else otherwise


def _shared(session: Session | None) -> Context:
    """Return the values that pages and live parts have in common."""
    return {"key": None if session is None else session.key, "csrf": "" if session is None else session.csrf}
