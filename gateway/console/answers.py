"""HTTP responses of the console, with the headers that protect its pages."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import HTMLResponse, RedirectResponse, Response

from gateway.console.static_files import StaticFile

COOKIE: Final = "__Host-warmgate-console"
"""Cookie with the token of the session. Browsers accept the prefix only with Secure, with Path=/ and without Domain."""

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types console"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every response of the console."""
NOT_KEPT: Final = {"cache-control": "no-store"}
KEPT: Final = {"cache-control": "public, max-age=31536000, immutable"}


def page(html: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with the page *html*, which browsers do not keep."""
    return HTMLResponse(html, status, {**HEADERS, **NOT_KEPT, **(headers or {})})


def redirect(location: str) -> Response:
    """Return a response that makes the browser open *location* with GET."""
    return RedirectResponse(location, 303, {**HEADERS, **NOT_KEPT})


def onward(html: str, location: str) -> Response:
    """Return a response with the page *html*, from which the browser goes on to *location* at once.

    Unlike after a redirect, the next request comes from this page: browsers send the cookie of the session, and the
    content security policy for forms does not concern it.
    """
    return HTMLResponse(html, headers={**HEADERS, **NOT_KEPT, "refresh": f"0; url={location}"})


def static(file: StaticFile) -> Response:
    """Return a response with *file*, which browsers keep, because another content gets another address."""
    return Response(file.content, media_type=file.media_type, headers={**HEADERS, **KEPT})


def with_session(response: Response, token: str) -> Response:
    """Return *response* with the cookie of a session."""
    response.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="strict")
    return response


def without_session(response: Response) -> Response:
    """Return *response*, which deletes the cookie of the session."""
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return response
