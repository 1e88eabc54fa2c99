"""Alerts fire when what they are for really happens: each fault is caused, and Prometheus says so; then it is mended.

The expressions are those that ship; only the time for which they have to hold is cut to a second.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.deploy.observed import Run, observed
from tests.deploy.prometheus import until
from tests.e2e.cascading import measured
from tests.fakes.bedrock import Refuses, Says
from tests.storage import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.timeout(600)]

UNTRUSTED, INEFFECTIVE = "WarmgateIndexUntrusted", "WarmgatePolicyNotEffective"
DEGRADED, KEYS_AWAY = "WarmgateQuotaStoreDegraded", "WarmgateKeyStoreAway"
CANARY, NO_WORKER = "WarmgateBedrockCanaryFailed", "WarmgateNoHealthyWorker"


async def firing(run: Run, alert: str, **labels: str) -> bool:
    """Whether *alert* fires for what has these *labels*."""
    wanted = ",".join([f'{name}="{value}"' for name, value in labels.items()])
    return bool(await run.prometheus.ask(f'ALERTS{{alertname="{alert}",alertstate="firing",{wanted}}}'))


async def fires(run: Run, alert: str, *, since: float, **labels: str) -> None:
    """Wait until it does; *since* is when its fault was caused, monotonic."""
    assert await until(lambda: firing(run, alert, **labels), bool), f"{alert} does not fire"
    measured(f"{alert} fires {time.monotonic() - since:.1f} s after its fault")


async def is_over(run: Run, alert: str, **labels: str) -> None:
    """Wait until it does not fire any more."""
    assert not await until(lambda: firing(run, alert, **labels), lambda fires: not fires), f"{alert} does not end"


@pytest.fixture
async def run(tmp_path: Path, durable_redis_server: RedisServer) -> AsyncIterator[Run]:
    """A gateway for which all is well."""
    async with observed(tmp_path, durable_redis_server, gateways=1) as running:
        live = 'sum(warmgate_kv_stream_state{state="live"}) + sum(warmgate_fallback_canary_ok)'
        # Two streams of events, and two models on Bedrock.
        assert await until(lambda: running.prometheus.ask(f"{live} == 4"), bool), "the run did not become well"
        for alert in (UNTRUSTED, DEGRADED, KEYS_AWAY, CANARY):
            await is_over(running, alert)
        for alert in (INEFFECTIVE, NO_WORKER):
            await is_over(running, alert, model="told")
        yield running


async def test_each_fault_is_reported_and_so_is_its_end(run: Run) -> None:
    """One after the other, in one run: Bedrock's canary is asked each half minute only, so it begins and ends all."""
    first, second = run.tellers
    refused_at = time.monotonic()
    run.bedrock.default = Refuses(403, "AccessDeniedException", "You don't have access to the model")

    at = time.monotonic()
    await first.fall_silent()
    await fires(run, UNTRUSTED, since=at, worker=first.worker.url)
    assert not await firing(run, UNTRUSTED, worker=second.worker.url)
    assert not await firing(run, INEFFECTIVE, model="told")

    at = time.monotonic()
    await second.fall_silent()
    await fires(run, INEFFECTIVE, since=at, model="told")

    at = time.monotonic()
    run.redis.kill()
    await asyncio.gather(fires(run, DEGRADED, since=at), fires(run, KEYS_AWAY, since=at))

    at = time.monotonic()
    await first.worker.die()
    await fires(run, "WarmgateWorkerDown", since=at, worker=first.worker.url)
    assert not await firing(run, NO_WORKER, model="told")
    at = time.monotonic()
    await second.worker.die()
    await fires(run, NO_WORKER, since=at, model="told")

    await fires(run, CANARY, since=refused_at)

    run.bedrock.default = Says()
    run.redis.start()
    for teller in run.tellers:
        await teller.worker.live()
        await teller.speak()
    await asyncio.gather(
        is_over(run, NO_WORKER, model="told"),
        is_over(run, DEGRADED),
        is_over(run, KEYS_AWAY),
        *(is_over(run, UNTRUSTED, worker=teller.worker.url) for teller in run.tellers),
        is_over(run, INEFFECTIVE, model="told"),
        is_over(run, CANARY),
    )
