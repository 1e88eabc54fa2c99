"""What no client notices, and what it is told when there is no other way."""

import asyncio
import json
from collections import Counter
from typing import Any

import httpx
import pytest
from openai import APIError, InternalServerError

from gateway.simulator.options import SimulatorOptions
from gateway.simulator.server import serving
from tests.e2e.stack import Stack, gateway, program, quick, stack
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, REGION, FakeBedrock, Says

HEADERS = {"content-type": "application/json"}


def body(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}


async def statuses(served: Stack, count: int, *, at_once: int = 20) -> Counter[int]:
    """What *count* clients with different prompts are told, half of them streaming."""
    gate = asyncio.Semaphore(at_once)

    async def one(i: int) -> int:
        async with gate:
            reply = await served.http.post("/v1/chat/completions", json=body(f"{i} " * 50, stream=i % 2 == 0))
            return reply.status_code if '"error"' not in reply.text else 999

    return Counter(await asyncio.gather(*(one(i) for i in range(count))))


async def test_nobody_sees_that_two_of_three_workers_answer_500() -> None:
    """200 requests, half of them streams: each finds the healthy worker."""
    async with stack(3) as served:
        await served.fault(served.workers[0], "status", status=500)
        await served.fault(served.workers[2], "status", status=503)

        assert Counter({200: 200}) == await statuses(served, 200)


async def test_nobody_sees_that_workers_refuse_connections() -> None:
    """A reset before the first byte moves the request on."""
    async with stack(3) as served:
        await served.fault(served.workers[1], "refuse")

        assert Counter({200: 40}) == await statuses(served, 40)


async def test_nobody_sees_that_a_worker_hangs() -> None:
    """It closes no connection and answers no health check: what it has not begun to answer moves on."""
    async with stack(2, health={"interval_s": 0.1, "timeout_s": 0.2}) as served:
        await served.fault(served.workers[0], "hang")

        assert Counter({200: 20}) == await statuses(served, 20)


async def test_bad_requests_open_no_breaker() -> None:
    """40 answers of 400 say something about the caller and nothing about the workers."""
    async with stack(2) as served:
        for worker in served.workers:
            await served.fault(worker, "status", status=400)
        replies = [await served.http.post("/v1/chat/completions", json=body(f"{i} " * 50)) for i in range(40)]

        assert {400} == {reply.status_code for reply in replies}
        assert {0.0} == set((await served.metric("warmgate_worker_breaker_open")).values())

        for worker in served.workers:
            await served.fault(worker, "none")

        assert Counter({200: 4}) == await statuses(served, 4)


async def test_a_failing_worker_is_left_alone_and_comes_back() -> None:
    """Its breaker opens after some failures and closes again with the first success."""
    async with stack(2, model={"strategy": "round_robin"}, breaker={"failures": 3, "open_s": 0.3}) as served:
        sick = served.workers[0]
        await served.fault(sick, "status", status=500)
        await statuses(served, 20, at_once=1)
        asked = len(await served.served(sick))

        assert 3 <= asked <= 5
        assert 1.0 == (await served.metric("warmgate_worker_breaker_open"))[f'{{model="tiny",worker="{sick}"}}']

        await served.fault(sick, "none")
        await asyncio.sleep(0.4)
        await statuses(served, 20, at_once=1)

        assert len(await served.served(sick)) >= asked + 8


async def test_the_last_worker_is_never_taken_away() -> None:
    """With one worker that fails a request now and then, the others still reach it."""
    async with stack(1, breaker={"failures": 2, "open_s": 60}) as served:
        await served.fault(served.workers[0], "status", status=500, count=5)
        told = await statuses(served, 9, at_once=1)

        assert 4 == told[200]


async def test_a_worker_killed_before_its_first_byte_is_not_noticed() -> None:
    """SIGKILL to the process that was chosen, while it computes the prompt."""
    simulate = ("simulate", "--port", "0", "--prefill-tokens-per-s", "500")
    async with (
        program(*simulate) as (first, first_url),
        program(*simulate) as (second, second_url),
        gateway([first_url, second_url]) as served,
    ):
        processes = {first_url: first, second_url: second}
        answer = asyncio.ensure_future(
            served.openai.chat.completions.with_raw_response.create(
                model="tiny", messages=[{"role": "user", "content": "x " * 2000}], max_tokens=3, stream=True
            )
        )
        chosen = await _busy_worker(served)
        processes[chosen].kill()
        reply = await answer
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in reply.parse() if chunk.choices])

        assert text
        assert {first_url, second_url} - {chosen} == {reply.headers["x-warmgate-worker"]}
        (line,) = await served.lines()
        assert (2, 200, None) == (line["attempts"], line["status"], line["error"])


async def test_a_stream_that_breaks_is_told_as_an_error_and_not_as_done() -> None:
    """The SDK raises, the body has no [DONE], the worker gets the blame."""
    async with stack(1) as served:
        await served.fault(served.workers[0], "abort_mid_stream", after_tokens=3)
        with pytest.raises(APIError, match=r"broke|closed|cut|lost|ended"):
            async for _ in await served.openai.chat.completions.create(**body(stream=True)):
                pass
        text = (await served.http.post("/v1/chat/completions", json=body(stream=True))).text

        last = json.loads(text.strip().splitlines()[-1].removeprefix("data: "))
        assert "upstream_error" == last["error"]["type"]
        assert "[DONE]" not in text
        assert ["ReplyBroken", "ReplyBroken"] == [line["error"] for line in await served.lines()]


