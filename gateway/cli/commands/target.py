"""Selection of the gateway or store on which an admin command works."""

import argparse
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.login_token import stored_token
from gateway.cli.commands.output import CommandFailed
from gateway.settings import Settings, SettingsError, load

KEY = "WARMGATE_ADMIN_KEY"
URL = "WARMGATE_ADMIN_URL"
TIMEOUT_S = 30.0
"""Seconds to wait for the next data of a response. The sum of several years of usage takes a second."""


def add_target(
    parser: argparse.ArgumentParser,
    *,
    config_help: str = "settings file whose store the command uses directly, without a gateway",
) -> None:
    """Add the options that select a gateway by URL or a store by its settings."""
    where = parser.add_argument_group("target").add_mutually_exclusive_group()
    where.add_argument(
        "--url",
        metavar="URL",
        type=admin_url,
        help=f"URL of a running gateway (default: {URL}); the admin key is read from {KEY}, and without it, the login "
        "of warmgate login is used",
    )
    where.add_argument("--config", metavar="F", type=Path, help=config_help)


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects a gateway by URL."""
    parser.add_argument("--url", metavar="URL", type=admin_url, help=f"URL of a running gateway (default: {URL})")


def gateway_url(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    """Return the gateway address in *arguments* and *environ*, or None if these name settings instead.

    Raises:
        CommandFailed: the variable holds no address.
    """
    url: str | None = arguments.url
    return url or (_of_variable(environ) if arguments.config is None else None)


@asynccontextmanager
async def connected(arguments: argparse.Namespace, environ: Mapping[str, str]) -> AsyncIterator[AdminClient]:
    """Yield a client for the gateway or store selected by --url, --config or WARMGATE_ADMIN_URL, in that order.

    If none of them is given, the settings are read from environment variables.

    Raises:
        CommandFailed: if no key is given, or the store cannot be used.
        SettingsError: if the settings are wrong.
    """
    url = gateway_url(arguments, environ)
    if url is None:
        # Most commands have no use for it.
        from gateway.cli.commands.local import local_admin  # noqa: PLC0415

        settings = _settings(arguments.config, environ)
        async with local_admin(settings, wall_clock=time.time) as http:  # noqa: TID251
            yield AdminClient(http)
        return
    headers = await _credentials(url, environ)
    # Most commands have no use for this one either.
    from gateway.backends.http_client import HttpClient  # noqa: PLC0415

    async with HttpClient(base_url=url, headers=headers, timeout=TIMEOUT_S) as http:
        yield AdminClient(http)


async def _credentials(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the admin key, or without one, the header with the token of `warmgate login`."""
    key = environ.get(KEY)
    if not key:
        token = await stored_token(url, environ)
        if token is None:
            text = f"{KEY} is not set. Set it to your admin key for {url}"
            raise CommandFailed(f"{text}, or log in with warmgate login.", code=2)
        return {"authorization": f"Bearer {token}"}
    if not (key.isascii() and key.isprintable()):
        raise CommandFailed(f"{KEY} must contain only printable ASCII characters.", code=2)
    return {"x-api-key": key}


def admin_url(text: str) -> str:
    """Return *text* without a trailing slash if it is the URL of a gateway. Otherwise, raise an argparse error."""
    try:
        url = urlsplit(text)
        is_one = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_one = False
    if not is_one or not text.isascii() or any(char in text for char in " @?#"):
        raise argparse.ArgumentTypeError("the value must be a URL such as http://127.0.0.1:8081")
    return text.rstrip("/")


def _of_variable(environ: Mapping[str, str]) -> str | None:
    text = environ.get(URL)
    try:
        return admin_url(text) if text else None
    except argparse.ArgumentTypeError as fault:
        raise CommandFailed(f"{URL}: {fault}.", code=2) from None


def _settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    try:
        return load(path, environ)
    except SettingsError as fault:
        if path is not None:
            raise
        hint = f"Or select a gateway with --url or {URL}, or a settings file with --config."
        raise SettingsError([*fault.sentences, hint]) from None
