import asyncio
import base64
import json
import time
from typing import Any

import httpx
import pytest

HELLO: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
CHAT = "/v1/chat/completions"
IMPATIENT = httpx.Timeout(20, read=0.2)


async def fault(worker: httpx.AsyncClient, **fields: Any) -> None:
    reply = await worker.post("/control/faults", json=fields)
    assert 200 == reply.status_code, reply.text


async def requests(worker: httpx.AsyncClient) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = (await worker.get("/control/requests")).json()["requests"]
    return log


async def test_what_was_served_can_be_looked_at(worker: httpx.AsyncClient) -> None:
    """The very bytes and headers, the prompt's digest and length, and how it ended."""
    body = b'{"model":"tiny",  "messages":[{"role":"user","content":"Hello"}], "max_tokens": 2}'
    await worker.post(CHAT, content=body, headers={"content-type": "application/json", "x-request-id": "r1"})
    (entry,) = await requests(worker)

    assert body == base64.b64decode(entry["body"])
    assert ["x-request-id", "r1"] in entry["headers"]
    assert ("chatcmpl-r1", CHAT, 12, 0) == (entry["id"], entry["path"], entry["prompt_tokens"], entry["cached_tokens"])
    assert 32 == len(entry["prompt_digest"])
    assert ("finished", None) == (entry["state"], entry["fault"])
    assert entry["at"] <= entry["ended_at"]


async def test_a_refused_body_is_in_the_log(worker: httpx.AsyncClient) -> None:
    await worker.post(CHAT, json={"model": "tiny"})
    (entry,) = await requests(worker)

    assert ("rejected", None) == (entry["state"], entry["prompt_digest"])


async def test_reset_empties_cache_and_log(worker: httpx.AsyncClient) -> None:
    """The same prompt is cold again, and is the only one in the log."""
    body = {"prompt": "e" * 400, "max_tokens": 1}
    await worker.post("/v1/completions", json=body)
    assert 200 == (await worker.post("/control/reset")).status_code
    again = await worker.post("/v1/completions", json=body)

    assert 0 == again.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert 1 == len(await requests(worker))


@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_a_status_for_some_requests(worker: httpx.AsyncClient, status: int) -> None:
    """Two requests get the error in vLLM's shape, the third an answer; what is left can be read."""
    await fault(worker, mode="status", status=status, count=2)
    first = await worker.post(CHAT, json=HELLO)
    left = (await worker.get("/control/faults")).json()
    later = [(await worker.post(CHAT, json=HELLO)).status_code for _ in range(2)]

    assert (status, status) == (first.status_code, first.json()["error"]["code"])
    assert ("status", 1) == (left["mode"], left["count"])
    assert [status, 200] == later
    assert ["failed", "failed", "finished"] == [entry["state"] for entry in await requests(worker)]


async def test_a_worker_that_refuses(worker: httpx.AsyncClient) -> None:
    """Every connection but that to /control is reset, health included, until the fault is lifted."""
    await fault(worker, mode="refuse")
    for path in (CHAT, "/health"):
        with pytest.raises(httpx.ReadError):
            await worker.post(path, json=HELLO)
    await fault(worker, mode="none")

    assert 200 == (await worker.post(CHAT, json=HELLO)).status_code


async def test_refusing_cuts_what_is_under_way(slow_worker: httpx.AsyncClient) -> None:
    async with slow_worker.stream("POST", CHAT, json=HELLO | {"stream": True, "ignore_eos": True}) as reply:
        parts = reply.aiter_bytes()
        await anext(parts)
        await fault(slow_worker, mode="refuse")
        with pytest.raises(httpx.ReadError):
            async for _ in parts:
                pass


async def test_one_refused_request(worker: httpx.AsyncClient) -> None:
    """With a count only completions are reset."""
    await fault(worker, mode="refuse", count=1)
    assert 200 == (await worker.get("/health")).status_code
    with pytest.raises(httpx.ReadError):
        await worker.post(CHAT, json=HELLO)

    assert 200 == (await worker.post(CHAT, json=HELLO)).status_code


@pytest.mark.e2e
async def test_a_worker_that_hangs(worker: httpx.AsyncClient) -> None:
    """Connections are taken and nothing is answered, not even health; /control still is."""
    await fault(worker, mode="hang")
    for path in (CHAT, "/ping"):
        with pytest.raises(httpx.ReadTimeout):
            await worker.post(path, json=HELLO, timeout=IMPATIENT)
    await fault(worker, mode="none")

    assert 200 == (await worker.post(CHAT, json=HELLO)).status_code
    assert ["failed", "finished"] == [entry["state"] for entry in await requests(worker)]


