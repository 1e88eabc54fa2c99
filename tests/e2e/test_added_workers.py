"""Workers that the admin API adds, of gateways in processes of their own: replicas, restarts, streams that go on."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process, replicas
from tests.e2e.governed import OWNER, bearer, chat
from tests.e2e.stack import quick
from tests.storage import RedisServer, RedisServers, free_port

CI = "ci-secret-0123456789abcdef"


def configuration(worker: str, **groups: Any) -> dict[str, Any]:
    models = [{"name": name, "workers": [{"url": worker, "id": "listed"}]} for name in ("tiny", "second")]
    return {
        "server": {"port": 0},
        "models": models,
        "health": {"interval_s": 0.2, "timeout_s": 10},
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": CI}]}],
        **groups,
    }


async def states(gateway: GatewayProcess) -> dict[tuple[str, str], tuple[str, str]]:
    """Source and state of each worker, by model and id."""
    workers = (await gateway.admin.done("GET", "/workers"))["workers"]
    return {(each["model"], each["worker"]): (each["source"], each["state"]) for each in workers}


async def until(gateway: GatewayProcess, expected: Mapping[tuple[str, str], tuple[str, str]]) -> None:
    """Wait until these are the workers of *gateway*."""
    async with asyncio.timeout(60):
        while await states(gateway) != expected:
            await asyncio.sleep(0.02)


def named(response: httpx.Response) -> str:
    worker: str = response.headers["x-warmgate-worker"]
    return worker


LISTED = {("tiny", "listed"): ("settings", "up"), ("second", "listed"): ("settings", "up")}
ADDED = LISTED | {("tiny", "w7"): ("api", "up")}


async def served_by(gateway: GatewayProcess) -> set[str]:
    """Workers that answer requests for tiny, of which no two begin alike."""
    reported = [
        await gateway.http.post("/v1/chat/completions", json=chat(f"{n} {'x' * 4 * n}"), headers=bearer(CI))
        for n in range(12)
    ]
    assert {200} == {response.status_code for response in reported}
    return {named(response) for response in reported}


@pytest.mark.redis
async def test_an_added_worker_serves_at_every_replica_and_is_removed_from_each(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """A stream that it has at the other one goes on to its end; what was removed can be added again."""
    slow = SimulatorOptions(port=0, tpot_ms=20)
    async with serving(quick()) as listed, serving(slow) as added:
        settings = configuration(listed, store={"url": redis_server.url, "replicas": 2})
        settings["models"][0]["strategy"] = "round_robin"
        body = {"model": "tiny", "url": added, "id": "w7"}
        async with replicas(tmp_path, settings) as (a, b):
            await a.admin.done("POST", "/workers", body)
            for gateway in (a, b):
                await until(gateway, ADDED)
                assert {"listed", "w7"} == await served_by(gateway)
            asked = chat(stream=True, max_tokens=100)
            pieces = ""
            for _ in range(2):  # by turns
                async with b.http.stream("POST", "/v1/chat/completions", json=asked, headers=bearer(CI)) as response:
                    if response.headers["x-warmgate-worker"] != "w7":
                        await response.aread()
                        continue
                    text = response.aiter_text()
                    pieces = await anext(text)
                    await a.admin.done("DELETE", "/workers", model="tiny", worker="w7")
                    for gateway in (a, b):
                        await until(gateway, LISTED)
                        assert {"listed"} == await served_by(gateway)
                    pieces += "".join([piece async for piece in text])
                    break
            again = await b.admin.done("POST", "/workers", body)

    assert pieces.rstrip().endswith("data: [DONE]")
    assert "error" not in pieces
    assert ["w7"] == [each["worker"] for each in again["workers"]]


@pytest.mark.redis
async def test_a_gateway_that_starts_without_its_store_is_ready_when_it_has_read_the_added_workers(
    redis_servers: RedisServers, tmp_path: Path
) -> None:
    server = redis_servers.started(fsync="always", port=free_port())
    async with serving(quick()) as listed, serving(quick()) as added:
        settings = configuration(listed, store={"url": server.tcp_url, "replicas": 2})
        async with gateway_process(tmp_path, settings) as gateway:
            await gateway.admin.done("POST", "/workers", {"model": "tiny", "url": added, "id": "w7"})
        server.stop()
        async with gateway_process(tmp_path, settings, initializes=False) as gateway:
            before = (await gateway.http.get("/readyz")).status_code, set(await states(gateway))
            server.start()
            async with asyncio.timeout(60):
                while (await gateway.http.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.02)
            read = set(await states(gateway))
            await until(gateway, ADDED)

    assert (503, set(LISTED)) == before
    assert set(ADDED) == read


async def test_an_added_worker_outlives_a_restart_and_its_model(tmp_path: Path) -> None:
    """It is there from the beginning on; without its model it is listed, does no harm, and can be removed."""
    store = {"url": f"sqlite:///{tmp_path}/warmgate.db"}
    async with serving(quick()) as listed, serving(quick()) as added:
        settings = configuration(listed, store=store)
        async with gateway_process(tmp_path, settings) as gateway:
            await gateway.admin.done("POST", "/workers", {"model": "tiny", "url": added, "id": "w7"})
            await until(gateway, ADDED)
        async with gateway_process(tmp_path, settings) as gateway:
            started = await states(gateway)
            without = {**settings, "models": settings["models"][1:]}
            gateway.configure(without)
            await gateway.reload()
            alone = await states(gateway)
            gateway.configure(settings)
            await gateway.reload()
            await until(gateway, ADDED)
        async with gateway_process(tmp_path, without) as gateway:
            removed = await gateway.admin.ask("DELETE", "/workers", model="tiny", worker="w7")
            left = await states(gateway)

    only = {("second", "listed"): ("settings", "up")}
    assert ADDED == started
    assert only | {("tiny", "w7"): ("api", "model_not_configured")} == alone
    assert (204, only) == (removed.status_code, left)


async def test_a_worker_that_a_file_lists_cannot_be_removed(tmp_path: Path) -> None:
    """The answer says where it comes from; its address cannot be added a second time."""
    workers = tmp_path / "workers.yaml"
    async with serving(quick()) as listed, serving(quick()) as found:
        workers.write_text(f"- {{url: '{found}', id: found}}\n")
        settings = configuration(listed)
        settings["models"][0]["workers_file"] = str(workers)
        async with gateway_process(tmp_path, settings) as gateway:
            origin = (await states(gateway))[("tiny", "found")]
            refused = [
                await gateway.admin.ask("DELETE", "/workers", model="tiny", worker="found"),
                await gateway.admin.ask("POST", "/workers", {"model": "tiny", "url": found, "id": "twice"}),
            ]

    assert ("workers_file", "up") == origin
    assert [409, 409] == [response.status_code for response in refused]
    assert all("was found by models[].workers_file" in response.text for response in refused)


async def test_a_command_adds_a_worker_to_a_gateway_that_runs(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/warmgate.db"}
    async with (
        serving(quick()) as listed,
        serving(quick()) as added,
        gateway_process(tmp_path, configuration(listed, store=store)) as gateway,
    ):
        config = str(gateway.config)
        for command in (["add", added, "--id", "w7"], ["remove", "w7"]):
            arguments = ["-m", "gateway", "workers", *command, "--model", "tiny", "--config", config]
            process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
            assert 0 == await asyncio.wait_for(process.wait(), 60)
            await until(gateway, ADDED if command[0] == "add" else LISTED)
