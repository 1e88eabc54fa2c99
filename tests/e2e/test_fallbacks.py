"""The cascade from outside: a gateway process, workers that die, and what answers in their place.

All models stand in one process, each with the fallbacks of its test; every Bedrock id is one of its own, because those
that are the same share their rates and failures.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from pydantic import BaseModel

from simulator.options import SimulatorOptions
from tests.e2e.cascading import (
    CHAT,
    GOVERNED,
    KEYS,
    PROMPTLY,
    Cascading,
    MortalWorker,
    all_up,
    chat,
    measured,
    on_bedrock,
    on_openai,
    post_once,
    served_as_tiny,
    since,
    until,
)
from tests.e2e.gateway_process import gateway_process
from tests.e2e.stack import gateway as gateway_here
from tests.e2e.stack import program
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, FakeBedrock, Refuses, Says, Silent, Use

pytestmark = pytest.mark.asyncio(loop_scope="module")

QWEN, LLAMA, GPT_OSS = "qwen.qwen3-32b-v1:0", "us.meta.llama3-3-70b-instruct-v1:0", "openai.gpt-oss-120b-1:0"
ENDPOINTS_KEY = "sk-of-the-other-endpoint"
BEDROCKS_KEY = "ABSK-of-the-account"
PROMPT_MARK = "xylophone-marmalade"
ACCOUNT = "123456789012"
CLIENTS = 500
BUSY_S = 60
"""For so long the slow workers compute what keeps them busy, in tokens at their speed."""
SLOW = SimulatorOptions(port=0, prefill_tokens_per_s=1000, blocks=16_384)
WORKERS_PRICE = {"input_usd": 1.0, "output_usd": 1.0}
FALLBACKS_PRICE = {"input_usd": 1000.0, "cached_input_usd": 100.0, "output_usd": 2000.0}
DEARLY = {"input_usd": 0.0, "output_usd": 1000.0}
"""A tenth of a cent for a generated token."""

CAPPED: dict[str, dict[str, Any]] = {
    "requests_per_minute": {"rates": {"requests_per_minute": 60}},
    "tokens_per_minute": {"rates": {"tokens_per_minute": 6000}},
    "ramp_s": {"rates": {"requests_per_minute": 600, "ramp_s": 600}},
    "usd_per_hour": {"rates": {"price": DEARLY}, "spill": {"usd_per_hour": 0.5}},
    "share": {"spill": {"share": 0.1}},
}


def capped_id(cap: str) -> str:
    return f"qwen.{cap.replace('_', '-')}-v1:0"


MORTAL = ("pool-0", "pool-1", "elsewhere", "long", "long-elsewhere", "doomed", "doomed-elsewhere", "picky")


@dataclass(frozen=True)
class Place:
    """All that is around the gateway of this file."""

    gateway: Cascading
    bedrock: FakeBedrock
    workers: Mapping[str, MortalWorker]

    async def fault(self, worker: str, mode: str, **more: Any) -> None:
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            answer = await http.post(f"{self.workers[worker].url}/control/faults", json={"mode": mode, **more})
            assert 200 == answer.status_code, answer.text

    async def served(self, worker: str) -> list[dict[str, Any]]:
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            entries: list[dict[str, Any]] = (await http.get(f"{self.workers[worker].url}/control/requests")).json()[
                "requests"
            ]
            return entries

    def arrived(self, model_id: str) -> list[dict[str, Any]]:
        """The bodies that Bedrock got for a model."""
        return [received.body for received in self.bedrock.requests if received.model_id == model_id]


def models(url: Mapping[str, str], bedrock: str, killed: str) -> list[dict[str, Any]]:
    """*url* has those of the workers on this loop, *killed* is that of a process."""
    capped = [
        {
            "name": f"capped-{name}",
            "workers": [],
            "spill": each.get("spill", {}),
            "fallbacks": [on_bedrock(capped_id(name), bedrock, **each.get("rates", {}))],
        }
        for name, each in CAPPED.items()
    ]
    return [
        *capped,
        {
            "name": "tiny",
            "price": WORKERS_PRICE,
            "workers": [killed],
            "fallbacks": [on_bedrock(QWEN, bedrock, price=FALLBACKS_PRICE, context_tokens=32_768)],
        },
        {"name": "wired", "workers": [], "fallbacks": [on_bedrock(GPT_OSS, bedrock, wire="openai")]},
        {
            "name": "tiered",
            "workers": [url["pool-0"], {"url": url["pool-1"], "tier": 1}],
            "fallbacks": [
                on_openai(url["elsewhere"], model="tiny", api_key=ENDPOINTS_KEY),
                on_bedrock(LLAMA, bedrock),
            ],
        },
        {
            "name": "picky",
            "workers": [],
            "fallbacks": [on_bedrock("qwen.picky-v1:0", bedrock), on_openai(url["picky"], model="tiny", id="second")],
        },
        {
            "name": "long",
            "context_tokens": 200,
            "workers": [url["long"]],
            "fallbacks": [
                on_openai(url["long-elsewhere"], model="tiny", context_tokens=400),
                on_bedrock("qwen.long-v1:0", bedrock, context_tokens=2000),
            ],
        },
        {"name": "late", "workers": [url["late"]], "fallbacks": [on_bedrock("qwen.late-v1:0", bedrock)]},
        {
            "name": "late-alone",
            "workers": [url["late-alone"]],
            "spill": {"share": 0},
            "fallbacks": [on_bedrock("qwen.late-alone-v1:0", bedrock)],
        },
        {
            "name": "late-pools",
            "workers": [url["late-pools"], {"url": url["pool-1"], "tier": 1}],
            "fallbacks": [on_bedrock("qwen.late-pools-v1:0", bedrock)],
        },
        {
            "name": "doomed",
            "workers": [url["doomed"]],
            "fallbacks": [
                on_openai(url["doomed-elsewhere"], model="tiny", api_key=ENDPOINTS_KEY),
                on_bedrock("qwen.doomed-v1:0", bedrock),
            ],
        },
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment() -> AsyncIterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in FOREIGN_ENVIRONMENT:
            patch.delenv(name, raising=False)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@dataclass
class Killed:
    """A worker in a process of its own."""

    process: asyncio.subprocess.Process
    url: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[Killed]:
    async with program("simulate", "--port", "0", "--speed", "0") as (process, url):
        yield Killed(process, url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(environment: None, killed: Killed, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder: Path = tmp_path_factory.mktemp("fallbacks")
    async with AsyncExitStack() as exits:
        bedrock = await exits.enter_async_context(FakeBedrock().serving())
        workers = {name: await exits.enter_async_context(MortalWorker()) for name in MORTAL}
        for name in ("late", "late-alone", "late-pools"):
            workers[name] = await exits.enter_async_context(MortalWorker(SLOW))
        urls = {name: worker.url for name, worker in workers.items()}
        settings = {
            "server": {"host": "127.0.0.1", "port": 0},
            "models": served_as_tiny(models(urls, bedrock.base_url, killed.url)),
            "bedrock": {"canary_at_start": False},
            "store": {"url": f"sqlite:///{folder}/warmgate.db"},
            **GOVERNED,
            **PROMPTLY,
        }
        process = await exits.enter_async_context(gateway_process(folder, settings))
        there = Cascading(process)
        await all_up(there, ("tiny", "tiered", "long", "late", "late-alone", "doomed"))
        yield Place(there, bedrock, workers)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deserted(place: Place, killed: Killed) -> Place:
    """The place once the worker of ``tiny`` is gone."""
    if killed.process.returncode is None:
        killed.process.kill()
        await killed.process.wait()
    return place


# ---- answers of Bedrock, to the OpenAI SDK


@dataclass(frozen=True)
class Served:
    """A model that only Bedrock answers, behind a gateway that proves to it in one way or another who it is."""

    client: AsyncOpenAI
    model: str
    bedrock: FakeBedrock

    async def said(self, **fields: Any) -> tuple[Any, Mapping[str, str]]:
        """The answer, and its headers."""
        raw = await self.client.chat.completions.with_raw_response.create(model=self.model, **fields)
        return raw.parse(), raw.headers


@asynccontextmanager
async def by_bearer() -> AsyncIterator[Served]:
    async with FakeBedrock(bearer=BEDROCKS_KEY).serving() as bedrock:
        model = {"fallbacks": [on_bedrock(QWEN, bedrock.base_url)]}
        access = {"auth": "bearer", "bearer_token": BEDROCKS_KEY}
        async with gateway_here([], model=model, bedrock=access, retry={"wait_s": 0.05}) as here:
            gauge = "warmgate_fallback_canary_ok"
            asked = await until(lambda: here.metric(gauge), bool)
            assert {f'{{backend="bedrock:{QWEN}"}}': 1.0} == asked
            assert [16] == [each.body["inferenceConfig"]["maxTokens"] for each in bedrock.requests]
            yield Served(here.openai, "tiny", bedrock)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sigv4", "openai wire", "bearer"])
async def served(request: pytest.FixtureRequest, deserted: Place) -> AsyncIterator[Served]:
    if request.param == "bearer":
        async with by_bearer() as there:
            yield there
        return
    async with deserted.gateway.sdk() as client:
        yield Served(client, "tiny" if request.param == "sigv4" else "wired", deserted.bedrock)


HELLO: list[Any] = [{"role": "user", "content": "hello"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Book(BaseModel):
    title: str
    pages: int


async def test_every_worker_is_killed_and_bedrock_answers_until_one_returns(place: Place, killed: Killed) -> None:
    """SIGKILL; no one learns of it, and seconds after the worker's return it has the requests again."""
    before = await place.gateway.ask(chat("tiny"))
    killed.process.kill()
    await killed.process.wait()
    reported = Counter[tuple[int, str]]()
    for number in range(5):
        answer = await place.gateway.ask(chat("tiny", f"{number}", stream=number % 2 > 0))
        reported[answer.status_code, answer.headers["x-warmgate-backend"]] += 1
    async with program("simulate", "--port", str(urlsplit(killed.url).port), "--speed", "0") as (again, _):
        start = time.monotonic()
        back = await until(
            lambda: place.gateway.ask(chat("tiny")),
            lambda answer: "worker" == answer.headers["x-warmgate-backend"],
        )
        measured(f"a worker that returned was asked after {since(start):.2f} s")
        again.kill()
        await again.wait()
    after = await place.gateway.ask(chat("tiny"))

    assert (200, "worker") == (before.status_code, before.headers["x-warmgate-backend"])
    assert {(200, "bedrock"): 5} == reported
    assert (200, killed.url) == (back.status_code, back.headers["x-warmgate-worker"])
    assert (200, "bedrock") == (after.status_code, after.headers["x-warmgate-backend"])
    assert [] == place.bedrock.rejections


