"""`warmgate serve --processes 2`: one gateway to its clients, whatever happens to one of its processes."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import OWNER, bearer, chat
from tests.e2e.test_reload import hold_back
from tests.e2e.test_stop import until_refused
from tests.gateway.server.harness import free_port
from tests.storage import program

needs_server = pytest.mark.skipif(program() is None, reason="neither redis-server nor valkey-server is installed")
KEY = "processes-key-0123456789abcdef"
STREAMS = 24
"""Streams on connections of their own: it does not happen that the kernel gives all of them to one process."""


def settings(worker: str, limits: Mapping[str, Any] | None = None, **groups: Any) -> dict[str, Any]:
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": [{"id": "a", "url": worker}]}],
        "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": KEY}], "limits": dict(limits or {})}],
        "health": {"interval_s": 0.2, "timeout_s": 10},
        **groups,
    }


@asynccontextmanager
async def processes(
    folder: Path, configured: Mapping[str, Any], *options: str, name: str = "gateway"
) -> AsyncIterator[GatewayProcess]:
    arguments = ("--processes", "2", *options)
    async with gateway_process(folder, configured, name=name, initializes=False, options=arguments) as running:
        yield running


@asynccontextmanager
async def apart(gateway: GatewayProcess, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a connection of its own."""
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, headers={**bearer(KEY), **headers}) as client:
        yield client


class Streams:
    """Streams that have begun, by their request ids."""

    def __init__(self) -> None:
        self.refused = 0
        self.reading: dict[str, asyncio.Task[str]] = {}

    async def begin(self, gateway: GatewayProcess, exits: AsyncExitStack, tasks: asyncio.TaskGroup) -> None:
        client = await exits.enter_async_context(apart(gateway))
        body = chat(stream=True, max_tokens=200, ignore_eos=True)
        response = await exits.enter_async_context(client.stream("POST", "/v1/chat/completions", json=body))
        if response.status_code != 200:
            assert 429 == response.status_code
            self.refused += 1
            return

        async def whole() -> str:
            try:
                return "".join([piece async for piece in response.aiter_text()])
            except httpx.HTTPError:
                return "broken"

        self.reading[response.headers["x-request-id"]] = tasks.create_task(whole())

    async def texts(self) -> dict[str, str]:
        return {name: await reading for name, reading in self.reading.items()}


async def begun(gateway: GatewayProcess, worker: str, exits: AsyncExitStack, tasks: asyncio.TaskGroup) -> Streams:
    """Streams that do not end before `hold_back` with the factor 1."""
    await hold_back(worker)
    streams = Streams()
    for _ in range(STREAMS):
        await streams.begin(gateway, exits, tasks)
    await hold_back(worker, factor=1e4)
    return streams


