"""`warmgate batch`: submit, list, show and cancel batches of the caller's team, with the API that callers use."""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.app.config_source import process_environment
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.target import admin_url

if TYPE_CHECKING:
    import httpx

KEY = "WARMGATE_API_KEY"
URL = "WARMGATE_URL"
DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 600.0
"""Seconds to wait for the answer to an upload. A file of 200 MB takes seconds on a usual network."""
_COLUMNS = ("id", "status", "endpoint", "total", "completed", "failed", "created_at")
_ENDPOINT = "/v1/chat/completions"

_STATES = ("created", "in_progress", "cancelling", "finalizing", "completed", "failed", "expired", "cancelled")
"""States of a batch, in the order in which it can reach them."""

Json = dict[str, Any]
Act = Callable[["httpx.AsyncClient", argparse.Namespace, Output], Awaitable[None]]


class _Response(msgspec.Struct):
    """Answer to a failed line."""

    status_code: int
    body: Any = None


class _FailedLine(msgspec.Struct):
    """Line of the error file of a batch."""

    custom_id: str
    response: _Response | None = None
    error: Any = None


def add_batch(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands about batches to *commands*."""
    parser = commands.add_parser("batch", help="submit, list, show and cancel batches of requests")
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = _command(below, "submit", _submit, help="upload a file with one request per line, and create a batch")
    command.add_argument("file", metavar="FILE", type=Path, help="file with lines of JSON")
    command.add_argument(
        "--endpoint", metavar="PATH", default=_ENDPOINT, help="endpoint that all lines call (default %(default)s)"
    )

    command = _command(below, "list", _list, help="list the latest batches of the team")
    command.add_argument("--limit", metavar="N", default="20", help="maximum number of batches (default %(default)s)")

    command = _command(below, "show", _show, help="show a batch: its status, its counts, its files and its faults")
    command.add_argument("id", metavar="ID")

    command = _command(below, "logs", _logs, help="print when a batch changed its status, and why its lines failed")
    command.add_argument("id", metavar="ID")

    command = _command(below, "cancel", _cancel, help="cancel a batch; lines in flight may still finish")
    command.add_argument("id", metavar="ID")


def run(arguments: argparse.Namespace) -> int:
    """Run the command that *arguments* describe, and return its exit code."""
    now = time.time()  # noqa: TID251
    output = Output(sys.stdout.buffer, is_json=arguments.is_json, now=now)
    try:
        asyncio.run(_carry_out(arguments, output, process_environment()))
        sys.stdout.flush()
    except CommandFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.code
    except KeyboardInterrupt:
        return 1
    return 0


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    act: Act,
    *,
    help: str,  # noqa: A002 - argparse's word
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help)
    parser.set_defaults(run=run, act=act)
    parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON")
    parser.add_argument(
        "--url",
        metavar="URL",
        type=admin_url,
        help=f"URL of a running gateway (default: {URL}, or {DEFAULT_URL}); the API key is read from {KEY}",
    )
    return parser


async def _carry_out(arguments: argparse.Namespace, output: Output, environ: Mapping[str, str]) -> None:
    key = environ.get(KEY)
    if not key:
        raise CommandFailed(f"{KEY} is not set. Set it to an API key of your team.", code=2)
    if not (key.isascii() and key.isprintable()):
        raise CommandFailed(f"{KEY} must contain only printable ASCII characters.", code=2)
    try:
        url = arguments.url or admin_url(environ.get(URL) or DEFAULT_URL)
    except argparse.ArgumentTypeError as fault:
        raise CommandFailed(f"{URL}: {fault}.", code=2) from None
    # The parser needs no client, and most commands have no use for it.
    import httpx  # noqa: PLC0415

    from gateway.backends.http_client import HttpClient  # noqa: PLC0415

    try:
        headers = {"authorization": f"Bearer {key}"}
        async with HttpClient(base_url=url.removesuffix("/v1"), headers=headers, timeout=TIMEOUT_S) as http:
            await arguments.act(http, arguments, output)
    except httpx.TimeoutException:
        raise CommandFailed(f"{url} did not answer in time.") from None
    except httpx.RequestError as fault:
        raise CommandFailed(f"{url} cannot be reached: {str(fault) or type(fault).__name__}.") from None


async def _submit(http: "httpx.AsyncClient", arguments: argparse.Namespace, output: Output) -> None:
    path: Path = arguments.file
    try:
        with path.open("rb") as content:
            form = {"purpose": "batch"}
            file = _answer(await http.post("/v1/files", data=form, files={"file": (path.name, content)}))
    except OSError as fault:
        raise CommandFailed(f"{path} cannot be read: {fault.strerror}.", code=2) from None
    fields = {"input_file_id": file["id"], "endpoint": arguments.endpoint, "completion_window": "24h"}
    _print(_answer(await http.post("/v1/batches", json=fields)), output)


async def _list(http: "httpx.AsyncClient", arguments: argparse.Namespace, output: Output) -> None:
    page = _answer(await http.get("/v1/batches", params={"limit": arguments.limit}))
    if output.is_json:
        output.entities(page["data"], ())
    else:
        output.entities([{**batch, **batch["request_counts"]} for batch in page["data"]], _COLUMNS)


async def _show(http: "httpx.AsyncClient", arguments: argparse.Namespace, output: Output) -> None:
    _print(_answer(await http.get(f"/v1/batches/{_plain(arguments.id)}")), output)


async def _logs(http: "httpx.AsyncClient", arguments: argparse.Namespace, output: Output) -> None:
    """Print the changes of the status in order, the faults of the input file, and a line for each failed line."""
    batch = _answer(await http.get(f"/v1/batches/{_plain(arguments.id)}"))
    changes = [(batch[f"{state}_at"], state) for state in _STATES if batch.get(f"{state}_at") is not None]
    for at, state in sorted(changes, key=lambda change: change[0]):
        _log(output, {"at": at, "event": state}, f"{_moment(at)} {state}")
    for fault in (batch.get("errors") or {}).get("data", ()):
        place = "the file" if fault["line"] is None else f"line {fault['line']}"
        _log(output, {"event": "fault", **fault}, f"{place}: {fault['code']}: {fault['message']}")
    if batch.get("error_file_id") is not None:
        await _log_failed_lines(http, _plain_file(batch["error_file_id"]), output)


async def _log_failed_lines(http: "httpx.AsyncClient", file_id: str, output: Output) -> None:
    """Print each line of the error file. The file is never in memory as a whole."""
    async with http.stream("GET", f"/v1/files/{file_id}/content") as response:
        if not response.is_success:
            await response.aread()
            _answer(response)
        waiting = b""
        async for data in response.aiter_bytes():
            *lines, waiting = (waiting + data).split(b"\n")  # texts can contain other line ends of Unicode
            for line in lines:
                _log_failed_line(line, output)


def _log_failed_line(data: bytes, output: Output) -> None:
    try:
        line = msgspec.json.decode(data, type=_FailedLine)
    except msgspec.MsgspecError:
        raise CommandFailed("The server that answered is not Warmgate: its error file is not JSON.") from None
    status = None if line.response is None else line.response.status_code
    code, message = _reason(line)
    fields = {"custom_id": line.custom_id, "status": status, "code": code, "message": message}
    _log(output, {"event": "line_failed", **fields}, f"{line.custom_id}: {code or status}: {message}")


def _log(output: Output, fields: Json, text: str) -> None:
    """Print one event, as JSON or as one line of text without control characters."""
    if output.is_json:
        output.text(f"{msgspec.json.encode(fields).decode()}\n")
    else:
        output.text("".join(each if each.isprintable() else " " for each in text) + "\n")


def _reason(line: "_FailedLine") -> tuple[str | None, str]:
    """Return the code and the message of the error of a line."""
    error = line.error
    if error is None and line.response is not None and isinstance(line.response.body, dict):
        error = line.response.body.get("error")
    if not isinstance(error, dict):
        return None, "no reason given"
    code = error.get("code") or error.get("type")
    return None if code is None else str(code), str(error.get("message") or "no reason given")


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))


async def _cancel(http: "httpx.AsyncClient", arguments: argparse.Namespace, output: Output) -> None:
    _print(_answer(await http.post(f"/v1/batches/{_plain(arguments.id)}/cancel")), output)


def _print(batch: Json, output: Output) -> None:
    if output.is_json or batch["errors"] is None:
        output.entity(batch)
        return
    output.entity({**batch, "errors": None})
    for fault in batch["errors"]["data"]:
        place = "" if fault["line"] is None else f"line {fault['line']}: "
        output.text(f"{place}{fault['message']}\n")


def _plain(batch_id: str) -> str:
    """Return *batch_id* if it is safe in a URL path.

    Raises:
        CommandFailed: if it is not.
    """
    if not batch_id.replace("_", "").isalnum() or not batch_id.isascii():
        raise CommandFailed("The id of a batch has only letters, digits and '_'.", code=2)
    return batch_id


def _plain_file(file_id: str) -> str:
    """Return *file_id* if it is safe in a URL path.

    Raises:
        CommandFailed: if it is not.
    """
    if not file_id.replace("-", "").isalnum() or not file_id.isascii():
        raise CommandFailed("The server that answered is not Warmgate: it sent an id of a file that is not valid.")
    return file_id


def _answer(response: "httpx.Response") -> Json:
    """Return the JSON object in *response*.

    Raises:
        CommandFailed: if the gateway refused the request, or another server answered.
    """
    try:
        found = msgspec.json.decode(response.content, type=Json)
        if response.is_success:
            return found
        message = str(found["error"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        raise CommandFailed(f"The server that answered is not Warmgate: status {response.status_code}.") from None
    raise CommandFailed(
        message if message.endswith(".") else f"{message}.", code=2 if response.status_code == 400 else 1
    )
