"""`warmgate audit`: who changed what."""

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
    command = commands.command("audit", _audit, help="list who changed what, latest first")
    command.add_argument(
        "--most", metavar="N", type=values.at_least_one, default=MOST, help="entries (default %(default)s)"
    )


async def _audit(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    entries = await client.listed("audit", most=arguments.most)
    if not output.is_json:
        entries = [{**entry, "changed": _changed(entry)} for entry in entries]
    output.entities(entries, _COLUMNS)


def _changed(entry: Json) -> Json | None:
    """The fields that are another than before, with their new values; None where all of it came or went."""
    before, after = entry["before"], entry["after"]
    if before is None or after is None:
        return None
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}
