"""Checks of requests before the console serves them: the host, and the page from which a request was sent.

The first check prevents that a foreign domain name, which an attacker points at this address, reaches the console (DNS
rebinding). The second check prevents that a foreign page sends requests with the cookie of a session (CSRF).
"""

import hmac
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from gateway.console.sessions import Session

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Hosts that the console always answers."""


class RequestRefused(Exception):
    """Raised for a request that the console does not serve. The message says what is wrong."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def check_host(headers: Mapping[str, str], allowed: Collection[str]) -> None:
    """Check the host name in the header ``host``, without its port.

    Raises:
        RequestRefused: if the header is missing or names a host that is not allowed.
    """
    host = host_name(headers.get("host", ""))
    if not host:
        raise RequestRefused(400, "The request names no host.")
    if host not in allowed and host not in LOOPBACK:
        raise RequestRefused(
            421, f"The console does not answer requests for the host {host[:100]!r}. Add it to console.allowed_hosts."
        )


def host_name(host: str) -> str:
    """Return the name in the value *host* of a ``host`` header in lower case, without the port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].rstrip(".")


def check_origin(headers: Mapping[str, str]) -> None:
    """Check that a page of the console itself sent an unsafe request.

    Browsers state this in ``sec-fetch-site``. A browser that omits it, which is the case for addresses with http://
    except this machine, names the page in ``origin``.

    Raises:
        RequestRefused: if another page sent the request, or the headers do not say which page sent it.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise RequestRefused(403, "Another site sent this request. Repeat the action on a page of the console.")
        return
    origin = headers.get("origin")
    if origin is None:
        raise RequestRefused(403, "The request names neither Sec-Fetch-Site nor Origin. Use a current browser.")
    if urlsplit(origin).netloc.lower() != headers.get("host", "").strip().lower():
        raise RequestRefused(403, "Another site sent this request. Repeat the action on a page of the console.")


def check_csrf(given: str, session: Session) -> None:
    """Check the token of a form.

    Raises:
        RequestRefused: if *given* is not the token of *session*.
    """
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise RequestRefused(403, "This form belongs to an earlier session. Open the page again and repeat the action.")
