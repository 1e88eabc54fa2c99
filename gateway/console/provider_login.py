"""Login with an identity provider: the authorization code grant of OpenID Connect, with PKCE, state and nonce.

The provider leads the browser back with a request from another site, for which browsers withhold the cookie of the
session. The last answer of a login is therefore a page that opens the wanted page itself, and not a redirect.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gateway.api.admin_access import key_of_person
from gateway.console import answers
from gateway.console.identity_provider import (
    IdentityProvider,
    LoginAttempt,
    LoginFailed,
    ProviderUnavailable,
    SignedIn,
)
from gateway.console.login import Login
from gateway.console.login_limit import name_of
from gateway.console.pending_logins import LIFETIME_S, PendingLogin, PendingLogins
from gateway.console.site import HOME, Site, back_to

CALLBACK: Final = "/console/login/callback"
"""Path to which providers lead browsers back. The redirect URI at the provider is this path of the public address."""
COOKIE: Final = "__Host-warmgate-login"
"""Cookie with the token of a login that has begun. It is sent with the request that comes from the provider."""
_CODE: Final = re.compile(r"[a-z_]{1,60}")
MAX_PLACE: Final = 1000
"""Maximum length of the address of the page that opens after a login."""


class ProviderLogin:
    """Handlers for the login with *providers*, by name. *new_token* returns a random token with at least 256 bits."""

    def __init__(
        self,
        site: Site,
        login: Login,
        providers: Mapping[str, IdentityProvider],
        *,
        clock: Callable[[], float],
        new_token: Callable[[], str],
    ) -> None:
        self._site = site
        self._login = login
        self._providers = providers
        self._new_token = new_token
        self._pending = PendingLogins(clock=clock)

    async def start(self, request: Request) -> Response:
        """Lead the browser to the provider that the path names."""
        provider = self._providers.get(request.path_params["name"])
        if provider is None:
            raise HTTPException(404)
        wanted = request.query_params.get("next", HOME)
        place = back_to(wanted if len(wanted) <= MAX_PLACE else HOME, HOME)
        attempt = LoginAttempt(self._new_token(), self._new_token(), self._new_token())
        try:
            url = await provider.authorization_url(attempt)
        except ProviderUnavailable as fault:
            return self._unavailable(provider, fault, place)
        token = self._new_token()
        self._pending.add(
            token,
            provider,
            attempt,
            place=place,
            address=name_of(self._login.address_of(request)),
            former=self._site.session_of(request),
        )
        response = answers.redirect(url)
        response.set_cookie(
            COOKIE, token, path="/", secure=True, httponly=True, samesite="lax", max_age=int(LIFETIME_S)
        )
        return response

    async def finish(self, request: Request) -> Response:
        """Open a session for the person whom the provider leads back with a code."""
        response = await self._finished(request)
        response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
        return response

    async def _finished(self, request: Request) -> Response:
        pending = self._pending.take(request.cookies.get(COOKIE))
        state = _only(request, "state")
        if pending is None or state is None or not _equal(state, pending.attempt.state):
            return self._login.refuse(
                request, "This login was completed before, began in another browser, or is older than 10 minutes."
            )
        code, error = _only(request, "code"), _only(request, "error")
        if error is not None or code is None:
            said = error if error is not None and _CODE.fullmatch(error) else "an unknown error"
            return self._login.refuse(request, f"The identity provider did not complete the login: {said}.")
        try:
            signed_in = await pending.provider.exchange(code, _only(request, "iss"), pending.attempt)
        except LoginFailed as fault:
            return self._login.refuse(request, str(fault))
        except ProviderUnavailable as fault:
            return self._unavailable(pending.provider, fault, pending.place)
        return await self._open(request, pending, signed_in)

    async def _open(self, request: Request, pending: PendingLogin, signed_in: SignedIn) -> Response:
        key = key_of_person(signed_in.person, self._new_token())
        token = await self._login.begin(request, key, "identity provider", former=pending.former, signed_in=signed_in)
        html = self._site.render(
            "onward.html", {"text": "You are logged in.", "url": pending.place}, session=None, title="Logged in"
        )
        return answers.with_session(answers.onward(html, pending.place), token)

    def _unavailable(self, provider: IdentityProvider, fault: ProviderUnavailable, place: str) -> Response:
        text = f"The identity provider {provider.name} cannot be used now: {fault}. Admin keys still work."
        return self._login.form(503, text, place, {"retry-after": "5"})


def _only(request: Request, name: str) -> str | None:
    """Return the query parameter *name*, or None if it is missing or occurs more than once."""
    values = request.query_params.getlist(name)
    return values[0] if len(values) == 1 else None


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())
