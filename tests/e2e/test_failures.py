"""What no client notices, and what it learns when there is no other way."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from openai import APIError, InternalServerError

from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.e2e.stack import Stack, gateway, program, quick, stack
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, REGION, FakeBedrock, Says

HEADERS = {"content-type": "application/json"}


def body(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}


async def statuses(served: Stack, count: int, *, at_once: int = 20) -> Counter[int]:
    """Answers of *count* clients with different prompts, half of them streaming."""
    gate = asyncio.Semaphore(at_once)

    async def one(i: int) -> int:
        async with gate:
            reply = await served.http.post("/v1/chat/completions", json=body(f"{i} " * 50, stream=i % 2 == 0))
            return reply.status_code if '"error"' not in reply.text else 999

    return Counter(await asyncio.gather(*(one(i) for i in range(count))))


async def test_no_one_sees_that_two_of_three_workers_answer_500() -> None:
    """200 requests, half of them streams: each finds the healthy worker."""
    async with stack(3) as served:
        await served.fault(served.workers[0], "status", status=500)
        await served.fault(served.workers[2], "status", status=503)

        assert Counter({200: 200}) == await statuses(served, 200)


async def test_no_one_sees_that_workers_refuse_connections() -> None:
    """A reset before the first byte moves the request on."""
    async with stack(3) as served:
        await served.fault(served.workers[1], "refuse")

        assert Counter({200: 40}) == await statuses(served, 40)


async def test_no_one_sees_that_a_worker_hangs() -> None:
    """It closes no connection and answers no health check: what it has not begun to answer moves on."""
    async with stack(2, health={"interval_s": 0.1, "timeout_s": 3.0}) as served:
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


async def test_a_failing_worker_is_left_alone() -> None:
    """Its breaker opens after some failures."""
    async with stack(2, model={"strategy": "round_robin"}, breaker={"failures": 3, "open_s": 3600}) as served:
        sick = served.workers[0]
        await served.fault(sick, "status", status=500)
        await statuses(served, 20, at_once=1)
        asked = len(await served.served(sick))

        assert 3 <= asked <= 5
        assert 1.0 == (await served.metric("warmgate_worker_breaker_open"))[f'{{model="tiny",worker="{sick}"}}']


async def test_a_worker_that_has_recovered_comes_back() -> None:
    """Its breaker closes again with the first success."""
    async with stack(2, model={"strategy": "round_robin"}, breaker={"failures": 3, "open_s": 0.5}) as served:
        sick = served.workers[0]
        await served.fault(sick, "status", status=500)
        await statuses(served, 20, at_once=1)
        asked = len(await served.served(sick))
        await served.fault(sick, "none")
        async with asyncio.timeout(60):
            while len(await served.served(sick)) < asked + 8:
                assert Counter({200: 2}) == await statuses(served, 2, at_once=1)
                await asyncio.sleep(0.05)


async def test_the_last_worker_is_never_taken_away() -> None:
    """With one worker that fails a request now and then, the others still reach it."""
    async with stack(1, breaker={"failures": 2, "open_s": 60}) as served:
        await served.fault(served.workers[0], "status", status=500, count=5)
        reported = await statuses(served, 9, at_once=1)

        assert 4 == reported[200]


async def test_a_worker_killed_before_its_first_byte_is_not_noticed() -> None:
    """SIGKILL to the process that was chosen, while it computes the prompt."""
    simulate = ("simulate", "--port", "0")
    async with (
        program(*simulate) as (first, first_url),
        program(*simulate) as (second, second_url),
        gateway([first_url, second_url]) as served,
    ):
        processes = {first_url: first, second_url: second}
        for url in processes:
            await served.fault(url, "slow", factor=300)
        answer = asyncio.ensure_future(
            served.openai.chat.completions.with_raw_response.create(
                model="tiny", messages=[{"role": "user", "content": "x " * 2000}], max_tokens=3, stream=True
            )
        )
        chosen = await _busy_worker(served)
        processes[chosen].kill()
        (other,) = processes.keys() - {chosen}
        await served.fault(other, "none")
        reply = await answer
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in reply.parse() if chunk.choices])

        assert text
        assert other == reply.headers["x-warmgate-worker"]
        (line,) = await served.lines(1)
        assert (2, 200, None) == (line["attempts"], line["status"], line["error"])


async def test_a_stream_that_breaks_is_reported_as_an_error_and_not_as_done() -> None:
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
        assert ["ReplyBroken", "ReplyBroken"] == [line["error"] for line in await served.lines(2)]


async def test_a_connection_reset_without_an_answer_is_not_noticed() -> None:
    """Nothing of an answer has been seen: the next worker is asked."""
    async with stack(2, model={"strategy": "round_robin"}) as served:
        await served.fault(served.workers[0], "refuse", count=1)

        assert Counter({200: 2}) == await statuses(served, 2, at_once=1)
        assert [1, 2] == sorted(line["attempts"] for line in await served.lines(2))


async def test_all_workers_failing_is_reported_as_they_failed() -> None:
    """The status and the words of the last worker."""
    async with stack(2) as served:
        for worker in served.workers:
            await served.fault(worker, "status", status=500)
        with pytest.raises(InternalServerError) as reported:
            await served.openai.chat.completions.create(**body())

        assert 500 == reported.value.status_code


async def test_the_gateway_may_start_before_its_workers() -> None:
    """503 with retry-after while no one is there, never 404, and an answer soon after somebody is."""
    async with stack(1) as reserved:
        port = int(reserved.workers[0].rsplit(":", 1)[1])
    async with gateway([f"http://127.0.0.1:{port}"]) as served:
        early = await served.http.post("/v1/chat/completions", json=body())

        assert 503 == early.status_code
        assert int(early.headers["retry-after"]) >= 1
        assert "no_worker_available" == early.json()["error"]["code"]
        assert 503 == (await served.http.get("/readyz")).status_code

        async with serving(quick(port=port)):
            async with asyncio.timeout(60):
                while (await served.http.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.05)

            assert 200 == (await served.http.post("/v1/chat/completions", json=body())).status_code


@pytest.mark.parametrize("phase", ["before the first byte", "whole answer", "mid-stream"])
async def test_a_caller_that_leaves_stops_the_work(phase: str) -> None:
    """In every phase the engine is free again, long before the answer would have been whole; so are the gauges."""
    slow = SimulatorOptions(
        port=0, tpot_ms=200, prefill_tokens_per_s=10 if phase == "before the first byte" else 10_000
    )
    async with stack(1, options=slow) as served:
        prompt = body("x " * 1000, max_tokens=500, stream=phase != "whole answer")
        caller = httpx.AsyncClient(base_url=served.url, timeout=60, verify=False)
        async with caller:
            asking = asyncio.ensure_future(_first_bytes(caller, prompt))
            await _busy_worker(served)
            await asyncio.sleep(0.5)
            asking.cancel()
            await asyncio.wait([asking])
        async with asyncio.timeout(60):
            while (await served.served(served.workers[0]))[0]["state"] != "aborted":
                await asyncio.sleep(0.02)

        assert ["CallerGone"] == [line["error"] for line in await served.lines(1)]
        assert {0.0} == set((await served.metric("warmgate_requests_in_flight")).values())
        assert {0.0} == set((await served.metric("warmgate_worker_in_flight")).values())


# ---- silence

KEEP_ALIVE: dict[str, Any] = {"server": {"sse_keep_alive_s": 0.15}}
"""A comment after so many seconds of silence; the workers below are silent for much longer."""
SILENT_S = 2.0
COMMENT = ": keep-alive\n\n"


async def streamed(served: Stack, **more: Any) -> httpx.Response:
    return await served.http.post("/v1/chat/completions", json=body(stream=True, **more))


def events(text: str) -> list[dict[str, Any]]:
    """The data of a stream but for `[DONE]`."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


