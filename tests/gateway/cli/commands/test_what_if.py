"""Facts about `warmgate what-if`. No job ever runs here: each test ends the replay itself."""

import argparse
import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.commands import what_if
from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.main import command_parser
from gateway.telemetry.what_if.job import Change, Job
from gateway.telemetry.what_if.replays import result_of
from gateway.telemetry.what_if.runner import Replay, WhatIfRunner
from tests.gateway.api.admin_v1.test_what_if import TRACE, served
from tests.gateway.cli.commands.terminal import Terminal, terminal
from tests.gateway.telemetry.what_if.examples import a_job, folder

__all__ = ["terminal"]


@dataclass
class Commanded:
    client: AdminClient
    runner: WhatIfRunner
    printed: io.BytesIO

    async def run(self, *arguments: str) -> None:
        parsed = command_parser().parse_args(["what-if", "--url", "http://gateway", *arguments])
        await what_if._what_if(self.client, parsed, Output(self.printed, is_json=parsed.is_json, now=0.0))

    async def started(self) -> Replay:
        async with asyncio.timeout(60):
            while self.runner.latest is None or self.runner.status != "running":
                await asyncio.sleep(0.01)
        return self.runner.latest

    @property
    def job(self) -> Job:
        assert self.runner.latest is not None
        return self.runner.latest.job

    @property
    def text(self) -> str:
        return self.printed.getvalue().decode()

    @property
    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.text.splitlines()]


@asynccontextmanager
async def commanded(directory: Path | None) -> AsyncIterator[Commanded]:
    async with served(directory) as (admin, runner), admin.client("op") as http:
        yield Commanded(AdminClient(http), runner, io.BytesIO())


def completed(replay: Replay, directory: Path, *changes: Change) -> None:
    """End *replay* with the result of another job, which has recorded requests."""
    replay.result = result_of(a_job(folder(directory), *changes, gpu_hour_usd=2.0), lambda _: None)
    replay.end("done")


async def test_a_replay_is_started_awaited_and_compared(tmp_path: Path) -> None:
    """A row for what was measured, for the replay of the present, and for each alternative."""
    async with commanded(tmp_path) as command:

        async def complete() -> None:
            replay = await command.started()
            completed(replay, tmp_path, Change("round_robin"), Change(workers=3))

        asked = ("--last", "10m", "--with", "strategy=round_robin", "--with", "workers=3,cache_factor=1.5")
        await asyncio.gather(command.run(*asked, "--kv-events", "no"), complete())
        job = command.job

    assert (400.0, False) == (job.since, job.has_kv_events)
    assert (Change("round_robin"), Change(workers=3, cache_factor=1.5)) == job.changes
    head, *rows = command.lines[:5]
    assert ["REPLAY", "STRATEGY", "WORKERS", "CACHE", "TOKENS", "TTFT", "MEAN", "S"] == head[:8]
    assert [
        ["measured", "prefix_aware", "2"],
        ["present", "prefix_aware", "2"],
        ["1", "round_robin", "2"],
        ["2", "prefix_aware", "3"],
    ] == [row[:3] for row in rows]
    assert "36 requests over" in command.text
    assert "Engines send no KV events." in command.text


async def test_a_trace_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(TRACE)
    async with commanded(None) as command:

        async def fail() -> None:
            command.runner._fail(await command.started(), "It is so")

        with pytest.raises(CommandFailed, match=r"^It is so$"):
            await asyncio.gather(command.run("--trace", str(path), "--users", "3", "--with", "workers=2"), fail())
        job = command.job

    assert (3, (Change(workers=2),), None) == (job.users, job.changes, job.directory)


async def test_a_command_that_is_interrupted_cancels_its_replay(tmp_path: Path) -> None:
    """Ctrl-C cancels the task of the command."""
    async with commanded(tmp_path) as command, asyncio.TaskGroup() as tasks:
        task = tasks.create_task(command.run())
        replay = await command.started()
        task.cancel()

    assert ("cancelled", "cancelled", "") == (replay.status, command.runner.status, command.text)


async def test_an_earlier_replay_is_shown_again(tmp_path: Path) -> None:
    """The JSON is that of the admin API."""
    async with commanded(tmp_path) as command:
        await command.run("--show", "latest")
        assert "No replay was started yet.\n" == command.text

        first = command.runner.start(a_job(tmp_path))
        await command.run("--show", "latest")
        completed(first, tmp_path)
        command.runner.start(a_job(tmp_path))
        command.printed.truncate(command.printed.seek(0))
        await command.run("--show", first.id, "--json")
        shown: Any = json.loads(command.text)
        with pytest.raises(CommandFailed, match=r"^This gateway keeps no replay with this id\.$"):
            await command.run("--show", "none")

    assert ("what_if", first.id, "done", 36) == (
        shown["object"],
        shown["id"],
        shown["status"],
        shown["result"]["requests"],
    )


async def test_progress_is_shown_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the error output, and removed at the end."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = what_if.Progress()
    progress.show(0.42)
    progress.end()

    assert "\r 42 % replayed. Ctrl-C cancels. \r\x1b[K" == screen.getvalue()


async def test_a_replay_that_failed_for_one_alternative_says_why() -> None:
    fleet = {"strategy": "session", "workers": 1, "cache_tokens": 10}
    row = {"fleet": fleet, "figures": None, "gpu_hours": None, "usd": None, "error": "It does not fit."}
    output = Output(io.BytesIO(), is_json=False, now=0.0)
    result = {"recorded": None, "measured": None, "alternatives": [row], "requests": 1, "duration_s": 2.0, "scale": 1.0}
    state = {"id": "a", "status": "done", "done": 1.0, "kv_events": True, "error": None, "result": result}
    what_if._show(state, output)

    assert [{"replay": "1", **fleet, "gpu_hours": None, "usd": None, "error": "It does not fit."}] == what_if.rows(
        result
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--with", "strategy"), "'strategy' is not an alternative such as strategy=kv_aware,workers=4,cache_factor=2"),
        (("--with", "workers=0"), "'0' is not a positive whole number"),
        (("--with", "cache_factor=-1"), "'-1' is not a number above 0"),
        (("--kv-events", "maybe"), "invalid choice"),
        (("--last", "soon"), "'soon' is not a duration"),
        ((), "A replay needs a running gateway. Use --url or WARMGATE_ADMIN_URL.\n"),
    ],
)
def test_wrong_usage_is_explained(terminal: Terminal, arguments: tuple[str, ...], said: str) -> None:
    code, err = terminal.fails("what-if", *arguments)

    assert (2, True) == (code, said in err)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff", "is not a text in UTF-8"),
        (b"x" * (8 * 2**20 + 1), "is larger"),
    ],
)
def test_a_file_that_is_no_trace_is_explained(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "trace.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandFailed, match=said) as raised:
        what_if._body(argparse.Namespace(alternatives=[], model="tiny", kv_events=None, trace=path, users=1))

    assert 2 == raised.value.code
