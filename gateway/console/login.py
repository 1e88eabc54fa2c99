"""Login with an admin key or with a one-time link, and logout. `provider_login` has the login with a provider."""

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from gateway.api.admin_access import AdminAccess, AdminKey
from gateway.api.refused_logins import RefusedLogins
from gateway.console import answers
from gateway.console.forms import form_of
from gateway.console.identity_provider import ProviderUnavailable, SignedIn
from gateway.console.login_limit import LoginLimit
from gateway.console.login_links import LoginLinks
from gateway.console.login_records import LoginRecords, Means
from gateway.console.request_checks import check_csrf, check_origin
from gateway.console.sessions import Session, Sessions
from gateway.console.site import HOME, LOGIN, Site, back_to
from gateway.protocol.errors import GatewayError
from gateway.protocol.networks import Address, Networks, source_of


class Login:
    """Handlers for login and logout. *records* records both in the audit log, and *refused_logins* failed logins."""

    def __init__(
        self,
        site: Site,
        *,
        access: AdminAccess,
        sessions: Sessions,
        links: LoginLinks,
        refused_logins: RefusedLogins,
        records: LoginRecords,
        trusted_proxies: Sequence[str],
        clock: Callable[[], float],
        providers: Sequence[str] = (),
    ) -> None:
        """Create the handlers. *providers* are the names of the identity providers that the form offers."""
        self._site = site
        self._access = access
        self._sessions = sessions
        self._links = links
        self._refused_logins = refused_logins
        self._records = records
        self._proxies = Networks(trusted_proxies)
        self._limit = LoginLimit(clock=clock)
        self._providers = providers

    async def show(self, request: Request) -> Response:
        """Show the login form, or log in with the token of a one-time link."""
        token = request.query_params.get("token")
        # Another site must not log a reader in with a link of its own.
        if token and request.headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
            key = self._links.exchange(token)
            if key is not None:
                return await self._open(request, key, HOME, "one-time link")
            text = "This link was used before, or it is older than 10 minutes. Log in with an admin key."
            return self.form(403, text, HOME)
        place = back_to(request.query_params.get("next"), HOME)
        if self._site.session_of(request) is not None:
            return answers.redirect(place)
        return self.form(200, None, place)

    async def log_in(self, request: Request) -> Response:
        """Open a session for the admin key in the form."""
        check_origin(request.headers)
        form = await form_of(request)
        place, address = back_to(form.get("next"), HOME), self.address_of(request)
        wait_s = self._limit.retry_after_s(address)
        if wait_s > 0:
            self._refused_logins.count_request(request, "too many attempts")
            headers = {"retry-after": str(int(wait_s) + 1)}
            return self.form(429, f"Too many failed logins. Try again in {int(wait_s) + 1} seconds.", place, headers)
        try:
            key = self._access.check(None, form.get("key", ""))
        except GatewayError:
            self._limit.count_failure(address)
            self._refused_logins.count_request(request, "wrong key" if form.get("key") else "no key")
            return self.form(403, "The admin key is unknown.", place)
        return await self._open(request, key, place, "admin key")

    async def log_out(self, request: Request) -> Response:
        """End the session at once, on all pages."""
        check_origin(request.headers)
        session = self._site.session_of(request)
        if session is not None:
            check_csrf((await form_of(request)).get("csrf", ""), session)
            self._sessions.end(session)
            await self._records.record_logout(session.key, self.address_of(request))
        signed_in = None if session is None else session.signed_in
        url = None if signed_in is None else await _logout_url(signed_in)
        if url is None:
            return answers.without_session(answers.redirect(LOGIN))
        context = {"text": "You are logged out of the console. The identity provider ends its session.", "url": url}
        html = self._site.render("onward.html", context, session=None, title="Logged out")
        return answers.without_session(answers.onward(html, url))

    async def begin(
        self,
        request: Request,
        key: AdminKey,
        means: Means,
        *,
        former: Session | None,
        signed_in: SignedIn | None = None,
    ) -> str:
        """Start a new session for *key* and return its token. End *former*, the session that the browser had before."""
        if former is not None:
            self._sessions.end(former)
        await self._records.record_login(key, self.address_of(request), means)
        return self._sessions.open(key, signed_in)

    def refuse(self, request: Request, text: str) -> Response:
        """Return the login form with the reason *text* for which a login with a provider failed, and count it."""
        self._refused_logins.count_request(request, "identity provider")
        return self.form(403, text, HOME)

    async def _open(self, request: Request, key: AdminKey, place: str, means: Means) -> Response:
        token = await self.begin(request, key, means, former=self._site.session_of(request))
        return answers.with_session(answers.redirect(place), token)

    def form(self, status: int, text: str | None, place: str, headers: dict[str, str] | None = None) -> Response:
        """Return the login form with *text*, if any. After the login, the browser opens *place*."""
        context = {"text": text, "next": place, "providers": self._providers}
        html = self._site.render("login.html", context, session=None, title="Log in")
        return answers.page(html, status, headers)

    def address_of(self, request: Request) -> Address | None:
        """Return the address of the browser, or None if it is unknown."""
        peer = None if request.client is None else request.client.host
        forwarded = request.headers.getlist("x-forwarded-for")
        return source_of(peer, ",".join(forwarded) if forwarded else None, self._proxies)


async def _logout_url(signed_in: SignedIn) -> str | None:
    try:
        return await signed_in.provider.logout_url(signed_in)
    except ProviderUnavailable:
        return None
