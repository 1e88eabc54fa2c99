"""`warmgate usage`: what was used, and what it cost."""

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from gateway.commands import values
from gateway.commands.admin_client import AdminClient
from gateway.commands.output import CommandFailed, Output
from gateway.commands.subcommands import Subcommands
from gateway.ledger.export import sums_csv
from gateway.ledger.usage_store import Dimension, UsageSum

Json = dict[str, Any]

_DIMENSIONS: tuple[str, ...] = get_args(Dimension)
_MEASURES = UsageSum.__struct_fields__[1:]
_TOTAL = "total"


def add_usage(commands: Subcommands) -> None:
    command = commands.command("usage", _usage, help="what teams and keys have used, and what it cost")
    command.add_argument("--month", metavar="YYYY-MM", type=values.month, help="default: this month")
    command.add_argument("--from", dest="first_day", metavar="DAY", type=values.day, help="instead of a month")
    command.add_argument(
        "--to", dest="last_day", metavar="DAY", type=values.day, help="that day included; default: today"
    )
    for name in ("team", "key", "project", "model", "backend"):
        command.add_argument(f"--{name}", metavar="NAME", help=f"of this {name} only")
    command.add_argument(
        "--by",
        metavar="WHAT",
        type=_dimensions,
        action="extend",
        default=[],
        help=f"a line for each; one or more of {', '.join(_DIMENSIONS)}, with commas",
    )
    command.add_argument(
        "--records", action="store_true", help="single requests, the latest first, as CSV or, with --json, a line each"
    )
    command.add_argument("--csv", action="store_true", help="for a spreadsheet")


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
    told = await client.get("usage", query={**query, "group_by": ",".join(arguments.by) or None})
    if output.is_json:
        output.entity(told)
    elif arguments.csv:
        output.raw(sums_csv([_sum(row, told["group_by"]) for row in told["data"]]))
    else:
        by = told["group_by"]
        rows = [*told["data"], {**told["total"], by[0]: _TOTAL}] if by else [told["total"]]
        output.text(f"{told['from']} to {told['to']}\n\n")
        output.entities(rows, [*by, *_MEASURES])


def _check(arguments: argparse.Namespace, *, is_json: bool) -> None:
    if arguments.csv and is_json:
        raise CommandFailed("--csv stands beside --json: give the one or the other.", code=2)
    if arguments.records and arguments.by:
        raise CommandFailed("--by stands beside --records: single requests are not grouped.", code=2)
    if arguments.month is not None and (arguments.first_day or arguments.last_day):
        raise CommandFailed("--month stands beside --from or --to: give the one or the others.", code=2)
    if arguments.last_day is not None and arguments.first_day is None:
        raise CommandFailed("--to needs --from.", code=2)


def _sum(row: Json, by: Sequence[str]) -> UsageSum:
    return UsageSum(group={name: row[name] for name in by}, **{name: row[name] for name in _MEASURES})


def _dimensions(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _DIMENSIONS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(_DIMENSIONS)}")
    return names
