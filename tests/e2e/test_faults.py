"""Faults of the network between gateway and workers: what they cost a caller, and who leaves has no one working."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.e2e.stack import Stack, gateway, quick
from tests.e2e.test_kv_aware import all_published, heard, kv_aware, telling
from tests.fault_proxy import BOTH, FREE, FaultProxy, Passage, fault_proxy

CHAT = "/v1/chat/completions"
LONG = 10_000
"""Tokens of an answer that no one waits for."""
SLOW = SimulatorOptions(port=0, tpot_ms=100)
PATIENT: dict[str, Any] = {"health": {"interval_s": 0.2, "timeout_s": 10, "failures_to_down": 1000}}
"""Health checks find no one down: what is noticed, requests notice."""


def body(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}


@dataclass
class Faulty:
    """A gateway that reaches each of its workers through a proxy."""

    stack: Stack
    proxies: list[FaultProxy]
    workers: list[str]

    def proxy_of(self, worker: str) -> FaultProxy:
        """*worker* by the address that the gateway knows."""
        (proxy,) = (proxy for proxy in self.proxies if proxy.url == worker)
        return proxy

    async def states(self) -> list[str]:
        """Return the outcomes of the workers' requests, in the order of the workers."""
        return [entry["state"] for worker in self.workers for entry in await self.stack.served(worker)]

    async def until(self, reached: Callable[[list[str]], bool]) -> list[str]:
        """The states, once they are such."""
        async with asyncio.timeout(60):
            while not reached(states := await self.states()):
                await asyncio.sleep(0.02)
        return states


@asynccontextmanager
async def faulty(count: int = 2, *, options: SimulatorOptions | None = None, **groups: Any) -> AsyncIterator[Faulty]:
    async with contextlib.AsyncExitStack() as exits:
        workers = [await exits.enter_async_context(serving(options or quick())) for _ in range(count)]
        proxies = [await exits.enter_async_context(fault_proxy(worker)) for worker in workers]
        served = await exits.enter_async_context(gateway([proxy.url for proxy in proxies], **groups))
        yield Faulty(served, proxies, workers)


async def test_a_worker_that_hangs_costs_the_predicted_time_and_a_margin() -> None:
    """Its connections are open and nothing comes: another one answers, long before the timeout of 300 s."""
    deadline = {"first_byte_factor": 3, "first_byte_margin_s": 0.5}
    async with faulty(2, options=SimulatorOptions(port=0), retry=deadline, **PATIENT) as served:
        http = served.stack.http
        for number in range(8):  # both tell how fast they are
            assert 200 == (await http.post(CHAT, json=body(f"{number} " * 50, stream=True))).status_code
        warm = body("The same beginning " * 50, stream=True)
        worker = (await http.post(CHAT, json=warm)).headers["x-warmgate-worker"]
        served.proxy_of(worker).set(Passage(held=frozenset(("down",))))
        answer = await http.post(CHAT, json=warm)
        line = (await served.stack.lines(10))[-1]

    assert 200 == answer.status_code
    assert "data: [DONE]" in answer.text
    assert worker != answer.headers["x-warmgate-worker"]
    assert 2 == line["attempts"]
    assert 500 <= line["ttft_ms"] < 30_000


async def test_a_hanging_worker_is_not_given_up_where_no_one_else_is() -> None:
    """The deadline is for trying another one; with a single worker its answer is waited for."""
    deadline = {"first_byte_factor": 1, "first_byte_margin_s": 0.05}
    async with faulty(1, options=SimulatorOptions(port=0), retry=deadline, **PATIENT) as served:
        http = served.stack.http
        for number in range(8):
            await http.post(CHAT, json=body(f"{number} " * 50, stream=True))
        (proxy,) = served.proxies
        proxy.set(Passage(held=frozenset(("down",))))
        asking = asyncio.ensure_future(http.post(CHAT, json=body(stream=True)))
        await served.until(lambda states: 9 == len(states))
        await asyncio.wait([asking], timeout=1)
        assert not asking.done()
        proxy.set(FREE)

        assert 200 == (await asking).status_code


async def test_a_dead_address_costs_the_connect_timeout_once() -> None:
    """No one there takes or refuses a connection: one request waits for that, and none after it."""
    timeouts = {"connect_s": 2.0}
    model = {"strategy": "round_robin"}
    async with faulty(2, model=model, timeouts=timeouts, **PATIENT) as served:
        proxy = served.proxies[0]
        await proxy.refuse()
        with no_one_at(proxy):
            replies = [await served.stack.http.post(CHAT, json=body(stream=number % 2 > 0)) for number in range(10)]
        lines = await served.stack.lines(10)

    assert {200} == {reply.status_code for reply in replies}
    assert [2] + [1] * 9 == sorted((line["attempts"] for line in lines), reverse=True)
    assert 1 == sum(line["duration_ms"] >= 2000 for line in lines)


