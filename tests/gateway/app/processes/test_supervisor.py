"""Processes that cannot start, and processes that end: with small programs in place of gateways."""

import logging
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.app.processes.supervisor import Plan, supervised
from gateway.server.listener import ServerError, bind

pytestmark = pytest.mark.e2e

READY = """
import json, socket, sys, os, signal
lines = socket.socket(fileno=int(sys.argv[-1])).makefile("rw")
number = json.loads(lines.readline())["number"]
{instead}
print(json.dumps({{"kind": "ready"}}), file=lines, flush=True)
signal.pause()
"""


def plan(program: str, listeners: list[socket.socket], started: list[str]) -> Plan:
    return Plan(
        command=[sys.executable, "-c", program],
        listeners=listeners,
        admin=None,
        probes=None,
        variables=lambda _: {},
        is_store_hidden=False,
        table=None,
        lock=None,
        stop_s=30,
        validate=lambda: True,
        on_started=lambda: started.append("ready"),
    )


@pytest.mark.parametrize("number", [1, 2])
async def test_a_process_that_cannot_start_stops_all(number: int) -> None:
    """The error names the process and how it ended; the others have ended too."""
    program = READY.format(instead=f"if number == {number}: sys.exit(7)")
    started: list[str] = []
    with (
        closing(bind("127.0.0.1", 0, shared=True)) as one,
        closing(bind("127.0.0.1", 0, shared=True)) as two,
        pytest.raises(ServerError, match=f"^Process {number} could not start: it ended with exit code 7"),
    ):
        await supervised(plan(program, [one, two], started), None, lambda: None)

    assert [] == started


async def test_a_process_that_ends_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second one asks the supervisor to stop."""
    caplog.set_level(logging.INFO)
    instead = (
        f"path = {str(tmp_path / 'count')!r}\n"
        "open(path, 'a').write('x')\n"
        "if os.path.getsize(path) == 2: os.kill(os.getppid(), signal.SIGTERM)\n"
        "else: print(json.dumps({'kind': 'ready'}), file=lines, flush=True); sys.exit(5)"
    )
    started: list[str] = []
    with closing(bind("127.0.0.1", 0, shared=True)) as one:
        await supervised(plan(READY.format(instead=instead), [one], started), None, lambda: None)

    assert ["ready"] == started
    assert "Process 1 ended with exit code 5." in caplog.messages
