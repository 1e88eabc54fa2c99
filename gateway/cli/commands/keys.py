"""`warmgate key`: manage API keys."""

import argparse
from typing import Any

from gateway.cli.commands import values
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.fields import KEY_FIELDS, add_key_fields, said_of
from gateway.cli.commands.output import Output
from gateway.cli.commands.raises import add_key_raises
from gateway.cli.commands.subcommands import Subcommands

Json = dict[str, Any]

_COLUMNS = ("id", "team", "project", "state", "expires_at", "limits", "declared")


def add_key(commands: Subcommands) -> None:
    key = commands.group("key", help="create, show, change, rotate and revoke keys")

    command = key.command("create", _create, help="create a key; its secret is shown once")
    command.add_argument("--team", metavar="NAME", required=True, help="team that the key belongs to")
    command.add_argument("--id", metavar="ID", help="ID of the key in logs and the ledger (default: generated)")
    _add_quiet(command)
    add_key_fields(command, to_change=False)

    command = key.command("list", _list, help="list all keys")
    command.add_argument("--team", metavar="NAME", help="list only keys of this team")
    command = key.command("show", _show, help="show a key without its secret, which is not stored")
    command.add_argument("id", metavar="ID")

    command = key.command("update", _update, help="change some fields of a key; lists are replaced as a whole")
    command.add_argument("id", metavar="ID")
    add_key_fields(command, to_change=True)

    command = key.command("rotate", _rotate, help="give a key a new secret, shown once")
    command.add_argument("id", metavar="ID")
    command.add_argument(
        "--grace",
        dest="grace_s",
        metavar="TIME",
        type=values.duration_s,
        default=0,
        help="time for which the previous secret stays valid, e.g. 24h (default: 0)",
    )
    command.add_argument(
        "--end-graces", action="store_true", help="immediately revoke previous secrets that are in their grace period"
    )
    _add_quiet(command)

    command = key.command("revoke", _revoke, help="delete a key; all gateways reject it within a second")
    command.add_argument("id", metavar="ID")
    add_key_raises(key)


async def _create(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    body = {"team": arguments.team, **said_of(arguments, KEY_FIELDS, now=output.now)}
    if arguments.id is not None:
        body["id"] = arguments.id
    output.secret(await client.post("keys", body=body), is_quiet=arguments.quiet)


async def _list(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    keys = await client.listed("keys", query={"team": arguments.team})
    output.entities(keys if output.is_json else [{**key, "state": _state(key)} for key in keys], _COLUMNS)


async def _show(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    output.entity(await client.get("keys", arguments.id))


async def _update(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    output.entity(await client.patch("keys", arguments.id, body=said_of(arguments, KEY_FIELDS, now=output.now)))


async def _rotate(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    body: Json = {"grace_s": arguments.grace_s}
    if arguments.end_graces:
        body["end_graces"] = True
    rotated = await client.post("keys", arguments.id, "rotate", body=body)
    output.secret(rotated, is_quiet=arguments.quiet)


async def _revoke(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    await client.delete("keys", arguments.id)
    output.done(f"The key {arguments.id} is revoked.")


def _add_quiet(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quiet", action="store_true", help="print only the secret")


def _state(key: Json) -> str:
    if key["blocked"]:
        return "blocked"
    if key["expired"]:
        return "expired"
    return "good" if key["former_until"] is None else f"rotated, previous until {key['former_until']}"