@contextlib.contextmanager
def no_one_at(proxy: FaultProxy) -> Iterator[None]:
    """Let connections to where *proxy* listened be neither taken nor refused: the queue of the listener is full."""
    place = urlsplit(proxy.url)
    with contextlib.ExitStack() as exits:
        listener = exits.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((place.hostname, place.port))
        listener.listen(0)
        for _ in range(20):
            waiting = exits.enter_context(socket.socket())
            waiting.settimeout(0.2)
            try:
                waiting.connect((place.hostname, place.port))
            except TimeoutError:
                break
        else:
            raise AssertionError("the queue of a listener does not get full here")
        yield


@pytest.mark.parametrize("passage", [Passage(cut_after=2000), Passage(cut_after=2000, with_reset=True)])
async def test_a_stream_that_the_network_cuts_goes_on_elsewhere(passage: Passage) -> None:
    """At a byte that no event ends with; the text is that of an uncut answer."""
    prompt = body("Tell me all", max_tokens=60, ignore_eos=True, stream=True)
    async with faulty(2, model={"continuation": "tokens"}) as served:
        whole = (await served.stack.http.post(CHAT, json=prompt | {"stream": False})).json()
        for proxy in served.proxies:
            proxy.set(passage)
        async with served.stack.http.stream("POST", CHAT, json=prompt) as reply:
            pieces = reply.aiter_lines()
            first = await anext(pieces)
            for proxy in served.proxies:
                if proxy.url != reply.headers["x-warmgate-worker"]:
                    proxy.set(FREE)
            lines = [first] + [line async for line in pieces]

    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in events if event["choices"])
    assert whole["choices"][0]["message"]["content"] == text
    assert "data: [DONE]" in lines


async def test_a_stream_that_went_on_elsewhere_has_the_usage_of_an_uncut_one(tmp_path: Path) -> None:
    """With the cached tokens of the worker that began, in the stream and in the log; the other one had nothing."""
    prompt = body("Tell me all " * 100, max_tokens=60, ignore_eos=True, stream=True)
    prompt["stream_options"] = {"include_usage": True}
    write_tokenizer(tmp_path)
    model = kv_aware(tmp_path, continuation="tokens")
    async with faulty(2, options=telling(), model=model) as served:
        await all_published(served.stack, 2)
        await served.stack.http.post(CHAT, json=prompt)
        await heard(served.stack)
        uncut = (await served.stack.http.post(CHAT, json=prompt)).text
        for proxy in served.proxies:
            proxy.set(Passage(cut_after=4000))
        async with served.stack.http.stream("POST", CHAT, json=prompt) as reply:
            pieces = reply.aiter_lines()
            first = await anext(pieces)
            for proxy in served.proxies:
                if proxy.url != reply.headers["x-warmgate-worker"]:
                    proxy.set(FREE)
            spliced = "\n".join([first] + [line async for line in pieces])
        logged = (await served.stack.lines(3))[1:]

    usages = [json.loads(text.split("data: ")[-2])["usage"] for text in (uncut, spliced)]
    assert usages[0] == usages[1]
    assert usages[0]["prompt_tokens_details"]["cached_tokens"] > 200
    assert [usages[0]["prompt_tokens_details"]["cached_tokens"]] * 2 == [line["cached_tokens"] for line in logged]
    assert [0, 1] == [line["continued"] for line in logged]


async def test_a_slow_drip_is_no_failure() -> None:
    """Few bytes at a time, late: the answer comes, from the worker that was asked first."""
    async with faulty(2) as served:
        for proxy in served.proxies:
            proxy.set(Passage(delay_s=0.002, piece_bytes=40))
        answer = await served.stack.http.post(CHAT, json=body(stream=True))
        (line,) = await served.stack.lines(1)

    assert answer.text.endswith("data: [DONE]\n\n")
    assert 1 == line["attempts"]


# ---- callers who leave


async def leave(served: Faulty, prompt: dict[str, Any], *, when: Callable[[list[str]], bool]) -> None:
    """Ask, and go away once what the workers were asked is in such a state."""
    async with httpx.AsyncClient(base_url=served.stack.url, timeout=60, verify=False) as caller:
        asking = asyncio.ensure_future(caller.post(CHAT, json=prompt))
        try:
            await served.until(when)
        finally:
            asking.cancel()
            await asyncio.wait([asking])


async def at_rest(served: Faulty) -> None:
    """Wait until the gateway has nothing under way."""
    gauges = ("warmgate_requests_in_flight", "warmgate_worker_in_flight", "warmgate_requests_waiting")
    async with asyncio.timeout(60):
        while await under_way(served, gauges):
            await asyncio.sleep(0.02)


async def under_way(served: Faulty, gauges: Iterable[str]) -> float:
    readings = [await served.stack.metric(gauge) for gauge in gauges]
    return sum(sum(reading.values()) for reading in readings)