async def test_a_whole_answer_says_who_gave_it_and_what_it_left_out(served: Served) -> None:
    served.bedrock.next(Says(("Grüße", " aus 東京")))
    answer, headers = await served.said(messages=HELLO, seed=3, user="u", frequency_penalty=0.5)

    assert "Grüße aus 東京" == answer.choices[0].message.content
    assert ("stop", 11, 5) == (
        answer.choices[0].finish_reason,
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )
    assert "bedrock" == headers["x-warmgate-backend"]
    assert headers["x-warmgate-worker"].startswith("bedrock:")
    dropped = set(headers.get("x-warmgate-dropped-params", "").replace(" ", "").split(","))
    if "wired" != served.model:
        assert {"seed", "frequency_penalty"} <= dropped
    assert [] == served.bedrock.rejections


async def test_a_stream_is_whole(served: Served) -> None:
    served.bedrock.next(Says(("Hel", "lo ", "wörld")))
    async with served.client.chat.completions.stream(
        model=served.model, messages=HELLO, stream_options={"include_usage": True}
    ) as stream:
        pieces = [event.delta async for event in stream if event.type == "content.delta" and event.delta]
        whole = await stream.get_final_completion()

    assert ["Hel", "lo ", "wörld"] == pieces
    assert ("stop", "Hello wörld") == (whole.choices[0].finish_reason, whole.choices[0].message.content)
    assert whole.usage is not None
    assert 5 == whole.usage.completion_tokens