@pytest.mark.parametrize("after", [0, 1, 5])
async def test_a_stream_that_is_cut(worker: httpx.AsyncClient, after: int) -> None:
    await fault(worker, mode="abort_mid_stream", after_tokens=after, count=1)
    parts: list[bytes] = []

    async def read_on(reply: httpx.Response) -> None:
        async for part in reply.aiter_bytes():
            parts.append(part)  # noqa: PERF401 - a comprehension would lose them all at the cut

    async with worker.stream("POST", CHAT, json=HELLO | {"stream": True, "ignore_eos": True}) as reply:
        assert 200 == reply.status_code
        with pytest.raises(httpx.TransportError):
            await read_on(reply)

    got = b"".join(parts)
    assert (after + 1 if after else 0) == got.count(b"data: ")  # the role has a chunk of its own
    assert b"[DONE]" not in got
    assert "failed" == (await requests(worker))[0]["state"]


async def test_a_whole_answer_that_is_cut(worker: httpx.AsyncClient) -> None:
    """Without a stream the connection ends before the status."""
    await fault(worker, mode="abort_mid_stream", after_tokens=2, count=1)
    with pytest.raises(httpx.TransportError):
        await worker.post(CHAT, json=HELLO)

    assert 200 == (await worker.post(CHAT, json=HELLO)).status_code


