"""Token of a login for the commands that call a gateway. It is refreshed before it expires."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gateway.cli.commands.device_login import DeviceLogin
from gateway.cli.commands.stored_logins import StoredLogin, StoredLogins, folder_of

if TYPE_CHECKING:
    from gateway.backends.http_client import HttpClient

TIMEOUT_S: Final = 30.0
EARLY_S: Final = 30.0
"""Seconds before its expiry at which an access token is refreshed."""


async def stored_token(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the token of the login to the gateway *url*, refreshed if it expires soon, or None without a login.

    Raises:
        CommandFailed: if the token has expired and cannot be refreshed.
    """
    logins = StoredLogins(folder_of(environ))
    login = logins.load(url)
    if login is None or _is_fresh(login):
        return None if login is None else login.access_token
    with logins.locked():
        login = logins.load(url)  # another command may have refreshed it meanwhile
        if login is None or _is_fresh(login):
            return None if login is None else login.access_token
        async with provider_client() as http:
            login = await device_login(http, login.issuer, login.client_id).refreshed(login)
        logins.save(login)
    return login.access_token


def provider_client() -> "HttpClient":
    """Return a client for requests to the provider, which follows no redirects."""
    # Most commands have no use for it.
    from gateway.backends.http_client import HttpClient  # noqa: PLC0415

    return HttpClient(timeout=TIMEOUT_S, follow_redirects=False)


def device_login(http: "HttpClient", issuer: str, client_id: str) -> DeviceLogin:
    """Return the client of *issuer* with the clock of the machine."""
    return DeviceLogin(http, issuer, client_id, clock=time.time, sleep=asyncio.sleep)  # noqa: TID251


def _is_fresh(login: StoredLogin) -> bool:
    return time.time() < login.expires_at - EARLY_S  # noqa: TID251
