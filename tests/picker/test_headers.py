"""Requests that the headers decide, and headers that gateways of llm-d add."""

import asyncio
import base64
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.kubernetes_api import a_pod, a_pool, a_rewrite, a_rewrite_rule, an_objective, kubernetes_api
from tests.picker.configuration import Pool
from tests.picker.rig import PATIENCE_S, Rig, before, picker, requests_of, rig, simulated

SESSIONS = [f"session-{number}" for number in range(12)]


async def test_a_session_has_one_worker_without_its_body(tmp_path: Path) -> None:
    """With the mode NONE of request bodies, the headers decide. The worker is that of the strategy session, so requests
    with and without shown bodies meet the same cache.
    """
    model = {"strategy": "session"}
    async with rig(tmp_path, 3, body_mode="NONE", answer_mode="FULL_DUPLEX_STREAMED", model=model) as there:
        through_envoy, through_proxy = {}, {}
        for name in SESSIONS:
            headers = {"x-session-id": name}
            answers = [
                await there.chat(f"{name} a"),
                *[await there.chat(f"{name} b", headers=headers) for _ in range(2)],
            ]
            assert {200} == {answer.status_code for answer in answers}
            through_envoy[name] = set(await there.holders(f"{name} b"))
            body = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": f"{name} c"}]}
            answer = await there.picker.http.post("/v1/chat/completions", json=body, headers=headers)
            assert 200 == answer.status_code
            through_proxy[name] = set(await there.holders(f"{name} c"))

    assert through_proxy == through_envoy
    assert {1} == {len(workers) for workers in through_envoy.values()}
    assert 1 < len(set().union(*through_envoy.values()))


async def test_a_gateway_can_choose_the_model(tmp_path: Path) -> None:
    """The worker gets the body with the name of the model that the header names, under its present and former name."""
    async with rig(tmp_path, 1) as there:
        for header in ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"):
            answer = await there.chat(f"asked with {header}", model="any name", headers={header: "gpt-4o"})
            assert 200 == answer.status_code, answer.text
        unknown = await there.chat(headers={"x-llm-d-model-name-rewrite": "unknown"})
        bodies = [base64.b64decode(each["body"]).decode() for each in await requests_of(there.workers[0])]

    assert ["tiny", "tiny"] == [json.loads(body)["model"] for body in bodies if "asked with" in body]
    assert 404 == unknown.status_code


async def test_the_side_car_of_the_decode_worker_learns_the_prefill_worker(tmp_path: Path) -> None:
    """It reads the header `x-prefiller-host-port`, which callers cannot set. The prefill worker itself gets nothing."""
    async with AsyncExitStack() as exits:
        workers = await exits.enter_async_context(simulated(2))
        prefill, decode = workers
        entries = [
            {"id": address, "url": f"http://{address}", "role": role}
            for role, address in (("prefill", prefill), ("decode", decode))
        ]
        model = {"workers": entries, "disaggregation": {"flow": "nixl", "min_uncached_tokens": 1}}
        one = await exits.enter_async_context(picker(tmp_path, workers, model=model))
        there = await exits.enter_async_context(before([Pool(one.address, [decode])], [one], workers))
        answer = await there.chat("a prompt " * 200, headers={"x-prefiller-host-port": "10.9.9.9:1"})
        [asked] = await requests_of(decode)

        assert 200 == answer.status_code, answer.text
        assert [prefill] == [value for name, value in asked["headers"] if name == "x-prefiller-host-port"]
        assert [] == await requests_of(prefill)


async def test_objectives_of_the_pool_are_priorities(tmp_path: Path) -> None:
    """A worker sees the priority, because the model passes priorities to its engines."""
    async with AsyncExitStack() as exits:
        [worker] = await exits.enter_async_context(simulated(1))
        objectives = [
            an_objective("urgent", 100, poolRef={"name": "llama"}),
            an_objective("idle", -10, poolSelector={}),
            an_objective("elsewhere", 100, poolRef={"name": "other"}),
        ]
        pool = a_pool("llama", int(worker.rpartition(":")[2]))
        api = await exits.enter_async_context(kubernetes_api(*objectives, pool, a_pod("a", "127.0.0.1")))
        model = {"inference_pool": {"name": "llama", "objectives": True}, "engine_priority": "low_first"}
        started = picker(tmp_path, [], model=model, kubernetes={"api_url": api.url, "namespace": "default"})
        one = await exits.enter_async_context(started)
        await one.until_up(1)
        there = await exits.enter_async_context(before([Pool(one.address, [worker])], [one], [worker]))
        async with asyncio.timeout(PATIENCE_S):
            while await priority_of(there, {"x-llm-d-inference-objective": "urgent"}) != -1:
                await asyncio.sleep(0.05)
        seen = [
            await priority_of(there, {header: name})
            for header in ("x-llm-d-inference-objective", "x-gateway-inference-objective")
            for name in ("urgent", "idle", "elsewhere")
        ]

    assert [-1, 1, 0, -1, 1, 0] == seen


async def test_rewrites_of_the_pool_replace_model_names(tmp_path: Path) -> None:
    """The worker gets the name of its model, whatever the request names."""
    async with AsyncExitStack() as exits:
        [worker] = await exits.enter_async_context(simulated(1))
        rewrite = a_rewrite("chat", a_rewrite_rule(["chat"], {"tiny": 1}), a_rewrite_rule([], {"unknown": 1}))
        pool = a_pool("llama", int(worker.rpartition(":")[2]))
        api = await exits.enter_async_context(kubernetes_api(rewrite, pool, a_pod("a", "127.0.0.1")))
        model = {"inference_pool": {"name": "llama", "rewrites": True}}
        started = picker(tmp_path, [], model=model, kubernetes={"api_url": api.url, "namespace": "default"})
        one = await exits.enter_async_context(started)
        await one.until_up(1)
        there = await exits.enter_async_context(before([Pool(one.address, [worker])], [one], [worker]))
        async with asyncio.timeout(PATIENCE_S):
            while (await there.chat(model="other")).status_code != 404:
                await asyncio.sleep(0.05)
        answer = await there.chat("asked", model="chat")
        body = base64.b64decode((await requests_of(worker))[-1]["body"])

    assert (200, "tiny") == (answer.status_code, json.loads(body)["model"])


async def priority_of(there: Rig, headers: Mapping[str, str]) -> int:
    """Return the priority that the only worker gets with a request."""
    answer = await there.chat(headers=headers)
    assert 200 == answer.status_code, answer.text
    body = (await requests_of(there.workers[0]))[-1]["body"]
    priority: int = json.loads(base64.b64decode(body))["priority"]
    return priority
