"""`warmgate audit`: list administrative changes and who made them."""

import argparse
from typing import Any

from gateway.cli.commands import values
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import Output
from gateway.cli.commands.subcommands import Subcommands

Json = dict[str, Any]

MOST = 50
_COLUMNS = ("time", "who", "role", "action", "kind", "id", "changed")


def add_audit(commands: Subcommands) -> None:
    command = commands.command("audit", _audit, help="list administrative changes, latest first")
    command.add_argument(
        "--most",
        metavar="N",
        type=values.at_least_one,
        default=MOST,
        help="maximum number of entries (default %(default)s)",
    )


async def _audit(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    entries = await client.listed("audit", most=arguments.most)
    if not output.is_json:
        entries = [{**entry, "changed": _changed(entry)} for entry in entries]
    output.entities(entries, _COLUMNS)


def _changed(entry: Json) -> Json | None:
    """Return the new values of changed fields, or None if the whole object was created or deleted."""
    before, after = entry["before"], entry["after"]
    if before is None or after is None:
        return None
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}
