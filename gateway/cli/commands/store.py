"""`warmgate store`: initialize, back up, restore and check the store directly. The settings must allow write access."""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.app.config_source import load_settings
from gateway.app.store_rules import StoreRules
from gateway.cli.commands.output import CommandFailed
from gateway.protocol.errors import GatewayError

Act = Callable[[StoreRules, argparse.Namespace], Awaitable[str]]
"""Function that runs a store command and returns the text to print.

``arguments.teams`` holds the declared team names.
"""


def add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("store", help="initialize, back up, restore and check the store")
    added = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(added, "init", _init, help="initialize a new Redis store; required once, safe to repeat")
    command = _add(added, "backup", _backup, help="back up the whole store to a new file; gateways can keep running")
    command.add_argument("file", metavar="FILE", type=Path, help="backup file to create, readable only by its owner")
    command.add_argument(
        "--with-pepper", action="store_true", help="include the store's pepper; protect the file like the pepper itself"
    )
    command = _add(added, "restore", _restore, help="restore a backup into an empty store")
    command.add_argument("file", metavar="FILE", type=Path)
    command.add_argument("--force", action="store_true", help="replace the contents of a store that is not empty")
    _add(added, "check", _check, help="check the schema, identity, pepper and consistency of the store")


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
        "--config", metavar="F", type=Path, help="YAML file; if omitted, all settings come from WARMGATE_* variables"
    )
    return command


def _run(arguments: argparse.Namespace) -> int:
    try:
        sys.stdout.write(asyncio.run(_act(arguments)))
        sys.stdout.flush()
    except CommandFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.code
    except KeyboardInterrupt:  # unlike a server, it has not finished its work
        return 1
    return 0


async def _act(arguments: argparse.Namespace) -> str:
    # Other commands have no use for stores.
    from gateway.app.mapping.tenancy import store_rules  # noqa: PLC0415

    settings = load_settings(arguments.config)
    if settings.store.url is None:
        raise CommandFailed("store.url is not set. Set it to the store that the command should use.", code=2)
    act: Act = arguments.act
    arguments.teams = {team.name for team in settings.teams}
    try:
        return await act(store_rules(settings), arguments)
    except GatewayError as fault:
        raise CommandFailed(f"{fault.message}.") from None
    except OSError as fault:
        raise CommandFailed(f"{fault.filename}: {fault.strerror}.") from None


async def _init(rules: StoreRules, arguments: argparse.Namespace) -> str:  # noqa: ARG001
    from gateway.app.stores import initialize  # noqa: PLC0415

    made = await initialize(rules, wall_clock=time.time)  # noqa: TID251
    how = "is now initialized" if made.is_new else "was already initialized"
    return f"The store {how}: identity {made.identity.id}, pepper {made.identity.fingerprint}.\n"


async def _backup(rules: StoreRules, arguments: argparse.Namespace) -> str:
    from gateway.cli.backup.store import back_up  # noqa: PLC0415

    path: Path = arguments.file
    await back_up(rules, path, with_pepper=arguments.with_pepper, wall_clock=time.time)  # noqa: TID251
    pepper = "with" if arguments.with_pepper else "without"
    return f"The backup is in {path}, {pepper} the pepper.\n"


async def _restore(rules: StoreRules, arguments: argparse.Namespace) -> str:
    from gateway.cli.backup.store import restore  # noqa: PLC0415

    await restore(rules, arguments.file, force=arguments.force, wall_clock=time.time)  # noqa: TID251
    return f"The store was restored from {arguments.file}.\n"


async def _check(rules: StoreRules, arguments: argparse.Namespace) -> str:
    from gateway.cli.backup.store import check  # noqa: PLC0415

    checked = await check(rules, arguments.teams, wall_clock=time.time)  # noqa: TID251
    if checked.faults:
        raise CommandFailed("".join(f"{fault}.\n" for fault in checked.faults).rstrip("\n"))
    of = f"identity {checked.identity}, pepper {checked.fingerprint}"
    return (
        f"The store is consistent: {of}, {checked.teams} teams, {checked.keys} keys, {checked.workers} added workers.\n"
    )
