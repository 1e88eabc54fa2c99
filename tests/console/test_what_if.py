"""Replays compared with what really happens: real gateways and simulated workers, the same callers, real time."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.console.what_if_load import conversations, hold
from tests.e2e.gateway_process import gateway_process
from tests.e2e.stack import program

STRATEGIES = ("prefix_aware", "round_robin", "least_loaded")
BAR = 0.15
"""Largest difference between the predicted and the actual mean time to the first token."""
WORKER = ("--blocks", "900", "--prefill-tokens-per-s", "2500", "--tpot-ms", "15")
ADMIN = {"authorization": "Bearer operator-of-the-what-if-test"}
LOAD = {"lasts_s": 45.0, "per_s": 0.7}


async def served(folder: Path, strategy: str, changes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a replay with *changes* after all conversations were held with *strategy*."""
    async with AsyncExitStack() as exits:
        workers = [await exits.enter_async_context(program("simulate", "--port", "0", *WORKER)) for _ in range(3)]
        settings = {
            "server": {"port": 0},
            "models": [{"name": "tiny", "strategy": strategy, "workers": [{"url": url} for _, url in workers]}],
            "admin": {"keys": [{"role": "operator", "secret": ADMIN["authorization"].removeprefix("Bearer ")}]},
            "request_shapes": {"enabled": True},
            "logging": {"requests": False},
        }
        gateway = await exits.enter_async_context(gateway_process(folder, settings, name=strategy))
        client = await exits.enter_async_context(AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="-", max_retries=0))
        await hold(client, conversations(1, **LOAD))
        started = await gateway.http.post("/admin/v1/what-if", json={"alternatives": changes}, headers=ADMIN)
        assert 202 == started.status_code, started.text
        return await _result(gateway.http)


async def _result(http: httpx.AsyncClient) -> dict[str, Any]:
    async with asyncio.timeout(300):
        while (state := (await http.get("/admin/v1/what-if", headers=ADMIN)).json())["status"] == "running":
            await asyncio.sleep(0.5)
    assert "done" == state["status"], state["error"]
    result: dict[str, Any] = state["result"]
    return result


@pytest.mark.timeout(900)
async def test_a_replay_predicts_what_another_strategy_really_does(tmp_path: Path) -> None:
    """The run with prefix_aware is recorded; its replay predicts the means of all three, each within 15 %."""
    changes = [{"strategy": strategy} for strategy in STRATEGIES]
    results = {strategy: await served(tmp_path, strategy, changes) for strategy in STRATEGIES}
    predicted = {
        row["fleet"]["strategy"]: row["figures"]["ttft_mean_s"] for row in results["prefix_aware"]["alternatives"]
    }
    actual = {strategy: result["measured"]["ttft_mean_s"] for strategy, result in results.items()}

    assert actual == {strategy: pytest.approx(predicted[strategy], rel=BAR) for strategy in STRATEGIES}
