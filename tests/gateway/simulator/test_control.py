import asyncio
import base64
import time
from typing import Any

import httpx
import pytest

HELLO: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
CHAT = "/v1/chat/completions"


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
    assert ("chatcmpl-r1", CHAT, 16, 0) == (entry["id"], entry["path"], entry["prompt_tokens"], entry["cached_tokens"])
    assert 32 == len(entry["prompt_digest"])
    assert ("finished", None) == (entry["state"], entry["fault"])
    assert entry["at"] <= entry["ended_at"]


async def test_a_refused_body_is_in_the_log(worker: httpx.AsyncClient) -> None:
    """As rejected, without a prompt."""
    await worker.post(CHAT, json={"model": "tiny"})
    (entry,) = await requests(worker)

    assert ("rejected", None) == (entry["state"], entry["prompt_digest"])


async def test_reset_empties_cache_and_log(worker: httpx.AsyncClient) -> None:
    """The same prompt is cold again, and is the only one in the log."""
    body = {"prompt": "x" * 400, "max_tokens": 1}
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
    """As when the process dies: the stream of another connection ends in a reset."""
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


async def test_a_worker_that_hangs(worker: httpx.AsyncClient) -> None:
    """Connections are taken and nothing is answered, not even health; /control still is."""
    await fault(worker, mode="hang")
    for path in (CHAT, "/ping"):
        with pytest.raises(httpx.ReadTimeout):
            await worker.post(path, json=HELLO, timeout=0.05)
    await fault(worker, mode="none")

    assert 200 == (await worker.post(CHAT, json=HELLO)).status_code
    assert ["failed", "finished"] == [entry["state"] for entry in await requests(worker)]


@pytest.mark.parametrize("after", [0, 1, 5])
async def test_a_stream_that_is_cut(worker: httpx.AsyncClient, after: int) -> None:
    """So many tokens arrive, then the connection ends without the end of the body."""
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


async def test_a_slow_worker(slow_worker: httpx.AsyncClient) -> None:
    """At a factor of 0.01 a token of 100 ms takes 1 ms; at 100, it does not come within a tenth of a second."""
    await fault(slow_worker, mode="slow", factor=0.01)
    began = time.monotonic()
    await slow_worker.post(CHAT, json=HELLO | {"max_tokens": 20})
    assert time.monotonic() - began < 1

    await fault(slow_worker, mode="slow", factor=100)
    with pytest.raises(httpx.ReadTimeout):
        await slow_worker.post(CHAT, json=HELLO | {"max_tokens": 2}, timeout=0.1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"{}", "missing required field `mode`"),
        (b'{"mode": "explode"}', "Invalid enum value 'explode' - at `$.mode`"),
        (b'{"mode": "status", "status": 200}', "`$.status`"),
        (b'{"mode": "slow", "factor": 0}', "`$.factor`"),
        (b'{"mode": "slow", "count": 3}', "slow is the pace of the whole worker and takes no count"),
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
