"""LoRA adapters over simulated workers: requests go where theirs is, and it is loaded where that is allowed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.stack import Stack, gateway, quick


def loading(*adapters: str, **changes: Any) -> SimulatorOptions:
    """A worker that has *adapters*, and loads others within 50 ms."""
    return quick(lora_modules=adapters, lora_load_ms=50, **changes)


@asynccontextmanager
async def before(
    options: Sequence[SimulatorOptions],
    of_tiny: Mapping[str, Mapping[str, Any]],
    *,
    adapters: Mapping[str, Any] | None = None,
    **model: Any,
) -> AsyncIterator[Stack]:
    """A gateway before workers of these *options*, for the base model ``tiny`` and its adapters, *of_tiny*.

    *adapters* are the settings for all of them.
    """
    async with contextlib.AsyncExitStack() as exits:
        urls = [await exits.enter_async_context(serving(each)) for each in options]
        workers = [{"url": url, "id": name} for name, url in zip("abc", urls, strict=False)]
        more = [
            {"name": name, "workers": workers, "adapter": {"of": "tiny", **adapter}, **model}
            for name, adapter in of_tiny.items()
        ]
        models = [{"name": "tiny", "workers": workers, **model}, *more]
        yield await exits.enter_async_context(gateway(urls, models=models, adapters=dict(adapters or {})))


async def ask(stack: Stack, model: str, text: str = "hello") -> tuple[int, str | None]:
    """Status, and who answered."""
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
    response = await stack.http.post("/v1/chat/completions", json=body)
    return response.status_code, response.headers.get("x-warmgate-worker")


async def loaded(stack: Stack, worker: int) -> list[str]:
    """The adapters that a worker has, as it says itself."""
    cards = (await stack.http.get(f"{stack.workers[worker]}/v1/models")).json()["data"]
    return [card["id"] for card in cards if card["parent"] is not None]


async def known(stack: Stack, model: str) -> dict[str, float]:
    reported = await stack.metric("warmgate_adapter_loaded")
    return {
        worker: value
        for worker in "abc"
        if (value := reported.get(f'{{model="{model}",worker="{worker}"}}')) is not None
    }


async def all_have(stack: Stack, model: str, workers: str) -> None:
    """Wait until the gateway knows that each of *workers* has the adapter: before, it prefers those that it knows."""
    async with asyncio.timeout(60):
        while await known(stack, model) != dict.fromkeys(workers, 1.0):
            await asyncio.sleep(0.01)


async def busy(stack: Stack) -> set[str]:
    """The labels of workers that have something to do, once there are some."""
    async with asyncio.timeout(60):
        while True:
            reported = await stack.metric("warmgate_worker_in_flight")
            found = {labels for labels, count in reported.items() if count}
            if found:
                return found
            await asyncio.sleep(0.01)


async def test_requests_go_where_the_adapter_is() -> None:
    """However many workers there are without it: they cost the time that a load takes."""
    async with before(
        [loading(), loading("poet"), loading()], {"poet": {"path": "/poet", "load_on_demand": True}}
    ) as stack:
        answers = [await ask(stack, "poet", f"prompt {i}") for i in range(12)]

        assert {(200, "b")} == set(answers)
        assert ([], ["poet"], []) == tuple([await loaded(stack, worker) for worker in range(3)])
        assert {"a": 0.0, "b": 1.0, "c": 0.0} == await known(stack, "poet")


async def test_an_adapter_is_loaded_where_no_one_has_it() -> None:
    """Once, although many ask at the same time; the others wait for it, and none of them fails."""
    async with before([loading(), loading()], {"poet": {"path": "/poet", "load_on_demand": True}}) as stack:
        answers = await asyncio.gather(*[ask(stack, "poet", f"prompt {i}") for i in range(8)])
        having = [worker for worker in range(2) if await loaded(stack, worker)]

        assert {200} == {status for status, _ in answers}
        assert {"ab"[worker] for worker in having} == {worker for _, worker in answers}
        assert len(having) == (await stack.metric("warmgate_adapter_loads_total"))['{model="poet",result="loaded"}']
        assert (await stack.metric("warmgate_adapter_load_seconds"))['{model="poet"}'] >= 0.05


async def test_a_worker_that_cannot_load_it_is_left_alone() -> None:
    """For a while: the next request costs no second failure. Anyone who has it then is found."""
    missing = {"path": "/nowhere/missing", "load_on_demand": True}
    async with before([loading(), loading()], {"poet": missing}) as stack:
        statuses = [(await ask(stack, "poet"))[0] for _ in range(3)]
        failed = (await stack.metric("warmgate_adapter_loads_total"))['{model="poet",result="failed"}']
        reported = {"lora_name": "poet", "lora_path": "/poet"}
        await stack.http.post(f"{stack.workers[1]}/v1/load_lora_adapter", json=reported)
        async with asyncio.timeout(60):
            while (await known(stack, "poet")).get("b") != 1.0:
                await asyncio.sleep(0.05)

        assert [503] * 3 == statuses
        assert 2.0 == failed
        assert (200, "b") == await ask(stack, "poet")


async def test_a_worker_that_has_lost_it_loads_it_again() -> None:
    """It answers 404 though it was known to have it; the caller sees nothing of that."""
    async with before([loading("poet")], {"poet": {"path": "/poet", "load_on_demand": True}}) as stack:
        assert (200, "a") == await ask(stack, "poet")
        await stack.http.post(f"{stack.workers[0]}/v1/unload_lora_adapter", json={"lora_name": "poet"})

        assert (200, "a") == await ask(stack, "poet")
        assert ["poet"] == await loaded(stack, 0)


async def test_without_loading_the_next_worker_answers() -> None:
    """Round robin knows no prices: what one worker refuses with 404 the next one has."""
    async with before([loading(), loading("poet")], {"poet": {}}, strategy="round_robin") as stack:
        assert {(200, "b")} == {await ask(stack, "poet") for _ in range(4)}


async def test_an_adapter_that_no_one_has_and_no_one_may_load() -> None:
    """No worker could be reached for it: that is not one of the caller's doing."""
    async with before([loading()], {"poet": {}}) as stack:
        body = {"model": "poet", "messages": [{"role": "user", "content": "hello"}]}
        response = await stack.http.post("/v1/chat/completions", json=body)

        assert 503 == response.status_code
        assert "does not have the adapter 'poet', which is not loaded on demand" in response.json()["error"]["message"]


