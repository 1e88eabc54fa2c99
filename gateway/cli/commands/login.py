"""`warmgate login` and `warmgate logout`: log in to a gateway with an identity provider, for the admin commands."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.app.config_source import process_environment
from gateway.cli.commands.device_login import is_encrypted
from gateway.cli.commands.login_token import device_login, provider_client
from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.stored_logins import StoredLogin, StoredLogins, folder_of
from gateway.cli.commands.target import URL, add_url, gateway_url

SCOPE: Final = "openid offline_access"

Act = Callable[[argparse.Namespace, str, StoredLogins], Awaitable[str]]


def add_login(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("login", help="log in to a gateway with an identity provider")
    command.set_defaults(run=_run, act=_log_in)
    add_url(command)
    command.add_argument(
        "--issuer", metavar="URL", help="exact address of the issuer (default: that of the last login to this gateway)"
    )
    command.add_argument(
        "--client-id", metavar="ID", help="public client for the device grant (default: that of the last login)"
    )
    command.add_argument("--scope", metavar="TEXT", help=f"scopes to request, separated by spaces (default: {SCOPE!r})")
    command.add_argument(
        "--resource", metavar="TEXT", help="audience of the gateway, for providers that need it (RFC 8707)"
    )
    command = commands.add_parser("logout", help="revoke and delete the login to a gateway")
    command.set_defaults(run=_run, act=_log_out)
    add_url(command)


def _run(arguments: argparse.Namespace) -> int:
    environ = process_environment()
    try:
        url = _gateway(arguments, environ)
        said = asyncio.run(arguments.act(arguments, url, StoredLogins(folder_of(environ))))
        sys.stdout.write(said)
        sys.stdout.flush()
    except CommandFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.code
    except KeyboardInterrupt:
        return 1
    return 0


def _gateway(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str:
    arguments.config = None  # `gateway_url` reads it, and these commands need a running gateway
    url = gateway_url(arguments, environ)
    if url is None:
        raise CommandFailed(f"No gateway is given. Use --url or {URL}.", code=2)
    return url


async def _log_in(arguments: argparse.Namespace, url: str, logins: StoredLogins) -> str:
    wanted = _wanted(arguments, url, logins)
    async with provider_client() as http:
        device = device_login(http, wanted.issuer, wanted.client_id)
        addresses = await device.addresses()
        code = await device.begin(addresses, wanted.scope, wanted.resource)
        where = code.verification_uri_complete or code.verification_uri
        sys.stdout.write(f"Open this address in a browser, and confirm the code {code.user_code}:\n    {where}\n")
        sys.stdout.flush()
        login = await device.wait(addresses, code, wanted)
    with logins.locked():
        logins.save(login)
    return f"You are logged in to {url}.\n"


def _wanted(arguments: argparse.Namespace, url: str, logins: StoredLogins) -> StoredLogin:
    """Return the login to make, without tokens. What is not given is that of the last login."""
    last = logins.load(url)
    issuer = arguments.issuer or (None if last is None else last.issuer)
    client_id = arguments.client_id or (None if last is None else last.client_id)
    if issuer is None or client_id is None:
        raise CommandFailed("The first login to a gateway needs --issuer and --client-id.", code=2)
    if not is_encrypted(issuer):
        raise CommandFailed("--issuer must begin with https://, unless the host is this machine.", code=2)
    if not is_encrypted(url):
        text = "The address of the gateway must begin with https://, unless the host is this machine"
        raise CommandFailed(f"{text}, because others could read the token.", code=2)
    same = last if last is not None and (last.issuer, last.client_id) == (issuer, client_id) else None
    return StoredLogin(
        url=url,
        issuer=issuer,
        client_id=client_id,
        scope=arguments.scope or (SCOPE if same is None else same.scope),
        resource=arguments.resource or (None if same is None else same.resource),
        access_token="",
        expires_at=0.0,
    )


async def _log_out(_: argparse.Namespace, url: str, logins: StoredLogins) -> str:
    """Delete the login in any case, and then revoke it, because a provider that is down must not keep it here."""
    with logins.locked():
        try:
            login = logins.load(url)
        except CommandFailed:
            login = None
        existed = logins.delete(url)
    if login is None:
        return "The login was deleted.\n" if existed else f"There is no login to {url}.\n"
    async with provider_client() as http:
        try:
            is_revoked = await device_login(http, login.issuer, login.client_id).revoke(login)
        except CommandFailed as fault:
            raise CommandFailed(f"The login was deleted here, but not at the provider. {fault}") from None
    return "You are logged out.\n" if is_revoked else "The login was deleted. The provider revokes no tokens.\n"