@pytest.mark.parametrize("streams", [False, True])
async def test_tools_go_there_and_back(served: Served, streams: bool) -> None:
    served.bedrock.next(Says((), uses=(Use("weather", {"city": "Jena"}),), stop_reason="tool_use"), Says(("Mild.",)))
    first = await _completed(served, HELLO, streams=streams)
    (call,) = first.choices[0].message.tool_calls
    said = first.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
    result = {"role": "tool", "tool_call_id": call.id, "content": "14 degrees"}
    second = await _completed(served, [*HELLO, said, result], streams=streams)

    assert ("weather", {"city": "Jena"}) == (call.function.name, json.loads(call.function.arguments))
    assert ("tool_calls", "Mild.") == (first.choices[0].finish_reason, second.choices[0].message.content)
    assert "14 degrees" in json.dumps(served.bedrock.requests[-1].body)
    assert [] == served.bedrock.rejections


async def test_an_answer_follows_its_json_schema(served: Served) -> None:
    """The SDK reads it into its class, and Bedrock received the schema."""
    served.bedrock.next(Says(('{"title": "Emma", ', '"pages": 474}')))
    answer = await served.client.chat.completions.parse(model=served.model, messages=HELLO, response_format=Book)

    assert Book(title="Emma", pages=474) == answer.choices[0].message.parsed
    assert "pages" in json.dumps(served.bedrock.requests[-1].body)
    assert [] == served.bedrock.rejections