def reported(chunks: list[dict[str, Any]]) -> str:
    """The text of an answer in chunks."""
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


@pytest.mark.parametrize(("after_tokens", "place"), [(0, "before"), (3, "within")])
async def test_a_silent_worker_is_bridged_by_comments(after_tokens: int, place: str) -> None:
    """Before its first byte, where a comment reports who answers in the end, and within its answer."""
    async with stack(1, **KEEP_ALIVE) as served:
        plain = (await streamed(served)).text
        await served.fault(served.workers[0], "silent", after_tokens=after_tokens, seconds=SILENT_S)
        reply = await streamed(served)
        bridged = reply.text

        assert 200 == reply.status_code
        assert bridged.count(COMMENT) >= 2
        assert reported(events(plain)) == reported(events(bridged))
        assert (1, True) == (bridged.count("[DONE]"), bridged.endswith("data: [DONE]\n\n"))
        if place == "before":
            assert bridged.startswith(COMMENT)
            assert f"{COMMENT}: x-warmgate-worker: {served.workers[0]}\n\ndata: " in bridged
            assert "x-warmgate-worker" not in reply.headers
        else:
            assert bridged.startswith("data: ")
            assert served.workers[0] == reply.headers["x-warmgate-worker"]
        assert [None, None] == [line["error"] for line in await served.lines(2)]


