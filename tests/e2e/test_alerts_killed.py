"""Alerts about budgets reach their receiver although gateways are killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from simulator.server import serving
from tests.alert_receiver import SECRET, AlertReceiver, alert_receiver
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import OWNER
from tests.e2e.stack import HELD_KEY, quick
from tests.storage import RedisServer


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'db'}"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


@pytest.fixture
async def worker() -> AsyncIterator[str]:
    async with serving(quick()) as url:
        yield url


def settings(store: str, worker: str, receiver: AlertReceiver, *, check_s: float = 0.1) -> dict[str, Any]:
    return {
        "server": {"port": 0},
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "models": [{"name": "tiny", "workers": [{"url": worker}]}],
        "teams": [
            {
                "name": "blue",
                "keys": [{"id": "ci", "secret": HELD_KEY}],
                "limits": {"tokens_per_day": 1500},
                "user_limits": {"tokens_per_day": 1500},
            }
        ],
        "store": {"url": store},
        "quota": {"time_zone": "UTC"},
        "alerts": {
            "thresholds": [0.2, 0.4, 0.75],
            "check_s": check_s,
            "webhooks": [{"name": "ops", "url": receiver.url, "secret_env": "ALERT_SECRET"}],
        },
    }


async def use(gateway: GatewayProcess, prompts: str) -> None:
    """Use 160 to 205 tokens with each request, as the end user ``ann``. Prompts that differ share no cached prefix."""
    for prompt in prompts:
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": f"{prompt} " + "hello " * 100}],
            "max_tokens": 40,
            "user": "ann",
        }
        answer = await gateway.http.post(
            "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {HELD_KEY}"}
        )
        assert answer.status_code == 200, answer.text


def thresholds(receiver: AlertReceiver, scope: str) -> list[float]:
    """Thresholds in the order in which they arrived first. A delivery can be repeated after a kill."""
    return list(
        dict.fromkeys(each["data"]["threshold"] for each in receiver.alerts() if each["data"]["scope"] == scope)
    )


async def delivered(gateways: list[GatewayProcess], count: int) -> list[float]:
    """Wait until *gateways* together have recorded *count* deliveries; those of each."""
    name = 'warmgate_alert_deliveries_total{outcome="delivered",receiver="ops"}'
    async with asyncio.timeout(60):
        while sum(found := [await each.metric(name) for each in gateways]) < count:
            await asyncio.sleep(0.05)
    return found


async def test_an_alert_that_was_not_delivered_is_delivered_after_a_kill(
    tmp_path: Path, store: str, worker: str
) -> None:
    """In order for each budget, with verified signatures, and not again after a further restart."""
    variables = {"ALERT_SECRET": SECRET}
    async with alert_receiver(status=503) as receiver:
        wanted = settings(store, worker, receiver)
        async with gateway_process(tmp_path, wanted, variables=variables) as gateway:
            await use(gateway, "abcd")
            await receiver.attempted()
            await gateway.kill()
        receiver.status = 200
        async with gateway_process(tmp_path, wanted, variables=variables) as gateway:
            await delivered([gateway], 4)
            await gateway.kill()
        async with gateway_process(tmp_path, wanted, variables=variables, name="last") as gateway:
            await use(gateway, "efg")
            await receiver.accepted(6)
            said = gateway.said()

    assert ([0.2, 0.4, 0.75], [0.2, 0.4, 0.75]) == (thresholds(receiver, "team"), thresholds(receiver, "user"))
    assert 6 == len(receiver.ids()) == len(set(receiver.ids()))
    assert SECRET.encode() not in said
    assert receiver.url.encode() not in said


async def test_a_threshold_that_no_gateway_saw_is_found_after_a_kill(tmp_path: Path, store: str, worker: str) -> None:
    """The gateway that served the requests never compares, and the next one finds the use in the store."""
    variables = {"ALERT_SECRET": SECRET}
    async with alert_receiver() as receiver:
        wanted = settings(store, worker, receiver, check_s=3600)
        async with gateway_process(tmp_path, wanted, variables=variables) as gateway:
            await use(gateway, "abcd")
            async with asyncio.timeout(60):
                while (await gateway.admin.done("GET", "/usage"))["data"][0]["requests"] < 4:
                    await asyncio.sleep(0.05)
            await gateway.kill()
        async with gateway_process(tmp_path, settings(store, worker, receiver), variables=variables):
            await receiver.accepted(4)

    assert ([0.2, 0.4], [0.2, 0.4]) == (thresholds(receiver, "team"), thresholds(receiver, "user"))


@pytest.mark.redis
async def test_another_gateway_delivers_if_the_first_is_killed(
    tmp_path: Path, redis_server: RedisServer, worker: str
) -> None:
    variables = {"ALERT_SECRET": SECRET}
    async with alert_receiver() as receiver, AsyncExitStack() as exits:
        wanted = settings(redis_server.url, worker, receiver)
        started = [
            await exits.enter_async_context(gateway_process(tmp_path, wanted, name=f"gateway-{n}", variables=variables))
            for n in range(3)
        ]
        await use(started[0], "abcd")
        counts = await delivered(started, 4)
        sender = started[counts.index(max(counts))]
        await sender.kill()
        others = [each for each in started if each is not sender]
        await use(others[0], "efg")
        await receiver.accepted(6)

    assert ([0.2, 0.4, 0.75], [0.2, 0.4, 0.75]) == (thresholds(receiver, "team"), thresholds(receiver, "user"))