def lines(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """The lines of the request log."""
    written = gateway.output[0].read_text().splitlines()
    return [line for line in map(json.loads, (each for each in written if each[:1] == "{")) if "request_id" in line]


def pids(gateway: GatewayProcess) -> dict[int, int]:
    """The process ids of the current processes by number."""
    found = re.findall(r"Process (\d+) with the process id (\d+) is ready", gateway.output[1].read_text())
    return {int(number): int(pid) for number, pid in found}


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may stay in the table of processes."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


async def asked(gateway: GatewayProcess, model: str = "tiny") -> int:
    async with apart(gateway) as client:
        return (await client.post("/v1/chat/completions", json={**chat(), "model": model})).status_code


async def until_exposed(gateway: GatewayProcess, *wanted: str) -> None:
    """Until the metrics contain the lines *wanted*: a client may read the end of a stream before it is counted."""
    exposition: list[str] = []
    deadline = time.monotonic() + 60
    while not set(wanted) <= set(exposition):
        assert time.monotonic() < deadline, (wanted, [each for each in exposition if "requests_total" in each])
        async with apart(gateway) as client:
            exposition = (await client.get("/metrics")).text.splitlines()


async def until_logged(gateway: GatewayProcess, text: bytes) -> None:
    async with asyncio.timeout(60):
        while text not in gateway.said():
            await asyncio.sleep(0.05)


async def until_both_know(gateway: GatewayProcess, model: str) -> None:
    """Until connections to whichever process find the model."""
    async with asyncio.timeout(60):
        while {200} != {await asked(gateway, model) for _ in range(STREAMS)}:
            await asyncio.sleep(0.05)


async def test_a_limit_holds_for_all_processes_together(tmp_path: Path) -> None:
    """To the request: whichever process gets it. Each process exposes the metrics of all."""
    async with (
        serving(SimulatorOptions(port=0)) as worker,
        processes(tmp_path, settings(worker, {"max_concurrent_requests": 6})) as gateway,
        AsyncExitStack() as exits,
        asyncio.TaskGroup() as tasks,
    ):
        streams = await begun(gateway, worker, exits, tasks)
        await hold_back(worker, factor=1)
        texts = await streams.texts()
        for _ in range(4):
            await until_exposed(
                gateway,
                'warmgate_requests_total{model="tiny",status="200"} 6.0',
                f'warmgate_requests_total{{model="tiny",status="429"}} {STREAMS - 6}.0',
                'warmgate_worker_in_flight{model="tiny",worker="a"} 0.0',
                'warmgate_requests_in_flight{model="tiny"} 0.0',
            )

    assert (6, STREAMS - 6) == (len(texts), streams.refused)
    assert {1, 2} == {line["process"] for line in lines(gateway)}
    assert {True} == {text.strip().endswith("data: [DONE]") for text in texts.values()}


async def test_a_process_that_is_killed_loses_only_its_streams(tmp_path: Path) -> None:
    """Its successor comes, no connection is refused meanwhile, and no count of it is lost."""
    async with (
        serving(SimulatorOptions(port=0)) as worker,
        processes(tmp_path, settings(worker)) as gateway,
        AsyncExitStack() as exits,
        asyncio.TaskGroup() as tasks,
    ):
        for _ in range(STREAMS):
            assert 200 == await asked(gateway)
        completed = 'warmgate_requests_total{model="tiny",status="200"}'
        assert STREAMS == await gateway.metric(completed)
        streams = await begun(gateway, worker, exits, tasks)
        former = pids(gateway)
        os.kill(former[2], signal.SIGKILL)
        await hold_back(worker, factor=1)
        texts = await streams.texts()
        afterwards = [await asked(gateway) for _ in range(STREAMS)]
        streamed = sum(text.strip().endswith("data: [DONE]") for text in texts.values())
        await until_exposed(gateway, f"{completed} {2 * STREAMS + streamed}.0")

    broken = {name for name, text in texts.items() if not text.strip().endswith("data: [DONE]")}
    by_process = {line["request_id"]: line["process"] for line in lines(gateway)}
    assert 0 < len(broken) < STREAMS
    assert {1} == {by_process[name] for name in texts.keys() - broken}
    assert [200] * STREAMS == afterwards
    assert former[1] == pids(gateway)[1]
    assert former[2] != pids(gateway)[2]


async def test_requests_of_a_killed_process_no_longer_count(tmp_path: Path) -> None:
    """Its places among the concurrent requests are free at once, and only its."""
    async with (
        serving(SimulatorOptions(port=0)) as worker,
        processes(tmp_path, settings(worker, {"max_concurrent_requests": STREAMS})) as gateway,
        AsyncExitStack() as exits,
        asyncio.TaskGroup() as tasks,
    ):
        first = await begun(gateway, worker, exits, tasks)
        assert 429 == await asked(gateway)
        os.kill(pids(gateway)[2], signal.SIGKILL)
        await until_logged(gateway, b"Process 2 was ended by the signal SIGKILL")
        await hold_back(worker)
        second = Streams()
        for _ in range(STREAMS):
            await second.begin(gateway, exits, tasks)
        await hold_back(worker, factor=1)
        broken = sum(text == "broken" for text in (await first.texts()).values())
        await second.texts()

    assert 0 < broken < STREAMS
    assert (broken, STREAMS - broken) == (len(second.reading), second.refused)


async def test_each_process_knows_the_requests_of_the_others(tmp_path: Path) -> None:
    """Each process counts itself, the others, and their requests in progress: the metrics show the highest count of a
    process. A killed process is replaced in this, too.
    """
    async with (
        serving(SimulatorOptions(port=0)) as worker,
        processes(tmp_path, settings(worker, replicas={"heartbeat_s": 0.1, "dead_after_s": 2})) as gateway,
        AsyncExitStack() as exits,
        asyncio.TaskGroup() as tasks,
    ):
        await until_exposed(gateway, "warmgate_replicas 2.0")
        streams = await begun(gateway, worker, exits, tasks)
        async with asyncio.timeout(60):
            while await gateway.metric("warmgate_replica_bookings") < STREAMS / 2:
                await asyncio.sleep(0.05)
        await hold_back(worker, factor=1)
        await streams.texts()
        await until_exposed(gateway, "warmgate_replica_bookings 0.0")
        os.kill(pids(gateway)[2], signal.SIGKILL)
        await until_logged(gateway, b"Process 2 was ended by the signal SIGKILL")
        await until_exposed(gateway, "warmgate_replicas 2.0")


async def test_two_gateways_cannot_use_one_file(tmp_path: Path) -> None:
    """Each of them would grant the whole of every limit."""
    store = {"store": {"url": f"sqlite:///{tmp_path}/store.db"}}
    async with serving(SimulatorOptions(port=0)) as worker, processes(tmp_path, settings(worker, **store)):
        with pytest.raises(AssertionError, match=r"store\.db is in use by another gateway"):
            async with processes(tmp_path, settings(worker, **store), name="second"):
                pass


async def test_processes_that_outlive_their_supervisor_keep_the_file(tmp_path: Path) -> None:
    """A gateway that starts meanwhile would not know what they have granted."""
    store = {"store": {"url": f"sqlite:///{tmp_path}/store.db"}}
    async with serving(SimulatorOptions(port=0)) as worker:
        configured = settings(worker, **store)
        async with (
            processes(tmp_path, configured) as gateway,
            AsyncExitStack() as exits,
            asyncio.TaskGroup() as tasks,
        ):
            streams = await begun(gateway, worker, exits, tasks)
            running = pids(gateway)
            await gateway.kill()
            with pytest.raises(AssertionError, match=r"store\.db is in use by another gateway"):
                async with processes(tmp_path, configured, name="early"):
                    pass
            await hold_back(worker, factor=1)
            await streams.texts()
        async with asyncio.timeout(60):
            while any(runs(pid) for pid in running.values()):
                await asyncio.sleep(0.05)
        async with processes(tmp_path, configured, name="late") as gateway:
            assert 200 == await asked(gateway)


async def test_a_reload_reaches_all_processes_or_none(tmp_path: Path) -> None:
    async with serving(SimulatorOptions(port=0)) as worker, processes(tmp_path, settings(worker)) as gateway:
        good = settings(worker)
        good["models"][0]["aliases"] = ["small"]
        gateway.configure("models: [{name: small}, {name: small}]")
        gateway.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(60):
            while b"was rejected and nothing has changed" not in gateway.said():
                await asyncio.sleep(0.05)
        before = {await asked(gateway) for _ in range(STREAMS)}
        gateway.configure(good)
        gateway.process.send_signal(signal.SIGHUP)
        await until_both_know(gateway, "small")

    assert {200} == before


async def test_a_stop_lets_all_streams_end(tmp_path: Path) -> None:
    """At once after the signal no one listens, and the gateway ends with status 0."""
    async with (
        serving(SimulatorOptions(port=0)) as worker,
        processes(tmp_path, settings(worker)) as gateway,
        AsyncExitStack() as exits,
        asyncio.TaskGroup() as tasks,
    ):
        streams = await begun(gateway, worker, exits, tasks)
        gateway.stop()
        await until_refused(gateway.url)
        await hold_back(worker, factor=1)
        texts = await streams.texts()

        assert 0 == await gateway.end()

    assert {True} == {text.strip().endswith("data: [DONE]") for text in texts.values()}
    assert {1, 2} == {line["process"] for line in lines(gateway)}


async def test_processes_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """They serve their requests to the end, and no one listens any more."""
    async with serving(SimulatorOptions(port=0)) as worker, processes(tmp_path, settings(worker)) as gateway:
        running = pids(gateway)
        await gateway.kill()
        await until_refused(gateway.url)
        async with asyncio.timeout(60):
            while any(runs(pid) for pid in running.values()):
                await asyncio.sleep(0.05)

    assert {1, 2} == set(running)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("sqlite://", ()), pytest.param("unix:/", ("--store-server",), marks=needs_server)],
    ids=["file", "store server"],
)
async def test_used_limits_survive_a_restart(
    kind: str, options: tuple[str, ...], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a file, and with a store server that keeps its data. The limit is used up once, not twice."""
    folder = tmp_path_factory.mktemp("s")
    store = {"store": {"url": f"{kind}/{folder}/s"}}
    used = []
    async with serving(SimulatorOptions(port=0)) as worker:
        configured = settings(worker, {"tokens_per_day": 100}, **store)
        for name in ("first", "second"):
            async with processes(tmp_path, configured, *options, name=name) as gateway:
                for _ in range(STREAMS):
                    async with apart(gateway) as client:
                        response = await client.post("/v1/chat/completions", json=chat())
                    if response.status_code == 200:
                        used.append(response.json()["usage"]["total_tokens"])

    assert 50 < sum(used) < 150


async def test_the_admin_port_is_one_for_all(tmp_path: Path) -> None:
    """What an operator drains there gets requests of no process, and neither of one that starts later."""
    admin = {"port": free_port(), "keys": [{"id": "root", "role": "owner", "secret": OWNER}]}
    async with serving(SimulatorOptions(port=0)) as worker, serving(SimulatorOptions(port=0)) as other:
        configured = settings(worker, admin=admin)
        configured["models"][0] |= {"strategy": "round_robin"}
        configured["models"][0]["workers"].append({"id": "b", "url": other})
        async with (
            processes(tmp_path, configured) as gateway,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{admin['port']}", timeout=60, headers=bearer(OWNER)) as http,
        ):
            said = await http.post("/admin/v1/workers/drain", json={"worker": "a"})
            assert said.is_success, said.text

            async def workers() -> set[str]:
                found = set()
                for _ in range(STREAMS):
                    async with apart(gateway) as client:
                        response = await client.post("/v1/chat/completions", json=chat())
                    found.add(response.headers["x-warmgate-worker"])
                return found

            async with asyncio.timeout(60):
                while await workers() != {"b"}:
                    await asyncio.sleep(0.05)
            os.kill(pids(gateway)[2], signal.SIGTERM)
            former = pids(gateway)[2]
            async with asyncio.timeout(60):
                while pids(gateway)[2] == former:
                    await asyncio.sleep(0.05)
                while await workers() != {"b"}:
                    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ({"store": {"url": "sqlite:///:memory:"}}, "store.url is a SQLite database in memory"),
        ({"admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]}}, "admin.port is not set"),
    ],
)
async def test_settings_of_one_process_are_refused(tmp_path: Path, groups: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        async with processes(tmp_path, settings("http://127.0.0.1:9", **groups)):
            pass