async def _completed(served: Served, messages: list[Any], *, streams: bool) -> Any:
    if not streams:
        return (await served.said(messages=messages, tools=[TOOL]))[0]
    async with served.client.chat.completions.stream(model=served.model, messages=messages, tools=[TOOL]) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_completion()


async def test_the_ledger_has_who_answered_and_what_it_cost(deserted: Place) -> None:
    usage = {"inputTokens": 7, "cacheReadInputTokens": 4, "outputTokens": 5, "totalTokens": 16}
    deserted.bedrock.next(Says(usage=usage))
    before = await deserted.gateway.metric("warmgate_team_cost_usd_total", team="open", backend="fallback")
    answer = await deserted.gateway.ask(chat("tiny"))
    cost_usd = 7 * 1e-3 + 4 * 1e-4 + 5 * 2e-3
    record = await _record(deserted, answer.headers["x-request-id"])

    assert ("ok", True, f"bedrock:{QWEN}") == (record["outcome"], record["fell_back"], record["backend"])
    assert (11, 4, 5) == (record["prompt_tokens"], record["cached_tokens"], record["completion_tokens"])
    assert pytest.approx(cost_usd) == record["cost_usd"]
    spent = await deserted.gateway.metric("warmgate_team_cost_usd_total", team="open", backend="fallback")
    assert pytest.approx(cost_usd) == spent - before


async def test_who_leaves_a_fallback_pays_its_price(deserted: Place) -> None:
    """Also before it has said anything: the prompt was sent there, and what it answers is paid for."""
    sent = len(deserted.arrived(QWEN))
    deserted.bedrock.next(Silent())
    request_id = "left-before-the-first-word"
    asking = asyncio.ensure_future(deserted.gateway.ask(chat("tiny"), x_request_id=request_id))
    async with asyncio.timeout(60):
        while len(deserted.arrived(QWEN)) == sent:
            await asyncio.sleep(0.02)
    asking.cancel()
    await asyncio.wait([asking])
    record = await _record(deserted, request_id)

    assert ("aborted", True, f"bedrock:{QWEN}") == (record["outcome"], record["fell_back"], record["backend"])
    assert pytest.approx(record["prompt_tokens"] * 1e-3 + record["completion_tokens"] * 2e-3) == record["cost_usd"]
    assert record["cost_usd"] > 0.0


async def _record(place: Place, request_id: str, team: str = "open") -> dict[str, Any]:
    """A line of the ledger, which is written behind the answer."""
    async with asyncio.timeout(60):
        while True:
            for record in await place.gateway.process.admin.records(team):
                if request_id == record["request_id"]:
                    return record
            await asyncio.sleep(0.02)


# ---- many at once


