"""Facts of a gateway that runs, as `/admin/v1/diagnosis` shows them."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from gateway.app.application import create_app
from gateway.app.asgi import Gateway
from gateway.settings import build
from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.gateway.asgi import running

KEYS = {"keys": [{"id": "vi", "role": "viewer", "secret": "s3cret-of-vi"}]}


async def facts_of(gateway: Gateway) -> dict[str, Any]:
    headers = {"x-api-key": "s3cret-of-vi"}
    transport = httpx.ASGITransport(gateway)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        answer = await client.get("/admin/v1/diagnosis")
    assert answer.status_code == 200, answer.text
    facts: dict[str, Any] = answer.json()
    return facts


async def test_what_the_gateway_knows_of_its_worker(tmp_path: Path) -> None:
    """From metrics, KV events and the start checks; and the teams and the store."""
    write_tokenizer(tmp_path)
    options = SimulatorOptions(port=0, speed=0, kv_events=EventOptions(replay_port=0))
    async with serving(options) as url:
        model = {
            "name": "tiny",
            "strategy": "kv_aware",
            "tokenizer": {"path": str(tmp_path), "budget_s": 5},
            "workers": [{"url": url, "id": "w1"}],
        }
        groups = {"models": [model], "admin": KEYS, "teams": [{"name": "blue"}], "health": {"interval_s": 0.1}}
        gateway = create_app(build({**groups, "store": {"url": f"sqlite:///{tmp_path}/w.db"}}, {}))
        async with running(gateway), asyncio.timeout(60):
            while (facts := await facts_of(gateway))["models"][0]["workers"][0]["check"] is None:
                await asyncio.sleep(0.05)
    (worker,) = facts["models"][0]["workers"]

    assert ("up", "vllm", True) == (worker["state"], worker["engine"], worker["prefix_caching"])
    assert (16, 16, 2048) == (worker["block_size"], worker["event_block_size"], worker["capacity_blocks"])
    assert ("live", None, True) == tuple(worker["stream"][name] for name in ("state", "doubt", "has_replay"))
    assert ("agrees", []) == (worker["check"]["verdict"], worker["check"]["differing"])
    assert 16 == len(worker["check"]["block_hash"])
    assert worker["held_blocks"] > 0
    assert [{"name": "blue", "keys": 0, "unlimited_keys": []}] == facts["teams"]
    assert {"kind": "file", "state": "ready", "fault": None, "dropped_entries": 0} == facts["store"]


async def test_a_gateway_without_teams_and_store() -> None:
    """It is open to this machine; its worker is down, and its model not ready."""
    settings = {"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1", "id": "w1"}]}], "admin": KEYS}
    gateway = create_app(build(settings, {}))
    async with running(gateway):
        facts = await facts_of(gateway)
    (model,) = facts["models"]

    assert ("loopback", None) == (facts["open_mode"], facts["store"]["kind"])
    assert ("none of 1 workers is up", False) == (model["not_ready"], model["uses_events"])
    assert ("down", None, None) == tuple(model["workers"][0][name] for name in ("state", "stream", "check"))
