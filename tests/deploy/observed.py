"""A run as it would be in a cluster, with everything that dashboards and alerts speak of, and Prometheus beside it.

Gateways in processes of their own share a Redis; behind them simulated engines that reports their caches, one of
SGLang's kind, one that DNS finds, one that is gone, and a stand-in for Bedrock. Callers of two teams keep asking.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving
from simulator.tokenizer_folder import write_tokenizer
from tests.deploy.prometheus import Job, Prometheus, prometheus
from tests.deploy.recorded import exporting
from tests.deploy.shaping import Shaping, shaping
from tests.e2e.cascading import MortalWorker
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import OWNER, bearer
from tests.e2e.stack import quick
from tests.fakes.bedrock import ENVIRONMENT, REGION, FakeBedrock
from tests.fault_proxy import FaultProxy, fault_proxy
from tests.storage import RedisServer, free_port

GOOD, LIMITED = "wg-good-8d1f3ab07c5e4f92", "wg-limited-2b6c9e1d7a3f4058"
"""Keys of two teams."""
NAMESPACE = "llm"
PRICE = {"input_usd": 10.0, "cached_input_usd": 1.0, "output_usd": 30.0}
QWEN, LLAMA = "qwen.qwen3-32b-v1:0", "us.meta.llama3-3-70b-instruct-v1:0"
ASK_S = 0.1
"""Between two questions of the caller."""


class TellingWorker:
    """An engine that reports its cache, through ports that can be closed while it lives."""

    def __init__(self) -> None:
        self._ports = free_port(), free_port()
        self.worker = MortalWorker(
            quick(kv_events=EventOptions(port=self._ports[0], replay_port=self._ports[1])),
        )
        self._proxies: tuple[FaultProxy, ...] = ()

    @asynccontextmanager
    async def living(self) -> AsyncIterator["TellingWorker"]:
        async with AsyncExitStack() as exits:
            await exits.enter_async_context(self.worker)
            proxies = [await exits.enter_async_context(fault_proxy(f"tcp://127.0.0.1:{port}")) for port in self._ports]
            self._proxies = tuple(proxies)
            yield self

    @property
    def entry(self) -> dict[str, Any]:
        endpoint, replay = (proxy.url.replace("http", "tcp") for proxy in self._proxies)
        return {
            "id": self.worker.url,
            "url": self.worker.url,
            "kv_events": {"endpoint": endpoint, "replay_endpoint": replay},
        }

    async def fall_silent(self) -> None:
        """No one reaches the ports of its events any more."""
        for proxy in self._proxies:
            await proxy.refuse()

    async def speak(self) -> None:
        for proxy in self._proxies:
            await proxy.listen()


@dataclass
class Run:
    """What runs, and what a test may break."""

    gateways: list[GatewayProcess]
    tellers: list[TellingWorker]
    bedrock: FakeBedrock
    redis: RedisServer
    prometheus: Prometheus


@asynccontextmanager
async def observed(folder: Path, redis: RedisServer, *, gateways: int) -> AsyncIterator[Run]:
    write_tokenizer(folder / "tokenizer")
    async with AsyncExitStack() as exits:
        tellers = [await exits.enter_async_context(TellingWorker().living()) for _ in range(2)]
        sglang = await exits.enter_async_context(serving(SimulatorOptions(port=0, speed=0, dialect="sglang")))
        found = await exits.enter_async_context(serving(quick()))
        bedrock = await exits.enter_async_context(FakeBedrock().serving())
        shaped = await exits.enter_async_context(shaping("sglang", "found"))
        settings = _settings(folder, redis, bedrock, tellers, shaped, sglang=sglang, found=found, replicas=gateways)
        started = [
            await exits.enter_async_context(
                gateway_process(folder, settings, name=f"gateway-{number}", variables=ENVIRONMENT)
            )
            for number in range(gateways)
        ]
        recorded = exits.enter_context(exporting())
        engines = [*(teller.worker.url for teller in tellers), sglang, found]
        jobs = [
            Job("warmgate-pods", [_place(gateway.url) for gateway in started], {"namespace": NAMESPACE}),
            Job("engines", [*map(_place, engines), recorded["vllm"]], {"namespace": NAMESPACE}),
            Job("dcgm", [recorded["dcgm"]], {}),
        ]
        watching = await exits.enter_async_context(prometheus(folder, jobs))
        await exits.enter_async_context(_asking(started, shaped))
        yield Run(started, tellers, bedrock, redis, watching)


def _place(url: str) -> str:
    return urlsplit(url).netloc


def _settings(
    folder: Path,
    redis: RedisServer,
    bedrock: FakeBedrock,
    tellers: list[TellingWorker],
    shaped: Shaping,
    *,
    sglang: str,
    found: str,
    replicas: int,
) -> dict[str, Any]:
    port = urlsplit(found).port
    common = {"upstream_model": "tiny", "price": PRICE}

    def on_bedrock(model_id: str, **more: Any) -> dict[str, Any]:
        place = {"model_id": model_id, "region": REGION, "endpoint_url": bedrock.base_url, "ramp_s": None}
        return {"bedrock": {**place, "price": PRICE, **more}}

    return {
        "server": {"port": 0},
        "models": [
            {
                "name": "told",
                "strategy": "kv_aware",
                "tokenizer": {"path": str(folder / "tokenizer"), "budget_s": 5},
                "workers": [teller.entry for teller in tellers],
                **common,
            },
            {"name": "sglang", "workers": [{"url": sglang}], "guardrails": ["personal", "outside"], **common},
            {"name": "found", "dns": {"name": "localhost", "port": port, "interval_s": 1}, **common},
            {"name": "gone", "workers": [{"url": f"http://127.0.0.1:{free_port()}"}], **common},
            {"name": "elsewhere", "workers": [], "fallbacks": [on_bedrock(QWEN)], **common},
            {
                "name": "dear",
                "workers": [],
                "fallbacks": [on_bedrock(LLAMA)],
                "spill": {"usd_per_hour": 0.000001},
                **common,
            },
            *shaped.models,
        ],
        **shaped.groups,
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "teams": [
            {"name": "good", "keys": [{"id": "good", "secret": GOOD}]},
            {
                "name": "limited",
                "limits": {"requests_per_minute": 2, "usd_per_month": 1000, "soft_usd_per_month": 500},
                "keys": [{"id": "limited", "secret": LIMITED}],
            },
        ],
        "store": {"url": redis.url, "replicas": replicas},
        "files": {"folder": str(folder / "files")},
        "health": {"interval_s": 0.5, "timeout_s": 10, "metrics_interval_s": 0.5},
        "retry": {"wait_s": 0.2},
        "bedrock": {"canary_every_s": 1},
    }


@asynccontextmanager
async def _asking(gateways: list[GatewayProcess], shaped: Shaping) -> AsyncIterator[None]:
    """While inside, somebody asks for everything, again and again; the outcome of it is for Prometheus to see."""
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(_ask_for_ever(gateway, number, shaped)) for number, gateway in enumerate(gateways)]
        yield
        for task in asking:
            task.cancel()


async def _ask_for_ever(gateway: GatewayProcess, number: int, shaped: Shaping) -> None:
    """Conversations that come back with the same beginnings; and a team that asks too often."""
    beginnings = [f"{name} knows about {number}: " + f"the story of {name} goes on. " * 20 for name in ("Ada", "Bob")]
    models = ("told", "sglang", "found", "told", "elsewhere", "gone", "dear", "told", "nobody")
    for turn, model in zip(itertools.count(), itertools.cycle(models)):
        text = f"{beginnings[turn % 2]} Question {turn}: what comes next?"
        await _ask(gateway, GOOD, {"model": model, "stream": turn % 4 != 3, **_chat(text)})
        if model == "found":
            await _ask(gateway, LIMITED, {"model": "sglang", **_chat("again")})
            for name, before in shaped.asked:
                await _ask(gateway, GOOD, {"model": name, **_chat(f"{before}{text}")})
            await _submit_batch(gateway, {"model": "told", **_chat(text)})
        await asyncio.sleep(ASK_S)


def _chat(text: str) -> dict[str, Any]:
    return {"max_tokens": 16, "messages": [{"role": "user", "content": text}]}


async def _ask(gateway: GatewayProcess, key: str, body: Mapping[str, Any]) -> None:
    with suppress(httpx.HTTPError):  # a test may have broken just that
        await gateway.http.post("/v1/chat/completions", json=dict(body), headers=bearer(key))


async def _submit_batch(gateway: GatewayProcess, body: Mapping[str, Any]) -> None:
    """Submit a batch of one line."""
    line = {"custom_id": "only", "method": "POST", "url": "/v1/chat/completions", "body": body}
    with suppress(httpx.HTTPError):  # a test may have broken just that
        file = await gateway.http.post(
            "/v1/files",
            files={"file": ("lines.jsonl", json.dumps(line).encode())},
            data={"purpose": "batch"},
            headers=bearer(GOOD),
        )
        if file.is_success:
            batch = {"input_file_id": file.json()["id"], "endpoint": line["url"], "completion_window": "24h"}
            await gateway.http.post("/v1/batches", json=batch, headers=bearer(GOOD))
