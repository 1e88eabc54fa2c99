"""Workers that will go away: a file or an operator says so, and no one who is being served notices."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simulator.server import serving
from tests.e2e.stack import Stack, gateway, quick
from tests.e2e.test_reload import held_back, hold_back

TOKEN = {"authorization": "Bearer t-1"}
PROMPT = {"model": "tiny", "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 30}


@dataclass
class Field:
    """A gateway that finds two slow workers in a file, and hands over at once."""

    served: Stack
    workers: dict[str, str]
    file: Path

    def declare(self, *draining: str) -> None:
        """Write the file again."""
        write(self.file, self.workers, draining)

    async def cards(self) -> dict[str, dict[str, Any]]:
        listed = (await self.served.http.get("/admin/v1/workers", headers=TOKEN)).json()["workers"]
        return {card["worker"]: card for card in listed}

    async def say(self, what: str, worker: str) -> list[dict[str, Any]]:
        path = f"/admin/v1/workers/{what}"
        response = await self.served.http.post(path, json={"worker": worker}, headers=TOKEN)
        cards: list[dict[str, Any]] = response.json()["workers"]
        return cards

    async def hold_back(self, *workers: str) -> None:
        """Slow them down, so that no stream ends before a test has said what happens to its worker."""
        for worker in workers:
            await hold_back(self.workers[worker])

    async def until(self, worker: str, state: str) -> None:
        """Wait until *worker* is there and in this state."""
        async with asyncio.timeout(60):
            while (await self.cards()).get(worker, {}).get("state") != state:
                await asyncio.sleep(0.02)


def write(file: Path, workers: Mapping[str, str], draining: Collection[str]) -> None:
    other = file.with_suffix(".new")
    other.write_text(
        json.dumps([{"id": name, "url": url, "draining": name in draining} for name, url in workers.items()])
    )
    other.rename(file)


@asynccontextmanager
async def field(folder: Path, **model: Any) -> AsyncIterator[Field]:
    async with AsyncExitStack() as exits:
        workers = {name: await exits.enter_async_context(serving(quick(speed=1, tpot_ms=10))) for name in "ab"}
        file = folder / "workers.json"
        write(file, workers, ())
        served = await exits.enter_async_context(
            gateway(
                [],
                model={"workers_file": str(file), **model},
                admin={"keys": [{"role": "operator", "secret": "t-1"}]},
                drain={"hand_over_after_s": 0},
            )
        )
        made = Field(served, workers, file)
        for name in workers:
            await made.until(name, "up")
        yield made


@asynccontextmanager
async def streaming(served: Stack) -> AsyncIterator[tuple[str, "asyncio.Task[str]"]]:
    """The worker of a stream that has begun, and the task that reads all of its text."""
    async with served.http.stream("POST", "/v1/chat/completions", json={**PROMPT, "stream": True}) as response:
        lines = response.aiter_lines()
        first = await anext(lines)

        async def whole() -> str:
            events = [first] + [line async for line in lines]
            chunks = [json.loads(line[6:]) for line in events if line.startswith("data: {")]
            assert "data: [DONE]" in events
            return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])

        async with asyncio.TaskGroup() as tasks:
            yield response.headers["x-warmgate-worker"], tasks.create_task(whole())


async def test_a_stream_goes_on_elsewhere_when_the_file_says_that_its_worker_drains(tmp_path: Path) -> None:
    """Where the model allows it: its worker gives nothing more, and the client has all of the answer."""
    async with field(tmp_path, continuation="tokens") as stage:
        answer = (await stage.served.http.post("/v1/chat/completions", json=PROMPT)).json()
        await stage.hold_back("a", "b")
        async with streaming(stage.served) as (worker, stream), held_back(stage.workers[worker]):
            (other,) = {"a", "b"} - {worker}
            await hold_back(stage.workers[other], factor=1)
            stage.declare(worker)
            text = await asyncio.wait_for(stream, 60)
            card = (await stage.cards())[worker]

        assert answer["choices"][0]["message"]["content"] == text
        assert (True, ["settings"]) == (card["draining"], card["draining_by"])

        stage.declare()
        await stage.until(worker, "up")


async def test_without_a_continuation_it_ends_in_peace(tmp_path: Path) -> None:
    """On the worker that it began on; new requests go to the other one."""
    async with field(tmp_path) as stage:
        answer = (await stage.served.http.post("/v1/chat/completions", json=PROMPT)).json()
        await stage.hold_back("a", "b")
        async with streaming(stage.served) as (worker, stream):
            (free,) = {"a", "b"} - {worker}
            await hold_back(stage.workers[free], factor=1)
            async with held_back(stage.workers[worker]):
                drained = await stage.say("drain", worker)
                other = await stage.served.http.post("/v1/chat/completions", json={**PROMPT, "max_tokens": 1})
                runs = not stream.done()
            text = await stream
        await stage.until(worker, "drained")

        assert [("draining", ["operator"])] == [(card["state"], card["draining_by"]) for card in drained]
        assert runs
        assert (200, True) == (other.status_code, other.headers["x-warmgate-worker"] != worker)
        assert answer["choices"][0]["message"]["content"] == text


@pytest.mark.parametrize("who", ["operator", "settings"])
async def test_neither_undoes_what_the_other_said(tmp_path: Path, who: str) -> None:
    async with field(tmp_path) as stage:
        stage.declare("a")
        await stage.until("a", "drained")
        await stage.say("drain", "a")
        before = (await stage.cards())["a"]["draining_by"]
        if who == "settings":
            stage.declare()
        else:
            await stage.say("undrain", "a")
        async with asyncio.timeout(60):
            while len((await stage.cards())["a"]["draining_by"]) == 2:
                await asyncio.sleep(0.02)
        card = (await stage.cards())["a"]

        assert ["operator", "settings"] == before
        assert ("drained", [{"operator": "settings", "settings": "operator"}[who]]) == (
            card["state"],
            card["draining_by"],
        )
