"""A gateway that is asked to stop, and one that has not quite begun: what clients see of both."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.stack import quick
from tests.e2e.test_reload import held_back, hold_back
from tests.gateway.server.harness import free_port

KEY = {"authorization": "Bearer wg-the-key-of-blue-0123456789abcdef"}
BLUE = {
    "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": KEY["authorization"].removeprefix("Bearer ")}]}],
}


def settings(worker: str, **server: Any) -> dict[str, Any]:
    return {
        "server": {"port": 0, **server},
        "models": [{"name": "tiny", "workers": [{"id": "a", "url": worker}]}],
        "health": {"interval_s": 0.1},
    }


def chat(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Tell me a story."}]
    return {"model": "tiny", "messages": messages, "max_tokens": 30, **fields}


@asynccontextmanager
async def streaming(gateway: GatewayProcess, **headers: str) -> AsyncIterator["asyncio.Task[str]"]:
    """A stream that has begun, on a connection of its own, and the task that reads all of it."""
    body = chat(stream=True, stream_options={"include_usage": True})
    async with (
        httpx.AsyncClient(base_url=gateway.url, timeout=60, verify=False, headers=headers) as client,
        client.stream("POST", "/v1/chat/completions", json=body) as response,
    ):
        assert 200 == response.status_code
        pieces = response.aiter_text()
        first = await anext(pieces)

        async def whole() -> str:
            return first + "".join([piece async for piece in pieces])

        async with asyncio.TaskGroup() as tasks:
            yield tasks.create_task(whole())


async def asked_apart(gateway: GatewayProcess, method: str, path: str, **more: Any) -> httpx.Response:
    """On a connection of its own."""
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, verify=False) as client:
        return await client.request(method, path, **more)


async def until_stopping(gateway: GatewayProcess) -> httpx.Response:
    """What `/readyz` says when the signal has come."""
    async with asyncio.timeout(60):
        while (response := await asked_apart(gateway, "GET", "/readyz")).status_code != 503:
            await asyncio.sleep(0.01)
    return response


async def until_refused(url: str) -> None:
    """No one listens there."""
    host, port = url.removeprefix("http://").split(":")
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except ConnectionError:
                return
            writer.close()
            await asyncio.sleep(0.01)


async def test_load_balancers_are_reported_while_requests_are_still_taken(tmp_path: Path) -> None:
    """`/readyz` says so at once, on old connections and new ones; every answer says that its connection ends."""
    async with (
        serving(quick()) as worker,
        gateway_process(tmp_path, settings(worker, stop_delay_s=600)) as gateway,
    ):
        first = await gateway.http.get("/readyz")  # keeps its connection
        gateway.stop()
        reported = await until_stopping(gateway)
        old = await gateway.http.get("/readyz")
        answer = await asked_apart(gateway, "POST", "/v1/chat/completions", json=chat())
        gateway.stop(signal.SIGINT)
        code = await gateway.end()

    assert (200, "stopping", 503) == (first.status_code, reported.json()["status"], old.status_code)
    assert {"tiny": "ready"} == reported.json()["models"]
    assert (200, 1) == (answer.status_code, len(answer.json()["choices"]))
    assert ["close"] * 3 == [each.headers.get("connection") for each in (reported, old, answer)]
    assert 0 == code


async def test_a_stream_goes_on_to_its_end_when_no_one_is_let_in_any_more(tmp_path: Path) -> None:
    """However long it takes, within the grace; then the gateway ends in peace."""
    async with (
        serving(quick(speed=1, tpot_ms=10)) as worker,
        gateway_process(tmp_path, settings(worker, stop_delay_s=0.2)) as gateway,
    ):
        await hold_back(worker)  # so that the stream cannot end before it is held back altogether
        async with streaming(gateway) as stream:
            async with held_back(worker):
                gateway.stop()
                await until_refused(gateway.url)
                runs = not stream.done()
            text = await stream
        code = await gateway.end()

    assert runs
    assert text.endswith("data: [DONE]\n\n")
    assert '"completion_tokens":' in text
    assert 0 == code


async def test_a_stream_that_the_grace_cuts_is_reported_and_paid_for(tmp_path: Path) -> None:
    """It ends with an error event, not in the middle; what it had used is in the ledger when the gateway has ended."""
    file = tmp_path / "warmgate.db"
    async with serving(quick(speed=1, tpot_ms=10)) as worker:
        given = settings(worker, shutdown_grace_s=1)
        given |= {**BLUE, "store": {"url": f"sqlite:///{file}"}}
        async with gateway_process(tmp_path, given) as gateway:
            await hold_back(worker)
            async with streaming(gateway, **KEY) as stream, held_back(worker):
                gateway.stop()
                text = await stream
            code = await gateway.end()

    *_, last = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert "gateway_stopping" == json.loads(last)["error"]["code"]
    assert 0 == code
    with closing(sqlite3.connect(file)) as ledger:
        ((outcome, prompt, completion),) = ledger.execute(
            "SELECT outcome, prompt_tokens, completion_tokens FROM usage_records"
        ).fetchall()
    assert "aborted" == outcome
    assert prompt > 0
    assert 0 < completion < 30


async def test_a_request_that_waits_for_a_worker_is_waited_for(tmp_path: Path) -> None:
    """It has not begun to be answered, and is answered all the same, by the worker that comes meanwhile."""
    port = free_port()
    given = settings(f"http://127.0.0.1:{port}")
    given["retry"] = {"wait_s": 30}
    async with gateway_process(tmp_path, given) as gateway, asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(asked_apart(gateway, "POST", "/v1/chat/completions", json=chat()))
        async with asyncio.timeout(60):
            while await gateway.metric('warmgate_requests_in_flight{model="tiny"}') < 1:
                await asyncio.sleep(0.01)
        gateway.stop()
        await until_refused(gateway.url)
        async with serving(quick(port=port)):
            response = await asking
        code = await gateway.end()

    assert (200, "close", 0) == (response.status_code, response.headers.get("connection"), code)


async def test_no_one_is_let_in_before_it_is_known_how_the_workers_are(tmp_path: Path) -> None:
    """A port that accepts is one that answers, and `/readyz` is true from the first time on."""
    visited, may_answer = asyncio.Event(), asyncio.Event()

    async def health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        visited.set()
        await may_answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    worker = await asyncio.start_server(health, "127.0.0.1", 0)
    async with worker, asyncio.TaskGroup() as tasks:
        given = settings(f"http://127.0.0.1:{worker.sockets[0].getsockname()[1]}")
        given["server"]["port"] = free_port()
        given["health"] |= {"timeout_s": 30}
        given["models"][0]["strategy"] = "round_robin"
        url = f"http://127.0.0.1:{given['server']['port']}"

        async def first_word() -> httpx.Response:
            async with gateway_process(tmp_path, given) as gateway:
                return await gateway.http.get("/readyz")

        starting = tasks.create_task(first_word())
        await asyncio.wait_for(visited.wait(), 60)
        await until_refused(url)
        may_answer.set()
        response = await starting

    assert (200, {"tiny": "ready"}) == (response.status_code, response.json()["models"])