def running(count: int) -> Callable[[list[str]], bool]:
    return lambda states: count == states.count("running")


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_before_the_first_byte_frees_the_worker(stream: bool) -> None:
    """It computes the prompt, which would take minutes."""
    async with faulty(1, options=SimulatorOptions(port=0, prefill_tokens_per_s=10)) as served:
        await leave(served, body("x " * 1000, stream=stream), when=running(1))

        assert ["aborted"] == await served.until(lambda states: "running" not in states)
        await at_rest(served)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_within_the_answer_frees_the_worker(stream: bool) -> None:
    """A thousand seconds before its end."""
    async with faulty(1, options=SLOW) as served:
        prompt = body(max_tokens=LONG, ignore_eos=True, stream=stream)
        async with httpx.AsyncClient(base_url=served.stack.url, timeout=60, verify=False) as caller:
            if stream:
                async with caller.stream("POST", CHAT, json=prompt) as reply:
                    await anext(reply.aiter_bytes())
            else:
                with pytest.raises(httpx.ReadTimeout):
                    await caller.post(CHAT, json=prompt, timeout=httpx.Timeout(60, read=3))

        assert ["aborted"] == await served.until(lambda states: states != [] and "running" not in states)
        await at_rest(served)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_a_stream_that_was_continued_frees_the_second_worker(stream: bool) -> None:
    async with faulty(2, options=SLOW, model={"continuation": "tokens"}) as served:
        prompt = body(max_tokens=LONG, ignore_eos=True, stream=stream)

        async def cut() -> None:
            await served.until(running(1))
            for proxy in served.proxies:
                proxy.reset()

        cutting = asyncio.ensure_future(cut())
        await leave(served, prompt, when=lambda states: 2 == len(states) and 1 == states.count("running"))
        await cutting

        assert ["aborted", "aborted"] == await served.until(lambda states: "running" not in states)
        await at_rest(served)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_the_queue_is_never_asked_for(stream: bool) -> None:
    """One worker, busy with a prompt; the second request is held, and its caller leaves."""
    options = SimulatorOptions(port=0, prefill_tokens_per_s=10)
    routing = {"initial_prefill_tokens_per_s": 10}  # so that the gateway knows how busy it is
    async with faulty(1, options=options, model={"strategy": "kv_aware"}, routing=routing) as served:
        async with httpx.AsyncClient(base_url=served.stack.url, timeout=60, verify=False) as busy:
            first = asyncio.ensure_future(busy.post(CHAT, json=body("x " * 1000)))
            await served.until(running(1))
            async with httpx.AsyncClient(base_url=served.stack.url, timeout=60, verify=False) as caller:
                held = asyncio.ensure_future(caller.post(CHAT, json=body("y " * 1000, stream=stream)))
                await waiting(served, 1.0)
                held.cancel()
                await asyncio.wait([held])
            await waiting(served, 0.0)
            first.cancel()
            await asyncio.wait([first])

        assert ["aborted"] == await served.until(lambda states: "running" not in states)
        await at_rest(served)


async def waiting(served: Faulty, count: float) -> None:
    """Until so many requests are held."""
    async with asyncio.timeout(60):
        while {count} != set((await served.stack.metric("warmgate_requests_waiting")).values()):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_while_no_worker_is_there_is_never_asked_for(stream: bool) -> None:
    """The request waits for one; when one is back, it has nothing to do."""
    async with faulty(2, retry={"wait_s": 60}) as served:
        for proxy in served.proxies:
            await proxy.refuse()
        async with httpx.AsyncClient(base_url=served.stack.url, timeout=60, verify=False) as caller:
            asking = asyncio.ensure_future(caller.post(CHAT, json=body(stream=stream)))
            async with asyncio.timeout(60):
                while {1.0} != set((await served.stack.metric("warmgate_requests_in_flight")).values()):
                    await asyncio.sleep(0.02)
            await asyncio.wait([asking], timeout=0.5)  # all have been tried by then
            assert not asking.done()
            asking.cancel()
            await asyncio.wait([asking])
        await at_rest(served)
        for proxy in served.proxies:
            await proxy.listen()
        answer = await served.stack.http.post(CHAT, json=body())

        assert 200 == answer.status_code
        assert ["finished"] == await served.states()


async def test_who_leaves_a_worker_that_hangs_is_let_go() -> None:
    """Nothing passes in either direction: the gateway waits for no one, whatever the network does."""
    async with faulty(1, options=SLOW) as served:
        await leave_held(served)
        await at_rest(served)
        served.proxies[0].set(FREE)

        assert ["aborted"] == await served.until(lambda states: "running" not in states)


async def leave_held(served: Faulty) -> None:
    """Ask, let the network take all that follows, and go away."""
    prompt = body(max_tokens=LONG, ignore_eos=True, stream=True)
    async with (
        httpx.AsyncClient(base_url=served.stack.url, timeout=60, verify=False) as caller,
        caller.stream("POST", CHAT, json=prompt) as reply,
    ):
        await anext(reply.aiter_bytes())
        served.proxies[0].set(Passage(held=BOTH))