async def test_a_connection_reset_without_an_answer_is_not_noticed() -> None:
    """Nothing of an answer has been seen: the next worker is asked."""
    async with stack(2, model={"strategy": "round_robin"}) as served:
        await served.fault(served.workers[0], "refuse", count=1)

        assert Counter({200: 2}) == await statuses(served, 2, at_once=1)
        assert [1, 2] == sorted(line["attempts"] for line in await served.lines())


async def test_all_workers_failing_is_told_as_they_failed() -> None:
    """The status and the words of the last worker."""
    async with stack(2) as served:
        for worker in served.workers:
            await served.fault(worker, "status", status=500)
        with pytest.raises(InternalServerError) as told:
            await served.openai.chat.completions.create(**body())

        assert 500 == told.value.status_code


async def test_the_gateway_may_start_before_its_workers() -> None:
    """503 with retry-after while nobody is there, never 404, and an answer soon after somebody is."""
    async with stack(1) as reserved:
        port = int(reserved.workers[0].rsplit(":", 1)[1])
    async with gateway([f"http://127.0.0.1:{port}"]) as served:
        early = await served.http.post("/v1/chat/completions", json=body())

        assert 503 == early.status_code
        assert int(early.headers["retry-after"]) >= 1
        assert "no_worker_available" == early.json()["error"]["code"]
        assert 503 == (await served.http.get("/readyz")).status_code

        async with serving(quick(port=port)):
            async with asyncio.timeout(3):
                while (await served.http.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.05)

            assert 200 == (await served.http.post("/v1/chat/completions", json=body())).status_code


@pytest.mark.parametrize("phase", ["before the first byte", "whole answer", "mid-stream"])
async def test_a_caller_that_leaves_stops_the_work_within_a_second(phase: str) -> None:
    """In every phase the engine is free again and the gauges are back at zero."""
    slow = SimulatorOptions(
        port=0, tpot_ms=100, prefill_tokens_per_s=200 if phase == "before the first byte" else 10_000
    )
    async with stack(1, options=slow) as served:
        prompt = body("x " * 1000, max_tokens=500, stream=phase != "whole answer")
        caller = httpx.AsyncClient(base_url=served.url, timeout=30, verify=False)
        async with caller:
            asking = asyncio.ensure_future(_first_bytes(caller, prompt))
            await _busy_worker(served)
            await asyncio.sleep(0.5)
            asking.cancel()
            await asyncio.wait([asking])
        async with asyncio.timeout(1.0):
            while (await served.served(served.workers[0]))[0]["state"] != "aborted":
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)

        assert {0.0} == set((await served.metric("warmgate_requests_in_flight")).values())
        assert {0.0} == set((await served.metric("warmgate_worker_in_flight")).values())
        assert ["CallerGone"] == [line["error"] for line in await served.lines()]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for the fake, and none of the developer's own."""
    for name in FOREIGN_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("aws")
async def test_bedrock_answers_when_no_worker_is_left() -> None:
    """The SDK gets its answer, whole and streamed, and the header says from where."""
    async with FakeBedrock().serving() as bedrock, stack(2) as gone:
        dead = gone.workers
        fallback = {"model_id": "qwen.qwen3-32b-v1:0", "region": REGION, "endpoint_url": bedrock.base_url}
        await gone.fault(dead[0], "refuse")
        await gone.fault(dead[1], "status", status=500)
        async with gateway(dead, model={"bedrock": fallback}) as served:
            bedrock.next(Says(("Hello", " world")), Says(("Hello", " again")))
            whole = await served.openai.chat.completions.with_raw_response.create(**body("hi"))
            chunks = await served.openai.chat.completions.create(**body("hi", stream=True))
            streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])

            assert "Hello world" == whole.parse().choices[0].message.content
            assert "tiny" == whole.parse().model
            assert "bedrock:qwen.qwen3-32b-v1:0" == whole.headers["x-warmgate-worker"]
            assert "Hello again" == streamed
            assert [] == bedrock.rejections
            assert {2.0} == set((await served.metric("warmgate_fallbacks_total")).values())


@pytest.mark.usefixtures("aws")
async def test_what_bedrock_cannot_serve_is_not_served_half() -> None:
    """A request with tools gets 503 and the reason, not an answer without tools."""
    async with FakeBedrock().serving() as bedrock:
        fallback = {"model_id": "qwen.qwen3-32b-v1:0", "region": REGION, "endpoint_url": bedrock.base_url}
        async with gateway([], model={"bedrock": fallback}) as served:
            tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
            reply = await served.http.post("/v1/chat/completions", json=body(tools=[tool]))

            assert 503 == reply.status_code
            assert "tools" in reply.json()["error"]["message"]


async def _first_bytes(caller: httpx.AsyncClient, prompt: dict[str, Any]) -> None:
    async with caller.stream("POST", "/v1/chat/completions", json=prompt) as reply:
        async for _ in reply.aiter_bytes():
            await asyncio.sleep(0)


async def _busy_worker(served: Stack) -> str:
    """The worker that has a request."""
    async with asyncio.timeout(5):
        while True:
            for worker in served.workers:
                if any(request["state"] == "running" for request in await served.served(worker)):
                    return worker
            await asyncio.sleep(0.02)