@pytest.mark.parametrize("cap", CAPPED)
async def test_what_fails_over_at_once_stays_within(place: Place, cap: str) -> None:
    """A request that finds no room gets 503 at once, with a time to retry; none is left waiting."""
    model, backend = f"capped-{cap}", f"bedrock:{capped_id(cap)}"
    start = time.monotonic()
    body, headers = chat(model, max_tokens=50), place.gateway.headers()
    answers = await asyncio.gather(*(post_once(place.gateway.process.url, body, headers) for _ in range(CLIENTS)))
    took_s = since(start)
    reported = Counter(answer.status for answer in answers)
    passed = reported[200]
    refused = [answer for answer in answers if answer.status == 503]
    measured(f"{cap}: {passed} of {CLIENTS} were let through within {took_s:.1f} s")

    assert CLIENTS == passed + len(refused), reported
    assert passed == len(place.arrived(capped_id(cap)))
    assert 1 <= passed <= most_within(cap, took_s)
    assert {"no_worker_available"} == {answer.body["error"]["code"] for answer in refused}
    assert all(1 <= int(answer.headers["retry-after"]) for answer in refused)
    why = {"usd_per_hour": "budget", "share": "share"}.get(cap, "rate")
    counted = place.gateway.metric
    assert passed == await counted("warmgate_fallback_requests_total", backend=backend, outcome="answered")
    assert CLIENTS - passed == await counted("warmgate_fallback_skipped_total", backend=backend, reason=why)
    assert 0.0 == await counted("warmgate_fallback_held_usd", model=model)
    if cap == "usd_per_hour":
        assert pytest.approx(passed * 5 * 1e-3) == await counted("warmgate_fallback_spend_usd", model=model)
    if cap == "ramp_s":
        assert 0.1 <= await counted("warmgate_fallback_rate_ratio", backend=backend) < 0.5


def most_within(cap: str, took_s: float) -> float:
    """Requests that *cap* lets through: a sixth of a minute's at once, the rest within the minute.

    Each is 16 tokens, as Bedrock counts, of which 5 at a tenth of a cent are generated.
    """
    match cap:
        case "requests_per_minute":
            return 10 + took_s * 50 / 60
        case "ramp_s":
            return 10 + took_s * 500 / 60 * 0.1 * 2 ** (took_s / 600) + 1
        case "tokens_per_minute":
            return (1000 + took_s * 5000 / 60 + 60) / 16
        case "usd_per_hour":
            return 0.5 / 0.005
        case _:
            return 0.1 * CLIENTS


# ---- whose turn it is


async def test_tiers_are_asked_in_their_order(place: Place) -> None:
    """Pool, pool, endpoint, Bedrock, as one after the other dies; and the first again when it is back."""
    there = place.workers
    seen = [await who(place, "tiered")]
    for name in ("pool-0", "pool-1", "elsewhere"):
        await there[name].die()
        seen.append(await who(place, "tiered"))
    for name in ("elsewhere", "pool-1", "pool-0"):
        await there[name].live()
    host = urlsplit(there["elsewhere"].url).netloc
    first = ("worker", there["pool-0"].url)
    again = await until(lambda: who(place, "tiered"), lambda found: found == first)

    assert [
        first,
        ("worker", there["pool-1"].url),
        ("openai", f"openai:{host}"),
        ("bedrock", f"bedrock:{LLAMA}"),
    ] == seen
    assert first == again


async def who(place: Place, model: str, **more: Any) -> tuple[str, str]:
    """Kind and id of the backend that answers."""
    answer = await place.gateway.ask(chat(model, **more))
    assert 200 == answer.status_code, answer.text
    return answer.headers["x-warmgate-backend"], answer.headers["x-warmgate-worker"]


async def test_another_endpoint_gets_its_own_key_and_nothing_that_is_ours(place: Place) -> None:
    """Neither the caller's key nor its name for the model."""
    answer = await place.gateway.ask(chat("long", max_tokens=250, cache_salt="s"), x_session_id="mine")
    (entry,) = [each for each in await place.served("long-elsewhere") if "chat" in each["path"]][-1:]
    await place.workers["doomed"].die()
    other = await place.gateway.ask(chat("doomed"))
    (reported,) = [each for each in await place.served("doomed-elsewhere") if "chat" in each["path"]][-1:]
    await place.workers["doomed"].live()
    headers = dict(reported["headers"])

    assert (200, 200) == (answer.status_code, other.status_code)
    assert f"Bearer {ENDPOINTS_KEY}" == headers["authorization"]
    assert "authorization" not in dict(entry["headers"])
    assert "x-session-id" not in dict(entry["headers"])
    assert "wg-open" not in json.dumps([entry, reported])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_team_without_fallbacks_learns_that_no_worker_is_there(deserted: Place, stream: bool) -> None:
    """While others are answered."""
    sent = len(deserted.arrived(QWEN))
    refused = await deserted.gateway.ask(chat("tiny", stream=stream), team="own")
    answered = await deserted.gateway.ask(chat("tiny", stream=stream))

    assert (503, "no_worker_available") == (refused.status_code, refused.json()["error"]["code"])
    assert int(refused.headers["retry-after"]) >= 1
    assert 200 == answered.status_code
    assert 1 == len(deserted.arrived(QWEN)) - sent


