"""Registration and execution of the `warmgate` commands that call the admin API."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.app.config_source import process_environment
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.target import add_target, connected

Ask = Callable[[AdminClient, argparse.Namespace, Output], Awaitable[None]]


class Subcommands:
    """Registration of commands in *added*, the object that argparse's `add_subparsers` returns."""

    def __init__(self, added: "argparse._SubParsersAction[Any]") -> None:
        self._added = added

    def group(self, name: str, *, help: str) -> "Subcommands":  # noqa: A002 - argparse's word
        parser = self._added.add_parser(name, help=help)
        return Subcommands(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))

    def command(self, name: str, ask: Ask, *, help: str) -> argparse.ArgumentParser:  # noqa: A002
        """Add a command that runs the function *ask*, with the options that all admin commands share."""
        parser: argparse.ArgumentParser = self._added.add_parser(name, help=help)
        parser.set_defaults(run=run, ask=ask)
        parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON")
        add_target(parser)
        return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the admin command that *arguments* describe and return its exit code.

    Raises:
        SettingsError: if the settings are invalid.
    """
    now = time.time()  # noqa: TID251
    output = Output(sys.stdout.buffer, is_json=arguments.is_json, now=now)
    try:
        asyncio.run(_carry_out(arguments, output))
        sys.stdout.flush()
    except CommandFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.code
    except KeyboardInterrupt:  # unlike a server, it has not finished its work
        return 1
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. The interpreter flushes once more at its end: to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


async def _carry_out(arguments: argparse.Namespace, output: Output) -> None:
    async with connected(arguments, process_environment()) as client:
        await arguments.ask(client, arguments, output)
