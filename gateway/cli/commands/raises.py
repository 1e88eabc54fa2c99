"""Commands for temporary raises of limits, below `warmgate team` and `warmgate key`."""

import argparse
from typing import Any

from gateway.cli.commands import values
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.subcommands import Subcommands

_COLUMNS = ("id", "scope", "name", "measure", "amount", "until", "created_by", "reason")


def add_team_raises(team: Subcommands) -> None:
    """Add the commands for raises to the group of commands `warmgate team`."""
    command = team.command("raise", _raise_team, help="raise a limit for some time")
    command.add_argument("name", metavar="NAME")
    _add_raise(command)
    command.add_argument("--user", metavar="NAME", help="end user whose limit to raise (default: the team)")
    command.add_argument("--session", metavar="NAME", help="session whose limit to raise")
    command.add_argument("--project", metavar="NAME", help="project whose limit to raise")
    command = team.command("raises", _list_team, help="list the raises that have not ended")
    command.add_argument("name", metavar="NAME")
    command = team.command("end-raise", _end_team, help="end a raise of a limit")
    command.add_argument("name", metavar="NAME")
    command.add_argument("id", metavar="ID", help="ID of the raise")


def add_key_raises(key: Subcommands) -> None:
    """Add the commands for raises to the group of commands `warmgate key`."""
    command = key.command("raise", _raise_key, help="raise a limit for some time")
    command.add_argument("name", metavar="ID")
    _add_raise(command)
    command = key.command("raises", _list_key, help="list the raises that have not ended")
    command.add_argument("name", metavar="ID")
    command = key.command("end-raise", _end_key, help="end a raise of a limit")
    command.add_argument("name", metavar="ID")
    command.add_argument("id", metavar="RAISE", help="ID of the raise")


def _add_raise(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "limit", metavar="MEASURE=N", type=values.limit, help="limit to raise, and its amount meanwhile"
    )
    command.add_argument(
        "--for",
        dest="for_s",
        metavar="TIME",
        type=values.duration_s,
        required=True,
        help="time after which the raise ends, e.g. 2h or 3d",
    )
    command.add_argument("--reason", metavar="TEXT", required=True, help="reason for the audit log")
    command.add_argument(
        "--model", metavar="NAME", help="model whose limit to raise (default: the limit for all models)"
    )


async def _raise_team(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    owner = {name: getattr(arguments, name) for name in ("user", "session", "project")}
    output.entity(await client.post("teams", arguments.name, "raises", body=_body(arguments) | owner))


async def _raise_key(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    output.entity(await client.post("keys", arguments.name, "raises", body=_body(arguments)))


async def _list_team(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    output.entities((await client.get("teams", arguments.name, "raises"))["data"], _COLUMNS)


async def _list_key(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    output.entities((await client.get("keys", arguments.name, "raises"))["data"], _COLUMNS)


async def _end_team(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    await client.delete("teams", arguments.name, "raises", arguments.id)
    output.done(f"The raise {arguments.id} has ended.")


async def _end_key(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    await client.delete("keys", arguments.name, "raises", arguments.id)
    output.done(f"The raise {arguments.id} has ended.")


def _body(arguments: argparse.Namespace) -> dict[str, Any]:
    limit = arguments.limit
    if limit.amount is None:
        raise CommandFailed("A raise needs an amount, such as tokens_per_minute=20000.", code=2)
    return {
        "measure": limit.measure,
        "amount": limit.amount,
        "for_s": arguments.for_s,
        "reason": arguments.reason,
        "model": arguments.model,
    }
