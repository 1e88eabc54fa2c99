"""`warmgate store`: what is done to the store itself, by whoever may read the settings and write to it."""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.commands.output import CommandFailed
from gateway.errors import GatewayError
from gateway.settings import Settings, environment, load

Act = Callable[[Settings, argparse.Namespace], Awaitable[str]]
"""Does it, and returns what to print."""


def add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("store", help="initialize, back up, restore and check the store")
    added = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(added, "init", _init, help="make a new store in Redis ready for gateways; done once, again does no harm")
    command = _add(added, "backup", _backup, help="write all that the store keeps to a new file; gateways may run")
    command.add_argument("file", metavar="FILE", type=Path, help="that its owner alone may read; it must not be there")
    command.add_argument(
        "--with-pepper", action="store_true", help="also the pepper that the store keeps: keep the file as safe as it"
    )
    command = _add(added, "restore", _restore, help="put a backup into an empty store")
    command.add_argument("file", metavar="FILE", type=Path)
    command.add_argument("--force", action="store_true", help="in the place of what the store has")
    _add(added, "check", _check, help="check schema, identity, pepper, and that everything belongs together")


def _add(
    added: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    act: Act,
    *,
    help: str,  # noqa: A002 - argparse's word
) -> argparse.ArgumentParser:
    command = added.add_parser(name, help=help)
    command.set_defaults(run=_run, act=act)
    command.add_argument(
        "--config", metavar="F", type=Path, help="YAML file; without it, everything comes from WARMGATE_* variables"
    )
    return command


def _run(arguments: argparse.Namespace) -> int:
    try:
        sys.stdout.write(asyncio.run(_act(arguments)))
        sys.stdout.flush()
    except CommandFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.code
    except KeyboardInterrupt:  # unlike a server, it has not done what it was told
        return 1
    return 0


async def _act(arguments: argparse.Namespace) -> str:
    settings = load(arguments.config, environment())
    if settings.store.url is None:
        raise CommandFailed("The settings name no store (store.url).", code=2)
    act: Act = arguments.act
    try:
        return await act(settings, arguments)
    except GatewayError as fault:
        raise CommandFailed(f"{fault.message}.") from None
    except OSError as fault:
        raise CommandFailed(f"{fault.filename}: {fault.strerror}.") from None


async def _init(settings: Settings, arguments: argparse.Namespace) -> str:  # noqa: ARG001
    # Other commands have no use for stores.
    from gateway.stores import initialize  # noqa: PLC0415

    made = await initialize(settings, wall_clock=time.time)  # noqa: TID251
    how = "is initialized now" if made.is_new else "was initialized before"
    return f"The store {how}: identity {made.identity.id}, pepper {made.identity.fingerprint}.\n"


async def _backup(settings: Settings, arguments: argparse.Namespace) -> str:
    from gateway.backup.store import back_up  # noqa: PLC0415

    path: Path = arguments.file
    await back_up(settings, path, with_pepper=arguments.with_pepper, wall_clock=time.time)  # noqa: TID251
    pepper = "with" if arguments.with_pepper else "without"
    return f"The backup is in {path}, {pepper} the pepper.\n"


async def _restore(settings: Settings, arguments: argparse.Namespace) -> str:
    from gateway.backup.store import restore  # noqa: PLC0415

    await restore(settings, arguments.file, force=arguments.force, wall_clock=time.time)  # noqa: TID251
    return f"The store has what {arguments.file} had.\n"


async def _check(settings: Settings, arguments: argparse.Namespace) -> str:  # noqa: ARG001
    from gateway.backup.store import check  # noqa: PLC0415

    checked = await check(settings, wall_clock=time.time)  # noqa: TID251
    if checked.faults:
        raise CommandFailed("".join(f"{fault}.\n" for fault in checked.faults).rstrip("\n"))
    of = f"identity {checked.identity}, pepper {checked.fingerprint}"
    return f"The store is sound: {of}, {checked.teams} teams, {checked.keys} keys, {checked.workers} added workers.\n"
