"""`warmgate what-if`: replay recorded requests, or a trace, with other settings, and compare the results."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from gateway.app.config_source import process_environment
from gateway.cli.commands import values
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.subcommands import Subcommands
from gateway.cli.commands.target import URL, gateway_url

Json = dict[str, Any]

POLL_S: Final = 0.5
"""Seconds between two questions about the progress."""
LATEST: Final = "latest"
MAX_TRACE_BYTES: Final = 8 * 2**20
_COLUMNS = ("replay", "strategy", "workers", "cache_tokens", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s")
_COLUMNS_OF_COSTS = ("hit_ratio", "gpu_hours", "usd")


def add_what_if(commands: Subcommands) -> None:
    command = commands.command("what-if", _what_if, help="replay recorded requests with other settings")
    command.add_argument("--model", metavar="NAME", help="configured name of the model (default: the only model)")
    command.add_argument(
        "--with",
        dest="alternatives",
        metavar="CHANGES",
        type=values.alternative,
        action="append",
        default=[],
        help="alternative to compare with the present, e.g. strategy=kv_aware,workers=4,cache_factor=2; "
        "can be given several times",
    )
    command.add_argument(
        "--last", metavar="TIME", type=values.duration_s, default=3600.0, help="time to replay, e.g. 15m (default 1h)"
    )
    command.add_argument("--trace", metavar="F", type=Path, help="file with a trace to replay instead")
    command.add_argument(
        "--users", metavar="N", type=values.at_least_one, default=1, help="concurrent sessions of a trace without times"
    )
    command.add_argument(
        "--kv-events",
        choices=("yes", "no"),
        help="whether engines send KV events in the replay (default: whether all workers send them now)",
    )
    command.add_argument(
        "--show", metavar="ID", help=f"show this replay, or '{LATEST}', instead of starting another one"
    )


async def _what_if(client: AdminClient, arguments: argparse.Namespace, output: Output) -> None:
    if gateway_url(arguments, process_environment()) is None:
        raise CommandFailed(f"A replay needs a running gateway. Use --url or {URL}.", code=2)
    if arguments.show is None:
        state = await _replayed(client, _body(arguments))
    elif arguments.show == LATEST:
        state = await client.get("what-if")
    else:
        state = await client.get("what-if", "replays", arguments.show)
    if state["status"] in ("failed", "cancelled"):
        raise CommandFailed(state["error"] or "The replay was cancelled.")
    _show(state, output)


async def _replayed(client: AdminClient, body: Json) -> Json:
    """Start a replay, wait for its end, and return it. If the command is interrupted, the replay is cancelled."""
    state = await client.post("what-if", body=body)
    progress = Progress()
    try:
        while state["status"] == "running":
            progress.show(state["done"])
            await asyncio.sleep(POLL_S)
            state = await client.get("what-if", "replays", state["id"])
    except asyncio.CancelledError:  # Ctrl-C
        await client.delete("what-if")
        raise
    finally:
        progress.end()
    return state


class Progress:
    """Progress of a replay, on the error output if that is a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()

    def show(self, done: float) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r{done * 100:3.0f} % replayed. Ctrl-C cancels. ")
            sys.stderr.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _body(arguments: argparse.Namespace) -> Json:
    body: Json = {"alternatives": arguments.alternatives}
    if arguments.model is not None:
        body["model"] = arguments.model
    if arguments.kv_events is not None:
        body["kv_events"] = arguments.kv_events == "yes"
    if arguments.trace is None:
        return {**body, "last_s": arguments.last}
    return {**body, "trace": _text_of(arguments.trace), "users": arguments.users}


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TRACE_BYTES + 1)
        text = content.decode("utf-8")
    except OSError as fault:
        raise CommandFailed(f"{path} cannot be read: {fault.strerror}.", code=2) from None
    except ValueError:
        raise CommandFailed(f"{path} is not a text in UTF-8.", code=2) from None
    if len(content) > MAX_TRACE_BYTES:
        raise CommandFailed(f"{path} is larger than {MAX_TRACE_BYTES} bytes.", code=2)
    return text


def _show(state: Json, output: Output) -> None:
    """Print the replay *state*: a row for the present, and one for each alternative."""
    result = state["result"]
    if output.is_json:
        output.entity(state)
        return
    if result is None:
        done = f"{state['done'] * 100:.0f} % done"
        output.text(f"{state['status']}: {done}\n" if state["id"] else "No replay was started yet.\n")
        return
    found = rows(result)
    columns = (*_COLUMNS, *_COLUMNS_OF_COSTS, *(("error",) if any(row["error"] for row in found) else ()))
    output.entities(found, columns)
    output.text(
        f"\nReplay {state['id']}: {result['requests']} requests over {result['duration_s']:.0f} s. "
        f"Times of engines are multiplied by {result['scale']:.2f}, so that the replay agrees with what was measured. "
        f"Engines {'send' if state['kv_events'] else 'send no'} KV events.\n"
    )


def rows(result: Json) -> list[Json]:
    """Return the rows of the table. All figures are those of the requests after the first tenth."""
    found = []
    present = result["recorded"]
    if present is not None and result["measured"] is not None:
        found.append(_row("measured", {**present, "figures": result["measured"], "gpu_hours": None, "usd": None}))
    if present is not None:
        found.append(_row("present", present))
    return found + [_row(str(number), row) for number, row in enumerate(result["alternatives"], start=1)]


def _row(name: str, row: Json) -> Json:
    figures = {key: _rounded(value) for key, value in (row["figures"] or {}).items()}
    costs = {"gpu_hours": _rounded(row["gpu_hours"]), "usd": _rounded(row["usd"])}
    return {"replay": name, **row["fleet"], **figures, **costs, "error": row["error"]}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
