"""A gateway whose workers may have defects, and `warmgate doctor` in a process of its own."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.defects import Defects
from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.governed import OWNER, bearer
from tests.e2e.stack import Stack, gateway

SECRET = "ci-secret-0123456789abcdef"
LIMITED = {"name": "blue", "limits": {"requests_per_minute": 10_000}, "keys": [{"id": "ci", "secret": SECRET}]}
SYSTEM = "You answer the questions of curious children in short sentences, and you use no formula. " * 4


def worker(*, events: Mapping[str, Any] | None = None, defects: Defects | None = None, **more: Any) -> SimulatorOptions:
    """A worker that is as fast as a real one, and that publishes KV events with replay."""
    said = EventOptions(**{"replay_port": 0, **(events or {})})
    return SimulatorOptions(**{"port": 0, "tpot_ms": 10, "kv_events": said, "defects": defects or Defects(), **more})


@dataclass
class Diagnosis:
    """What the command printed and how it ended."""

    code: int
    findings: list[dict[str, Any]]
    text: str = field(repr=False)

    def named(self) -> set[tuple[str, str, str | None]]:
        """Severity, code and worker of each finding."""
        return {(each["severity"], each["code"], each["worker"]) for each in self.findings}


@dataclass
class Doctored:
    """The gateway, with names for its workers."""

    there: Stack

    async def ask(self, body: Mapping[str, Any]) -> None:
        answer = await self.there.http.post("/v1/chat/completions", json=dict(body), headers=bearer(SECRET))
        assert answer.status_code == 200, answer.text

    async def facts(self) -> dict[str, Any]:
        answer = await self.there.http.get("/admin/v1/diagnosis", headers=bearer(OWNER))
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def until(self, is_reached: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until the facts about the workers are as wanted."""
        async with asyncio.timeout(60):
            while not is_reached((await self.facts())["models"][0]["workers"]):
                await asyncio.sleep(0.05)

    async def checked(self) -> None:
        """Wait until every worker was tested and read."""
        await self.until(lambda workers: all(each["check"] and each["capacity_blocks"] for each in workers))

    async def diagnosis(self) -> Diagnosis:
        return await doctor("--url", self.there.url)


async def doctor(*arguments: str) -> Diagnosis:
    """Run the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "doctor", "--json", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"WARMGATE_ADMIN_KEY": OWNER},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    text = out.decode()
    assert process.returncode is not None
    assert SECRET not in text
    assert OWNER not in text
    return Diagnosis(process.returncode, json.loads(text)["findings"] if text else [], text + err.decode())


@asynccontextmanager
async def doctored(
    folder: Path, *options: SimulatorOptions, model: Mapping[str, Any] | None = None, **groups: Any
) -> AsyncIterator[Doctored]:
    """A gateway before workers with *options*, named w0, w1 and so on; without other settings nothing is wrong."""
    async with AsyncExitStack() as exits:
        urls = [await exits.enter_async_context(serving(each)) for each in options]
        entries = [{"url": url, "id": f"w{number}"} for number, url in enumerate(urls)]
        settings = {
            "admin": {"keys": [{"id": "root", "role": "viewer", "secret": OWNER}]},
            "teams": [LIMITED],
            "store": {"url": f"sqlite:///{folder}/warmgate.db"},
            **groups,
        }
        kv_aware = {"strategy": "kv_aware", "tokenizer": {"path": str(folder), "budget_s": 5}, **(model or {})}
        yield Doctored(await exits.enter_async_context(gateway(entries, model=kv_aware, **settings)))