async def test_what_is_too_long_goes_where_there_is_room(place: Place) -> None:
    """Prompt and output together; what fits nowhere is for the worker, whose engine knows best."""
    seen = [(await who(place, "long", max_tokens=tokens, ignore_eos=True))[0] for tokens in (100, 300, 1500, 5000)]
    answer = await place.gateway.ask(chat("long", max_tokens=1500), team="own")

    assert ["worker", "openai", "bedrock", "worker"] == seen
    assert "worker" == answer.headers["x-warmgate-backend"]


async def test_what_bedrock_cannot_serve_goes_to_the_next(place: Place) -> None:
    """Two answers to one chat, and completions; where no one is next it is 503 and says why."""
    chats = await who(place, "picky", n=2)
    body = {"model": "picky", "prompt": "hi", "max_tokens": 4}
    http, headers = place.gateway.process.http, place.gateway.headers()
    text = await http.post("/v1/completions", json=body, headers=headers)
    alone = await place.gateway.ask(chat("wired", n=2))
    unserved = await http.post("/v1/completions", json=body | {"model": "wired"}, headers=headers)

    assert ("openai", "second") == chats
    assert (200, "openai") == (text.status_code, text.headers["x-warmgate-backend"])
    assert [] == place.arrived("qwen.picky-v1:0")
    assert (503, 503) == (alone.status_code, unserved.status_code)
    assert "'n'" in alone.json()["error"]["message"]
    assert "no_worker_available" == unserved.json()["error"]["code"]


# ---- workers that would be late


@asynccontextmanager
async def busy(place: Place, model: str) -> AsyncIterator[None]:
    """The worker of *model* computes a long prompt."""
    async with httpx.AsyncClient(base_url=place.gateway.process.url, timeout=120, verify=False) as http:
        # Streamed: of an answer that does not, no one sees where its prefill ends, and so not that it keeps a worker.
        prompt = chat(model, f"{time.monotonic()} word" * int(BUSY_S * 1000 * 3 / 20), stream=True)
        asking = asyncio.ensure_future(http.post(CHAT, json=prompt, headers=place.gateway.headers()))
        await until(lambda: place.served(model), lambda entries: [] != entries and "running" == entries[-1]["state"])
        try:
            yield
            assert not asking.done(), asking.result().text
        finally:
            asking.cancel()
            await asyncio.wait([asking])


async def test_who_would_wait_too_long_for_a_worker_goes_to_a_fallback(place: Place) -> None:
    """Longer than the team wants, or than the caller's SDK says that it waits."""
    took_s = []
    async with busy(place, "late"):
        start = time.monotonic()
        hurried = await place.gateway.ask(chat("late"), team="hurried")
        took_s.append(since(start))
        start = time.monotonic()
        impatient = await place.gateway.ask(chat("late"), x_stainless_read_timeout="2")
        took_s.append(since(start))
    measured(f"wanted in 1 s and in 2 s, answered by the fallback after {took_s[0]:.2f} s and {took_s[1]:.2f} s")

    assert (200, "bedrock") == (hurried.status_code, hurried.headers["x-warmgate-backend"])
    assert (200, "bedrock") == (impatient.status_code, impatient.headers["x-warmgate-backend"])


@pytest.mark.parametrize(("team", "patience_s"), [("open", "2"), ("hurried", "600")])
async def test_a_wait_for_a_worker_ends_before_it_is_too_late(environment: None, team: str, patience_s: str) -> None:
    """Where none is there, who has little time is answered by a fallback while there is some left of it."""
    async with FakeBedrock().serving() as bedrock:
        model = {"fallbacks": [on_bedrock(QWEN, bedrock.base_url)]}
        settings = {"bedrock": {"canary_at_start": False}, "retry": {"wait_s": 600}, **GOVERNED}
        async with gateway_here([], model=model, **settings) as here:
            headers = {"authorization": f"Bearer {KEYS[team]}", "x-stainless-read-timeout": patience_s}
            answer = await here.http.post(CHAT, json=chat("tiny"), headers=headers)

    assert (200, "bedrock") == (answer.status_code, answer.headers["x-warmgate-backend"])


