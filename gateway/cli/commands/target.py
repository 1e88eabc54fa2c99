"""Target of a command: the gateway at an address, or the store of a configuration."""

import argparse
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed
from gateway.settings import Settings, SettingsError, load

KEY = "WARMGATE_ADMIN_KEY"
URL = "WARMGATE_ADMIN_URL"
TIMEOUT_S = 30.0
"""Seconds for an answer to begin, or to go on: sums of years take a second."""


def add_target(parser: argparse.ArgumentParser) -> None:
    """The options that say where, of which one is enough."""
    where = parser.add_argument_group("where").add_mutually_exclusive_group()
    where.add_argument(
        "--url",
        metavar="URL",
        type=admin_url,
        help=f"URL of a running gateway; default: {URL}. {KEY} holds the admin key",
    )
    where.add_argument(
        "--config", metavar="F", type=Path, help="settings that name a store: the command works on it directly"
    )


@asynccontextmanager
async def connected(arguments: argparse.Namespace, environ: Mapping[str, str]) -> AsyncIterator[AdminClient]:
    """A client for the gateway that *arguments* and *environ* mean: --url, --config, WARMGATE_ADMIN_URL, in that order.

    With none of them the settings come from variables alone.

    Raises:
        CommandFailed: no key is given, or the store cannot be used.
        SettingsError: the settings are wrong.
    """
    url = arguments.url or (_of_variable(environ) if arguments.config is None else None)
    if url is None:
        # Most commands have no use for it.
        from gateway.cli.commands.local import local_admin  # noqa: PLC0415

        settings = _settings(arguments.config, environ)
        async with local_admin(settings, wall_clock=time.time) as http:  # noqa: TID251
            yield AdminClient(http)
        return
    key = environ.get(KEY)
    if not key:
        raise CommandFailed(f"{KEY} is not set: it holds the admin key that {url} knows you by.", code=2)
    if not (key.isascii() and key.isprintable()):
        raise CommandFailed(f"{KEY} does not contain a valid key.", code=2)
    # Most commands have no use for this one either.
    from gateway.backends.http_client import HttpClient  # noqa: PLC0415

    async with HttpClient(base_url=url, headers={"x-api-key": key}, timeout=TIMEOUT_S) as http:
        yield AdminClient(http)


def admin_url(text: str) -> str:
    """*text*, if it is the address of a gateway."""
    try:
        url = urlsplit(text)
        is_one = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_one = False
    if not is_one or not text.isascii() or any(char in text for char in " @?#"):
        raise argparse.ArgumentTypeError("it must be an address such as http://127.0.0.1:8081")
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
        hint = f"Or say which gateway is meant: --url, {URL}, or --config."
        raise SettingsError([*fault.sentences, hint]) from None
