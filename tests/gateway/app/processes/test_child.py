"""A process from the side of the supervisor."""

import asyncio
import sys
from pathlib import Path

import pytest

from gateway.app.processes.child import Child, cores, exit_text
from gateway.app.processes.messages import Assignment, Message

PROCESS = """
import json, socket, sys
control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control") + 1]))
lines = control.makefile("rw")
assigned = json.loads(lines.readline())
for message in ({"kind": "ready"}, {"kind": "reloaded"}):
    print(json.dumps(message), file=lines, flush=True)
asked = json.loads(lines.readline())
answer = {"kind": "exposed", "id": asked["id"], "text": f"process {assigned['number']}"}
print(json.dumps(answer), file=lines, flush=True)
lines.readline()
sys.exit(3)
"""


@pytest.mark.e2e
async def test_a_process_reports_and_is_asked() -> None:
    heard: list[str] = []

    def on_message(_: Child, message: Message) -> None:
        heard.append(message["kind"])

    async with asyncio.timeout(60):
        child, reader = await Child.start([sys.executable, "-c", PROCESS], Assignment(2, {}, False, listener=0))
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(child.listen(reader, on_message))
            await child.started.wait()
            await child.refresh()
            is_leaving = child.leaving.is_set()
            child.send("reload")

    assert (3, "process 2", False, True) == (ending.result(), child.exposition, is_leaving, child.leaving.is_set())
    assert ["ready", "reloaded", "exposed"] == heard
    assert not child.serves


@pytest.mark.e2e
async def test_a_process_that_ends_answers_nothing() -> None:
    async with asyncio.timeout(60):
        child, reader = await Child.start([sys.executable, "-c", ""], Assignment(1, {}, False, listener=0))
        code = await child.listen(reader, lambda *_: None)
        await child.refresh()
        child.signal(15)

    assert (0, "", True) == (code, child.exposition, child.ended.is_set())


@pytest.mark.parametrize(
    ("code", "text"),
    [(1, "ended with exit code 1"), (-9, "was ended by the signal SIGKILL"), (-99, "ended with exit code -99")],
)
def test_the_end_is_named(code: int, text: str) -> None:
    assert text == exit_text(code)


def test_a_container_limits_the_cores(tmp_path: Path) -> None:
    every, none = cores(tmp_path / "missing"), tmp_path / "none"
    none.write_text("max 100000\n")
    half = tmp_path / "half"
    half.write_text("50000 100000\n")

    assert (every, 1) == (cores(none), cores(half))