async def test_the_sdk_passes_over_comments() -> None:
    """Its stream is the answer and nothing else."""
    async with stack(1, **KEEP_ALIVE) as served:
        await served.fault(served.workers[0], "silent", after_tokens=0, seconds=SILENT_S)
        chunks = [chunk async for chunk in await served.openai.chat.completions.create(**body(stream=True))]

        assert 8 == sum(1 for chunk in chunks if chunk.choices[0].delta.content)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
async def test_other_apis_are_bridged_too(path: str) -> None:
    """With the same comment; the first event is that of the API."""
    async with stack(1, **KEEP_ALIVE) as served:
        await served.fault(served.workers[0], "silent", after_tokens=0, seconds=SILENT_S)
        question = {"input": "hi"} if path == "/v1/responses" else body()
        reply = await served.http.post(path, json={"model": "tiny", "stream": True, **question})

        assert reply.text.startswith(COMMENT)
        assert events(reply.text)[0]["type"] in {"response.created", "message_start"}
        assert events(reply.text)[-1]["type"] in {"response.incomplete", "response.completed", "message_stop"}


IMPATIENT: dict[str, Any] = {**KEEP_ALIVE, "timeouts": {"first_byte_s": 1.5}, "model": {"strategy": "round_robin"}}


async def test_a_worker_that_never_answers_is_replaced_after_a_keep_alive() -> None:
    """Nothing of an answer has gone out; the comment names who gave it."""
    async with stack(2, **IMPATIENT) as served:
        await served.fault(served.workers[0], "hang", count=1)
        replies = [await streamed(served, max_tokens=i) for i in (4, 5)]
        (late,) = [reply.text for reply in replies if COMMENT in reply.text]

        assert f": x-warmgate-worker: {served.workers[1]}\n\n" in late
        assert 1 == late.count("[DONE]")
        assert [1, 2] == sorted(line["attempts"] for line in await served.lines(2))


async def test_a_failure_of_all_after_a_keep_alive_is_an_error_event() -> None:
    """It names the fault; the SDK raises it."""
    async with stack(2, **IMPATIENT) as served:
        for worker in served.workers:
            await served.fault(worker, "hang", count=2)
        reply = await streamed(served)
        (error,) = events(reply.text)

        assert (200, True) == (reply.status_code, reply.text.startswith(COMMENT))
        assert "no_worker_available" == error["error"]["code"]
        assert "no first byte within the time limit" in error["error"]["message"]
        assert "[DONE]" not in reply.text
        with pytest.raises(APIError, match="no first byte within the time limit"):
            async for _ in await served.openai.chat.completions.create(**body(stream=True)):
                pass
        assert ["NoWorker", "NoWorker"] == [line["error"] for line in await served.lines(2)]


async def test_a_refusal_after_a_keep_alive_is_an_error_event() -> None:
    """The worker's words are reported, though its status no longer can be."""
    async with stack(2, **IMPATIENT) as served:
        await served.fault(served.workers[0], "hang", count=9)
        await served.fault(served.workers[1], "status", status=422)
        replies = [await streamed(served) for _ in range(2)]
        (late,) = [reply for reply in replies if reply.status_code == 200]
        (error,) = events(late.text)

        assert "this error was set at /control/faults" == error["error"]["message"]
        assert error["error"]["code"] is None
        assert "[DONE]" not in late.text
        assert ["Refused", "Refused"] == [line["error"] for line in await served.lines(2)]