async def test_the_adapter_that_was_used_longest_ago_makes_room() -> None:
    """One worker that may have two: the third comes in place of the one that no one asked for lately."""
    reported = {"load_on_demand": True, "most_per_worker": 2}
    adapters = {name: {"path": f"/{name}", **reported} for name in ("one", "two", "three")}
    async with before([loading()], adapters) as stack:
        answers = [(await ask(stack, name))[0] for name in ("one", "two", "one", "three")]

        assert [200] * 4 == answers
        assert ["one", "three"] == await loaded(stack, 0)
        assert 1.0 == (await stack.metric("warmgate_adapter_loads_total"))['{model="two",result="unloaded"}']


async def test_sglang_is_reported_by_its_own_routes() -> None:
    """They have no /v1."""
    options = loading(dialect="sglang", health_delay_s=0.0)
    async with before([options], {"poet": {"path": "/poet", "load_on_demand": True}}) as stack:
        assert (200, "a") == await ask(stack, "poet")
        assert ["poet"] == await loaded(stack, 0)


async def test_what_the_base_model_does_is_load_for_its_adapters() -> None:
    """They have the same workers: a request for the adapter goes to the one that is idle."""
    slow = {"prefill_tokens_per_s": 200.0, "speed": 1.0}
    async with before([loading("poet", **slow), loading("poet", **slow)], {"poet": {}}) as stack:
        await all_have(stack, "poet", "ab")
        long = asyncio.ensure_future(ask(stack, "tiny", "word " * 2400))
        on = await busy(stack)
        answers = {(await ask(stack, "poet", f"prompt {i}"))[1] for i in range(3)}
        still_busy = not long.done()
        long.cancel()
        await asyncio.wait([long])
        worker = "a" if any('worker="a"' in labels for labels in on) else "b"

        assert still_busy
        assert {f'{{model="{model}",worker="{worker}"}}' for model in ("tiny", "poet")} == on
        assert {"ab".replace(worker, "")} == answers


async def test_waiting_that_costs_more_than_loading_is_not_done() -> None:
    """Its only worker computes a prompt of seconds: the next request has it loaded elsewhere, in 50 ms."""
    slow = {"prefill_tokens_per_s": 500.0, "speed": 1.0}
    options = [loading("poet", **slow), loading(**slow)]
    reported = {"path": "/poet", "load_on_demand": True}
    async with before(options, {"poet": reported}, adapters={"load_s": 0.2}) as stack:
        long = asyncio.ensure_future(ask(stack, "poet", "word " * 2400))
        await busy(stack)
        answer = await ask(stack, "poet", "short")

        assert (200, "b") == answer
        assert ["poet"] == await loaded(stack, 1)
        assert (200, "a") == await long
