"""Changes of files in the audit log of gateways that share a store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, replicas
from tests.e2e.governed import OWNER
from tests.e2e.stack import quick
from tests.storage import RedisServer


def settings(worker: str, url: str, workers_file: Path, **model: Any) -> dict[str, Any]:
    workers = [{"url": worker, "id": "w"}]
    return {
        "server": {"port": 0},
        "models": [{"name": "tiny", "workers": workers, "workers_file": str(workers_file), **model}],
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "store": {"url": url},
    }


async def entries(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """Those of settings, the oldest first."""
    page = await gateway.admin.done("GET", "/audit")
    return [entry for entry in reversed(page["data"]) if entry["kind"] == "settings"]


async def until_taken(gateway: GatewayProcess, metric: str) -> None:
    async with asyncio.timeout(60):
        while await gateway.metric(metric) != 1:
            await asyncio.sleep(0.02)


@pytest.mark.redis
async def test_a_change_that_all_gateways_take_is_logged_once(redis_server: RedisServer, tmp_path: Path) -> None:
    """The start, a file that lists workers, and the configuration; by the file that was changed."""
    workers_file = tmp_path / "workers.yaml"
    workers_file.write_text("[]")
    async with serving(quick()) as worker, serving(quick()) as listed:
        before = settings(worker, redis_server.url, workers_file)
        async with replicas(tmp_path, before) as gateways:
            (tmp_path / "new.yaml").write_text(yaml.safe_dump([{"url": listed, "id": "l"}]))
            (tmp_path / "new.yaml").rename(workers_file)
            for gateway in gateways:
                await until_taken(gateway, 'warmgate_worker_up{model="tiny",worker="l"}')
            for gateway in gateways:
                gateway.configure(settings(worker, redis_server.url, workers_file, aliases=["gpt-4o"]))
            for gateway in gateways:
                await until_taken(gateway, 'warmgate_config_reloads_total{outcome="applied"}')
            async with asyncio.timeout(60):
                while len(await entries(gateways[0])) < 3:
                    await asyncio.sleep(0.02)
            await gateways[0].reload("unchanged")
            await gateways[1].reload("unchanged")
            start, added, changed = await entries(gateways[1])

    assert ["start", "update", "update"] == [each["action"] for each in (start, added, changed)]
    assert f"file:{workers_file}" == added["who"]
    assert listed == added["after"]["models[tiny].workers_file[l].url"]
    assert ({}, {"models[tiny].aliases": ["gpt-4o"]}) == (changed["before"], changed["after"])