# ---- how streams come


@pytest.mark.parametrize("fault", [None, {"mode": "drip", "drip_bytes": 1}, {"mode": "drip", "drip_bytes": 7}])
@pytest.mark.parametrize(
    "spelling", [{}, {"line_end": "crlf"}, {"comment_every": 1}, {"line_end": "crlf", "comment_every": 3}]
)
async def test_a_stream_is_the_same_however_it_comes(
    spelling: dict[str, Any], fault: dict[str, Any] | None, one_worker: Stack
) -> None:
    """In drips, with other line ends, with comments of the worker's own: one answer, one [DONE], no usage unasked."""
    worker = one_worker.workers[0]
    plain = (await streamed(one_worker)).text
    await one_worker.http.post(f"{worker}/control/sse", json=spelling)
    await one_worker.fault(worker, **(fault or {"mode": "none"}))
    text = (await streamed(one_worker)).text
    asking = {"stream_options": {"include_usage": True}}
    with_usage = (await streamed(one_worker, **asking)).text
    through_sdk = [chunk async for chunk in await one_worker.openai.chat.completions.create(**body(stream=True))]
    line_end = "\r\n" if "line_end" in spelling else "\n"

    assert reported(events(plain)) == reported(events(text))
    assert reported(events(plain)) == "".join(chunk.choices[0].delta.content or "" for chunk in through_sdk)
    assert (1, 1) == (text.count("[DONE]"), with_usage.count("[DONE]"))
    assert f"data: [DONE]{line_end}{line_end}" in text
    assert '"usage":{' not in text
    assert 1 == with_usage.count('"usage":{')
    assert ("comment_every" in spelling) == (": keep-alive" in text)
    assert [8] * 4 == [line["completion_tokens"] for line in await one_worker.lines(4)]


@pytest.fixture
async def one_worker() -> AsyncIterator[Stack]:
    async with stack(1) as served:
        yield served


# ---- quirks of engines


async def test_an_error_as_the_first_event_moves_the_request_on() -> None:
    """The worker said 200 before it knew; no one sees it."""
    async with stack(2, model={"strategy": "round_robin"}) as served:
        await served.fault(served.workers[0], "error_event")
        replies = [await streamed(served) for _ in range(2)]

        assert {served.workers[1]} == {reply.headers["x-warmgate-worker"] for reply in replies}
        assert ["[DONE]" in reply.text and "error" not in reply.text for reply in replies] == [True, True]


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "dynamo"])
async def test_a_refusal_as_the_first_event_is_a_plain_refusal(dialect: Any) -> None:
    async with stack(2, options=quick(dialect=dialect, health_delay_s=0.0), breaker={"failures": 2}) as served:
        for worker in served.workers:
            await served.fault(worker, "error_event", status=400)
        replies = [await streamed(served) for _ in range(6)]

        assert {400} == {reply.status_code for reply in replies}
        assert {"this error was set at /control/faults"} == {reply.json()["error"]["message"] for reply in replies}
        assert [1] * 6 == [line["attempts"] for line in await served.lines(6)]
        assert {0.0} == set((await served.metric("warmgate_worker_breaker_open")).values())


async def test_an_error_within_the_stream_is_passed_on_once() -> None:
    """After the tokens that came; the [DONE] that engines send all the same is not."""
    async with stack(1) as served:
        await served.fault(served.workers[0], "error_event", after_tokens=3)
        *before, last = events((reply := await streamed(served)).text)

        assert 3 == sum(1 for chunk in before if chunk["choices"][0]["delta"].get("content"))
        assert 500 == last["error"]["code"]
        assert "[DONE]" not in reply.text


async def test_no_one_sees_that_an_engine_is_dead() -> None:
    """Its server lives and answers 500 to everything, also to health checks."""
    async with stack(2, model={"strategy": "round_robin"}) as served:
        await served.fault(served.workers[0], "engine_dead")

        assert Counter({200: 20}) == await statuses(served, 20)


