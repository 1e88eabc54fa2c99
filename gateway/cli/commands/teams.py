"""`warmgate team`: manage teams."""

import argparse
from typing import get_args

from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.fields import TEAM_FIELDS, add_team_fields, said_of
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.raises import add_team_raises
from gateway.cli.commands.subcommands import Subcommands
from gateway.tenancy.quota.budgets import BudgetMeasure

_COLUMNS = ("name", "weight", "priority", "models", "limits", "blocked", "declared")


def add_team(commands: Subcommands) -> None:
    team = commands.group("team", help="create, show, change and delete teams")

    command = team.command("create", _create, help="create a team")
    command.add_argument("name", metavar="NAME", nargs="?", help="team name, as shown in the ledger and in metrics")
    command.add_argument("--name", dest="named", metavar="NAME", help="team name, instead of the positional argument")
    add_team_fields(command, to_change=False)

    team.command("list", _list, help="list all teams")
    command = team.command("show", _show, help="show a team with its keys")
    command.add_argument("name", metavar="NAME")

    command = team.command("update", _update, help="change some fields of a team; lists are replaced as a whole")
    command.add_argument("name", metavar="NAME")
    add_team_fields(command, to_change=True)

    command = team.command("delete", _delete, help="delete a team; its ledger records are kept")
    command.add_argument("name", metavar="NAME")
    command.add_argument("--cascade", action="store_true", help="also delete the team's keys")

    command = team.command("credit", _credit, help="reduce the recorded usage of a budget; requires a running gateway")
    command.add_argument("name", metavar="NAME")
    command.add_argument(
        "--measure", required=True, choices=get_args(BudgetMeasure), help="limit whose recorded usage to reduce"
    )
    command.add_argument("--amount", metavar="NUMBER", required=True, type=float, help="amount in US dollars or tokens")
    command.add_argument("--key", metavar="ID", help="key whose usage to reduce (default: the whole team)")
    command.add_argument(
        "--model", metavar="NAME", help="model whose limit to credit (default: the limit for all models)"
    )
    add_team_raises(team)


async def _create(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    names = [name for name in (arguments.name, arguments.named) if name is not None]
    if len(names) != 1:
        raise CommandFailed("team create needs exactly one team name, as an argument or with --name.", code=2)
    body = {"name": names[0], **said_of(arguments, TEAM_FIELDS, now=output.now)}
    output.entity(await client.post("teams", body=body))


async def _list(client: AdminClient, _: argparse.Namespace, output: Output) -> None:
    output.entities(await client.listed("teams"), _COLUMNS)


async def _show(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    team = await client.get("teams", arguments.name)
    keys = await client.listed("keys", query={"team": arguments.name})
    output.entity({**team, "keys": [key["id"] for key in keys]})


async def _update(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    output.entity(await client.patch("teams", arguments.name, body=said_of(arguments, TEAM_FIELDS, now=output.now)))


async def _credit(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    said = {name: getattr(arguments, name) for name in ("measure", "amount", "key", "model")}
    output.entity(await client.post("teams", arguments.name, "credits", body=said))


async def _delete(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    await client.delete("teams", arguments.name, query={"cascade": "true"} if arguments.cascade else None)
    output.done(f"The team {arguments.name} is deleted.")
