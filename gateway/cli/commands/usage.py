"""`warmgate usage`: report usage and cost."""

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from gateway.cli.commands import values
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.subcommands import Subcommands
from gateway.tenancy.ledger.export import sums_csv
from gateway.tenancy.ledger.usage_store import Dimension, UsageSum

Json = dict[str, Any]

_DIMENSIONS: tuple[str, ...] = get_args(Dimension)
_MEASURES = UsageSum.__struct_fields__[1:]
_TOTAL = "total"


def add_usage(commands: Subcommands) -> None:
    command = commands.command("usage", _usage, help="show usage and cost of teams and keys")
    command.add_argument("--month", metavar="YYYY-MM", type=values.month, help="month to report (default: this month)")
    command.add_argument(
        "--from", dest="first_day", metavar="DAY", type=values.day, help="first day to report, instead of a month"
    )
    command.add_argument(
        "--to", dest="last_day", metavar="DAY", type=values.day, help="last day to report, inclusive (default: today)"
    )
    for name in ("team", "key", "project", "model", "backend"):
        command.add_argument(f"--{name}", metavar="NAME", help=f"report only the usage of this {name}")
    command.add_argument(
        "--by",
        metavar="WHAT",
        type=_dimensions,
        action="extend",
        default=[],
        help=f"dimensions to group by, separated by commas; available: {', '.join(_DIMENSIONS)}",
    )
    command.add_argument(
        "--records",
        action="store_true",
        help="print individual requests, latest first, as CSV, or as JSON lines with --json",
    )
    command.add_argument("--csv", action="store_true", help="print CSV for spreadsheets")


async def _usage(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    _check(arguments, is_json=output.is_json)
    query = {
        "month": arguments.month,
        "from": arguments.first_day,
        "to": arguments.last_day,
        **{name: getattr(arguments, name) for name in ("team", "key", "project", "model", "backend")},
    }
    if arguments.records:
        query["format"] = "jsonl" if output.is_json else "csv"
        async for piece in client.pieces("usage", "export", query=query):
            output.raw(piece)
        return
    usage = await client.get("usage", query={**query, "group_by": ",".join(arguments.by) or None})
    if output.is_json:
        output.entity(usage)
    elif arguments.csv:
        output.raw(sums_csv([_sum(row, usage["group_by"]) for row in usage["data"]]))
    else:
        by = usage["group_by"]
        rows = [*usage["data"], {**usage["total"], by[0]: _TOTAL}] if by else [usage["total"]]
        output.text(f"{usage['from']} to {usage['to']}\n\n")
        output.entities(rows, [*by, *_MEASURES])


def _check(arguments: argparse.Namespace, *, is_json: bool) -> None:
    if arguments.csv and is_json:
        raise CommandFailed("--csv cannot be combined with --json.", code=2)
    if arguments.records and arguments.by:
        raise CommandFailed("--by cannot be combined with --records: individual requests are not grouped.", code=2)
    if arguments.month is not None and (arguments.first_day or arguments.last_day):
        raise CommandFailed("--month cannot be combined with --from or --to.", code=2)
    if arguments.last_day is not None and arguments.first_day is None:
        raise CommandFailed("--to requires --from.", code=2)


def _sum(row: Json, by: Sequence[str]) -> UsageSum:
    return UsageSum(group={name: row[name] for name in by}, **{name: row[name] for name in _MEASURES})


def _dimensions(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _DIMENSIONS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(_DIMENSIONS)}")
    return names