@pytest.mark.parametrize("stream", [False, True])
async def test_no_one_sees_that_an_engine_shuts_down(stream: bool) -> None:
    """A vLLM after SIGTERM answers 200 with nothing, as if all were well."""
    async with stack(2, model={"strategy": "round_robin"}) as served:
        await served.fault(served.workers[0], "shutting_down")
        replies = [await served.http.post("/v1/chat/completions", json=body(stream=stream)) for _ in range(2)]

        assert {200} == {reply.status_code for reply in replies}
        assert {served.workers[1]} == {reply.headers["x-warmgate-worker"] for reply in replies}
        assert not any("abort" in reply.text for reply in replies)


async def test_no_one_sees_that_a_worker_sleeps() -> None:
    """What it is asked before its sleep is known moves on; afterwards it is asked no more, until it wakes."""
    async with stack(2, model={"strategy": "round_robin"}, health={"metrics_interval_s": 0.1}) as served:
        sleeper = served.workers[0]
        await served.http.post(f"{sleeper}/sleep")

        assert Counter({200: 4}) == await statuses(served, 4)

        await _until_asleep(served, sleeper, 1.0)
        asked = len(await served.served(sleeper))

        assert Counter({200: 6}) == await statuses(served, 6)
        assert asked == len(await served.served(sleeper))

        await served.http.post(f"{sleeper}/wake_up")
        await _until_asleep(served, sleeper, 0.0)
        await statuses(served, 6)

        assert asked < len(await served.served(sleeper))


@pytest.mark.parametrize("dialect", ["sglang", "dynamo"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"])
async def test_the_errors_of_other_engines_have_openais_shape(path: str, dialect: Any) -> None:
    """They are flat there; the SDK would find no message."""
    async with stack(1, options=quick(dialect=dialect, health_delay_s=0.0)) as served:
        question = {"model": "tiny", "input": "hi", "messages": [{"role": "user", "content": "hi"}]}
        await served.fault(served.workers[0], "status", status=422)
        refused = await served.http.post(path, json=question)
        await served.fault(served.workers[0], "status", status=500)
        failed = await served.http.post(path, json=question)
        missing = await served.http.post("/v1/score", json={"model": "tiny", "text_1": "a", "text_2": "b"})

        assert [422, 500, 404] == [reply.status_code for reply in (refused, failed, missing)]
        errors = [reply.json()["error"] for reply in (refused, failed, missing)]
        assert all({"message", "type", "param", "code"} == set(error) for error in errors)
        assert "this error was set at /control/faults" == errors[0]["message"]
        assert [None, "endpoint_not_supported"] == [errors[0]["code"], errors[2]["code"]]
        assert "this error was set at /control/faults" in errors[1]["message"]


async def _until_asleep(served: Stack, worker: str, value: float) -> None:
    async with asyncio.timeout(60):
        while (await served.metric("warmgate_worker_asleep"))[f'{{model="tiny",worker="{worker}"}}'] != value:
            await asyncio.sleep(0.02)


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
        async with gateway(dead, model={"bedrock": fallback}, bedrock={"canary_at_start": False}) as served:
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
    """A request for two answers gets 503 and the reason, not one answer."""
    async with FakeBedrock().serving() as bedrock:
        fallback = {"model_id": "qwen.qwen3-32b-v1:0", "region": REGION, "endpoint_url": bedrock.base_url}
        async with gateway([], model={"bedrock": fallback}) as served:
            reply = await served.http.post("/v1/chat/completions", json=body(n=2))

            assert 503 == reply.status_code
            assert "'n'" in reply.json()["error"]["message"]


async def _first_bytes(caller: httpx.AsyncClient, prompt: dict[str, Any]) -> None:
    async with caller.stream("POST", "/v1/chat/completions", json=prompt) as reply:
        async for _ in reply.aiter_bytes():
            await asyncio.sleep(0)


async def _busy_worker(served: Stack) -> str:
    """The worker that has a request."""
    async with asyncio.timeout(60):
        while True:
            for worker in served.workers:
                if any(request["state"] == "running" for request in await served.served(worker)):
                    return worker
            await asyncio.sleep(0.02)