async def test_where_no_fallback_helps_who_is_late_waits_for_a_worker(place: Place) -> None:
    """In the queue, as if there were not."""
    backend = "bedrock:qwen.late-alone-v1:0"
    async with busy(place, "late-alone"):
        asking = asyncio.ensure_future(place.gateway.ask(chat("late-alone"), team="hurried"))
        await until(
            lambda: place.gateway.metric("warmgate_fallback_skipped_total", backend=backend, reason="share"),
            lambda turned: turned >= 1.0,
        )
        waits = not asking.done()
    answer = await asking

    assert waits
    assert (200, "worker") == (answer.status_code, answer.headers["x-warmgate-backend"])
    assert [] == place.arrived("qwen.late-alone-v1:0")


async def test_a_further_pool_comes_before_a_fallback(place: Place) -> None:
    """Also for who would be late in the first."""
    await place.workers["pool-1"].live()
    async with busy(place, "late-pools"):
        answer = await place.gateway.ask(chat("late-pools"), team="hurried")

    assert (200, place.workers["pool-1"].url) == (answer.status_code, answer.headers["x-warmgate-worker"])
    assert [] == place.arrived("qwen.late-pools-v1:0")


# ---- when everything fails


async def test_all_that_fails_is_reported_as_the_workers_failed(place: Place) -> None:
    """The log has both causes, and nothing shows a prompt, a key, or an account.

    A fallback that refuses the gateway is left alone: it is not asked for the second request.
    """
    await place.fault("doomed", "refuse")
    await place.fault("doomed-elsewhere", "status", status=401)
    place.bedrock.next(
        Refuses(403, "AccessDeniedException", f"User: arn:aws:iam::{ACCOUNT}:user/gw may not: {PROMPT_MARK}")
    )
    start = time.monotonic()
    answer = await place.gateway.ask(chat("doomed", PROMPT_MARK, stream=True))
    again = await place.gateway.ask(chat("doomed", PROMPT_MARK))
    measured(f"two requests that all failed took {since(start):.2f} s")
    lines = [await place.gateway.line(each.headers["x-request-id"]) for each in (answer, again)]
    said = place.gateway.process.said().decode()
    (cause,) = [line for line in said.splitlines() if answer.headers["x-request-id"] in line and "fallbacks" in line]

    for each in (answer, again):
        assert (503, "no_worker_available") == (each.status_code, each.json()["error"]["code"]), each.text
        assert int(each.headers["retry-after"]) >= 1
        for secret in (ACCOUNT, ENDPOINTS_KEY, PROMPT_MARK):
            assert secret not in f"{each.headers} {each.text}"
    assert [503, 503] == [line["status"] for line in lines]
    assert ("bedrock", "bedrock:qwen.doomed-v1:0") == (
        answer.headers["x-warmgate-backend"],
        answer.headers["x-warmgate-worker"],
    )
    assert 1 == len(place.arrived("qwen.doomed-v1:0"))
    assert "workers: NoWorker" in cause
    assert "openai:127.0.0.1" in cause
    assert "bedrock:qwen.doomed-v1:0" in cause
    for secret in (ACCOUNT, ENDPOINTS_KEY, PROMPT_MARK, "wg-open-", ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]):
        assert secret not in said


async def test_the_log_has_both_causes_of_who_was_late_as_well(
    environment: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A fallback was to answer early, and after it had failed no worker came, nor could it help later."""
    failing = Refuses(500, "InternalServerException", "no")
    async with FakeBedrock(failing).serving() as bedrock:
        model = {"fallbacks": [on_bedrock(QWEN, bedrock.base_url)]}
        settings = {"bedrock": {"canary_at_start": False}, "retry": {"wait_s": 1.5}, **GOVERNED}
        # Port 1 is no one's: a model that has workers, none of which is there.
        async with gateway_here(["http://127.0.0.1:1"], model=model, **settings) as here:
            headers = {"authorization": f"Bearer {KEYS['hurried']}"}
            answer = await here.http.post(CHAT, json=chat("tiny"), headers=headers)
        asked = len(bedrock.requests)
    (cause,) = [each.getMessage() for each in caplog.records if answer.headers["x-request-id"] in each.getMessage()]

    assert (503, "no_worker_available") == (answer.status_code, answer.json()["error"]["code"])
    assert 2 == asked
    assert "workers: NoWorker 503" in cause
    assert f"bedrock:{QWEN}: Upstream" in cause
