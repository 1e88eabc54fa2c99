"""Requests that wait for a worker wait in their streams of Envoy, and those that cannot wait are refused."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx

from tests.picker.rig import PATIENCE_S, Rig, requests_of, rig

LONG = "word " * 20_000
"""A prompt that takes longer than the backlog at which a worker counts as about to be free."""
HELD: Any = {
    "model": {"strategy": "kv_aware"},
    "options": {"max_model_len": 200_000, "blocks": 20_000},
    # A prompt takes hours by this estimate, so the time that the test takes decides nothing.
    "advanced": {"initial_prefill_tokens_per_s": 1},
}


WITH_FAIRNESS: Any = {
    "admin": {"keys": [{"role": "viewer", "secret": "the-viewers-own-token"}]},
    "queue": {"max_waiting_per_team": 1},
}
"""Limits of the queue count if there are teams or admin keys. Without teams, all requests belong to one."""


async def set_fault(there: Rig, mode: str) -> None:
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE_S) as http:
        for worker in there.workers:
            assert 200 == (await http.post(f"http://{worker}/control/faults", json={"mode": mode})).status_code


async def waiting(there: Rig) -> float:
    lines = (await there.picker.http.get("/metrics")).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("warmgate_requests_waiting{"))


async def until_waiting(there: Rig, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await waiting(there) != count:
            await asyncio.sleep(0.02)


async def until_sent(there: Rig, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await there.envoy.counter("cluster.pool.upstream_rq_active") != count:
            await asyncio.sleep(0.02)


async def order_at_worker(there: Rig) -> list[str]:
    """Return the first words of the requests that the only worker got, in their order."""
    bodies = [base64.b64decode(each["body"]).decode() for each in await requests_of(there.workers[0])]
    return [body.partition('"content":"')[2].partition(" ")[0] for body in bodies]


async def test_a_request_waits_in_its_stream_and_the_target_of_llm_d_decides_the_order(tmp_path: Path) -> None:
    """The worker computes one prompt, and two requests wait. The later one has a target time to first token, under the
    name of llm-d, that it would miss otherwise, so it goes first.
    """
    async with rig(tmp_path, 1, **HELD) as there, asyncio.TaskGroup() as tasks:
        await set_fault(there, "stuck")
        answers = [tasks.create_task(there.chat(f"first {LONG}", stream=True))]
        await until_sent(there, 1)
        answers.append(tasks.create_task(there.chat(f"patient {LONG}", stream=True)))
        await until_waiting(there, 1)
        headers = {"x-llm-d-slo-ttft-ms": "1"}
        answers.append(tasks.create_task(there.chat(f"urgent {LONG}", headers=headers, stream=True)))
        await until_waiting(there, 2)
        streams = await there.envoy.counter("cluster.picker-of-pool.upstream_rq_active")
        sent = await there.envoy.counter("cluster.pool.upstream_rq_active")
        await set_fault(there, "none")
        statuses = [(await answer).status_code for answer in answers]
        order = await order_at_worker(there)

    assert (3, 1) == (streams, sent)
    assert [200, 200, 200] == statuses
    assert ["first", "urgent", "patient"] == order


async def test_a_request_that_finds_the_queue_full_is_status_429(tmp_path: Path) -> None:
    """The protocol of endpoint pickers wants 429 if a request is dropped. Clients of llm-d get the reason, and when to
    ask again.
    """
    async with rig(tmp_path, 1, **WITH_FAIRNESS, **HELD) as there, asyncio.TaskGroup() as tasks:
        await set_fault(there, "stuck")
        answers = [tasks.create_task(there.chat(f"first {LONG}", stream=True))]
        await until_sent(there, 1)
        answers.append(tasks.create_task(there.chat(f"second {LONG}", stream=True)))
        await until_waiting(there, 1)
        refused = await there.chat(f"third {LONG}", stream=True)
        await set_fault(there, "none")
        statuses = [(await answer).status_code for answer in answers]

    assert [200, 200] == statuses
    assert (429, "queue_full") == (refused.status_code, refused.json()["error"]["code"])
    assert "rejected-saturated" == refused.headers["x-llm-d-request-dropped-reason"]
    assert 0 < float(refused.headers["retry-after"])