def decoded(text: str) -> list[Any]:
    """The events of a stream, the end mark as a string."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return ["[DONE]" if line == "[DONE]" else json.loads(line) for line in lines]


async def test_a_dead_engine_behind_a_live_server(worker: httpx.AsyncClient) -> None:
    """Health is 503, inference is 500 before the head of a stream; the rest is as before, until the fault is lifted."""
    await fault(worker, mode="engine_dead")
    whole, stream = [await worker.post(CHAT, json=HELLO | {"stream": stream}) for stream in (False, True)]
    tokens = await worker.post("/tokenize", json={"prompt": "Hello"})
    health = await worker.get("/health")
    await fault(worker, mode="none")

    assert (500, 500, 503, 200) == (whole.status_code, stream.status_code, health.status_code, tokens.status_code)
    assert "InternalServerError" == whole.json()["error"]["type"] == stream.json()["error"]["type"]
    assert (200, 200) == ((await worker.get("/health")).status_code, (await worker.post(CHAT, json=HELLO)).status_code)
    assert ["failed", "failed", "finished"] == [entry["state"] for entry in await requests(worker)]


async def test_an_engine_that_dies_over_a_stream(slow_worker: httpx.AsyncClient) -> None:
    """What runs ends with the error as an event."""
    async with slow_worker.stream("POST", CHAT, json=HELLO | {"stream": True, "ignore_eos": True}) as reply:
        lines = reply.aiter_lines()
        await anext(lines)
        await fault(slow_worker, mode="engine_dead")
        rest = decoded("\n".join([line async for line in lines]))

    assert "[DONE]" == rest[-1]
    assert 500 == rest[-2]["error"]["code"]
    assert ["failed"] == [entry["state"] for entry in await requests(slow_worker)]


@pytest.mark.parametrize("after", [0, 3])
async def test_an_error_as_an_event(worker: httpx.AsyncClient, after: int) -> None:
    """After 200 and so many tokens: with none of them the error is the first event."""
    await fault(worker, mode="error_event", status=503, after_tokens=after, count=1)
    reply = await worker.post(CHAT, json=HELLO | {"stream": True, "ignore_eos": True})
    *tokens, error, done = decoded(reply.text)

    assert (200, "[DONE]") == (reply.status_code, done)
    assert (503, "ServiceUnavailableError") == (error["error"]["code"], error["error"]["type"])
    assert (after + 1 if after else 0) == len(tokens)
    assert ["failed"] == [entry["state"] for entry in await requests(worker)]


async def test_an_error_event_without_a_stream(worker: httpx.AsyncClient) -> None:
    """It is the status, 500 by default."""
    await fault(worker, mode="error_event", after_tokens=3)

    assert 500 == (await worker.post(CHAT, json=HELLO)).status_code


async def test_a_worker_that_shuts_down(worker: httpx.AsyncClient) -> None:
    """It answers 200 with an empty text and finish_reason abort, streamed or not, and is well as far as it says."""
    await fault(worker, mode="shutting_down")
    whole = (await worker.post(CHAT, json=HELLO)).json()
    stream = decoded((await worker.post(CHAT, json=HELLO | {"stream": True})).text)
    (choice,) = whole["choices"]

    assert ("", "abort", 0) == (
        choice["message"]["content"],
        choice["finish_reason"],
        whole["usage"]["completion_tokens"],
    )
    assert [None, "abort"] == [chunk["choices"][0]["finish_reason"] for chunk in stream[:-1]]
    assert 200 == (await worker.get("/health")).status_code


async def test_a_stream_in_drips(worker: httpx.AsyncClient) -> None:
    """Two bytes at a time are the same events."""
    body = {"prompt": "Hello", "stream": True, "max_tokens": 4}
    whole = await worker.post("/v1/completions", json=body, headers={"x-request-id": "r"})
    await fault(worker, mode="drip", drip_bytes=2)
    async with worker.stream("POST", "/v1/completions", json=body, headers={"x-request-id": "r"}) as reply:
        pieces = [piece async for piece in reply.aiter_raw()]
    texts = [
        [event["choices"][0]["text"] for event in decoded(text)[:-1]]
        for text in (whole.text, b"".join(pieces).decode())
    ]

    assert texts[0] == texts[1]
    assert len(pieces) > 20


@pytest.mark.parametrize(("after", "before"), [(None, 2), (0, 0), (2, 3)])
@pytest.mark.e2e
async def test_a_stream_that_falls_silent(worker: httpx.AsyncClient, after: int | None, before: int) -> None:
    """First some events, by default those of one token, then nothing for a while, then all the rest."""
    await fault(worker, mode="silent", after_tokens=after, seconds=0.5)
    over_at = time.monotonic() + 0.5
    early, late = b"", b""
    async with worker.stream("POST", CHAT, json=HELLO | {"stream": True, "max_tokens": 5}) as reply:
        async for part in reply.aiter_bytes():
            if time.monotonic() < over_at:
                early += part
            else:
                late += part

    assert (before, 7 - before) == (early.count(b"data: "), late.count(b"data: "))
    assert late.endswith(b"data: [DONE]\n\n")


@pytest.mark.e2e
async def test_a_whole_answer_after_silence(worker: httpx.AsyncClient) -> None:
    """Without a stream the silence is before the first byte."""
    await fault(worker, mode="silent", seconds=0.1)
    began = time.monotonic()
    reply = await worker.post(CHAT, json=HELLO)

    assert 200 == reply.status_code
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.e2e
async def test_a_client_that_does_not_wait(worker: httpx.AsyncClient, after: int) -> None:
    """Its request is aborted in the midst of the silence."""
    await fault(worker, mode="silent", after_tokens=after, seconds=600)
    with pytest.raises(httpx.ReadTimeout):
        await worker.post(CHAT, json=HELLO | {"stream": True}, timeout=IMPATIENT)
    async with asyncio.timeout(60):
        while [entry["state"] for entry in await requests(worker)] != ["aborted"]:
            await asyncio.sleep(0.002)


async def test_another_spelling_of_events(worker: httpx.AsyncClient) -> None:
    """Line ends and comments change for the streams that begin from then on, and can be changed back."""
    body = {"prompt": "Hello", "stream": True, "max_tokens": 3}
    shown = await worker.post("/control/sse", json={"line_end": "crlf", "comment_every": 2})
    spelled = (await worker.post("/v1/completions", json=body)).text
    await worker.post("/control/sse", json={})
    plain = (await worker.post("/v1/completions", json=body)).text

    assert {"line_end": "crlf", "comment_every": 2} == shown.json() != (await worker.get("/control/sse")).json()
    assert 2 == spelled.count("\r\n\r\n: keep-alive\r\n\r\n")
    assert spelled.count("\n") == spelled.count("\r\n")
    assert "\r" not in plain
    assert ": keep-alive" not in plain


async def test_a_bad_spelling_is_refused(worker: httpx.AsyncClient) -> None:
    """With what is wrong."""
    reply = await worker.post("/control/sse", json={"comment_every": 0})

    assert 400 == reply.status_code
    assert "comment_every" in reply.json()["error"]["message"]


@pytest.mark.e2e
async def test_a_slow_worker(slow_worker: httpx.AsyncClient) -> None:
    """At a factor of 0.01 a token of 100 ms takes 1 ms; at 100, it does not come within a fifth of a second."""
    await fault(slow_worker, mode="slow", factor=0.01)
    began = time.monotonic()
    await slow_worker.post(CHAT, json=HELLO | {"max_tokens": 200, "ignore_eos": True})
    assert time.monotonic() - began < 10

    await fault(slow_worker, mode="slow", factor=100)
    with pytest.raises(httpx.ReadTimeout):
        await slow_worker.post(CHAT, json=HELLO | {"max_tokens": 2}, timeout=IMPATIENT)


async def generated(worker: httpx.AsyncClient) -> float:
    """The page that its metrics fill."""
    page = (await worker.get("/metrics")).text
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("vllm:generation_tokens_total"))


@pytest.mark.e2e
async def test_a_silent_stream_is_generated_all_the_same(slow_worker: httpx.AsyncClient) -> None:
    await fault(slow_worker, mode="silent", after_tokens=2, seconds=3600)
    body = HELLO | {"stream": True, "max_tokens": 1000, "ignore_eos": True}
    async with slow_worker.stream("POST", CHAT, json=body) as reply, asyncio.timeout(60):
        pieces = reply.aiter_bytes()
        await anext(pieces)
        before = await generated(slow_worker)
        while await generated(slow_worker) < before + 5:
            await asyncio.sleep(0.02)
        silence = asyncio.ensure_future(anext(pieces))
        await asyncio.wait([silence], timeout=0.3)
        if silence.done():  # the second token, where it came alone
            silence = asyncio.ensure_future(anext(pieces))
            await asyncio.wait([silence], timeout=0.3)
        assert not silence.done()
        silence.cancel()
        await asyncio.wait([silence])


@pytest.mark.e2e
async def test_a_stuck_engine_generates_nothing_while_its_server_answers(slow_worker: httpx.AsyncClient) -> None:
    """Neither for what runs nor for what comes; with the end of the fault both are answered."""
    body = HELLO | {"stream": True, "max_tokens": 5, "ignore_eos": True}
    async with slow_worker.stream("POST", CHAT, json=body) as reply, asyncio.timeout(60):
        pieces = reply.aiter_lines()
        await anext(pieces)
        await fault(slow_worker, mode="stuck")
        coming = asyncio.ensure_future(slow_worker.post(CHAT, json=HELLO | {"max_tokens": 2}))
        before = await generated(slow_worker)
        await asyncio.wait([coming], timeout=0.5)  # a token takes a fifth of that

        assert not coming.done()
        assert before == await generated(slow_worker)
        assert 200 == (await slow_worker.get("/health")).status_code

        await fault(slow_worker, mode="none")
        lines = [line async for line in pieces]
        assert "data: [DONE]" in lines
        assert 200 == (await coming).status_code


@pytest.mark.e2e
async def test_a_worker_that_stands_still(slow_worker: httpx.AsyncClient) -> None:
    """Nothing leaves it, neither a stream under way nor its health; what has come is answered when it is over."""
    body = HELLO | {"stream": True, "max_tokens": 10, "ignore_eos": True}
    async with slow_worker.stream("POST", CHAT, json=body) as reply:
        chunks = reply.aiter_bytes()
        seen = await anext(chunks)
        await fault(slow_worker, mode="freeze", seconds=3600)
        with pytest.raises(httpx.ReadTimeout):
            await slow_worker.get("/health", timeout=IMPATIENT)
        waiting = asyncio.ensure_future(slow_worker.get("/health"))
        await asyncio.sleep(0)
        await fault(slow_worker, mode="none")
        assert 200 == (await waiting).status_code
        seen += b"".join([chunk async for chunk in chunks])

    assert seen.endswith(b"data: [DONE]\n\n")


async def test_a_worker_that_stood_still_is_well_again(worker: httpx.AsyncClient) -> None:
    """The worker answers again after so many seconds, without another request."""
    await fault(worker, mode="freeze", seconds=0.05)
    assert 200 == (await worker.get("/health")).status_code

    assert "none" == (await worker.get("/control/faults")).json()["mode"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"{}", "missing required field `mode`"),
        (b'{"mode": "explode"}', "Invalid enum value 'explode' - at `$.mode`"),
        (b'{"mode": "status", "status": 200}', "`$.status`"),
        (b'{"mode": "slow", "factor": 0}', "`$.factor`"),
        (b'{"mode": "slow", "count": 3}', "slow affects the whole worker and accepts no count"),
        (b'{"mode": "engine_dead", "count": 3}', "engine_dead affects the whole worker and accepts no count"),
        (b'{"mode": "drip", "drip_bytes": 0}', "`$.drip_bytes`"),
        (b'{"mode": "silent", "seconds": 0}', "`$.seconds`"),
        (b'{"mode": "hang", "count": 0}', "`$.count`"),
        (b'{"mode": "hang", "counts": 1}', "unknown field `counts`"),
    ],
)
async def test_a_bad_fault_is_refused(worker: httpx.AsyncClient, body: bytes, message: str) -> None:
    """With what is wrong, and nothing changes."""
    reply = await worker.post("/control/faults", content=body)

    assert 400 == reply.status_code
    assert message in reply.json()["error"]["message"]
    assert "none" == (await worker.get("/control/faults")).json()["mode"]


async def test_only_the_last_hundred_are_kept(worker: httpx.AsyncClient) -> None:
    """The log is bounded."""
    body = {"prompt": "x", "max_tokens": 1}
    await asyncio.gather(*(worker.post("/v1/completions", json=body) for _ in range(103)))

    assert 100 == len(await requests(worker))
