"""A proxy over backends without a network, with its metrics and its log, for tests of the life of a request."""

import asyncio
import io
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gateway.app.tenancy import Tenancy
from gateway.models.model import Model
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.cached_answers import CachedAnswers
from gateway.proxy.completed_requests import CompletedRequests
from gateway.proxy.disconnects import Disconnects
from gateway.proxy.guardrails.guards import GuardedModels
from gateway.proxy.keep_alive import KeepAlive
from gateway.proxy.proxy import Proxy
from gateway.proxy.response_cache.response_cache import ResponseCache
from gateway.proxy.retry_policy import RetryPolicy
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.request_log import RequestLog
from tests.bodies import bodies_up_to
from tests.gateway.asgi import App, Caller
from tests.gateway.examples import (
    Clock,
    in_flight,
    the_models,
)
from tests.gateway.proxy.response_cache.examples import a_response_cache
from tests.gateway.tenancy_examples import a_tenancy

CHAT_PATH = "/v1/chat/completions"
STREAM_ASKING_USAGE = (
    b'{"model":"tiny","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}'
)


@dataclass
class Stage:
    """A proxy over one model, with its metrics and its log."""

    model: Model
    endpoints: Mapping[str, Endpoint] = field(default_factory=lambda: ENDPOINTS)
    aliases: Sequence[str] = ()
    max_body_bytes: int = 1000
    bodies: Bodies | None = None
    max_attempts: int | None = None
    sink: io.BytesIO = field(default_factory=io.BytesIO)
    metrics: Metrics = field(default_factory=Metrics)
    disconnects: Disconnects = field(default_factory=lambda: Disconnects(sweep_s=0.001))
    keep_alive: KeepAlive = field(default_factory=lambda: KeepAlive(silence_s=0.015))
    owners: ResponseOwners = field(default_factory=ResponseOwners)
    clock: Clock = field(default_factory=Clock)
    tenancy: Tenancy = field(default_factory=a_tenancy)
    cache: ResponseCache = field(default_factory=a_response_cache)
    guarded: GuardedModels = field(default_factory=GuardedModels)

    def __post_init__(self) -> None:
        self._completed_requests = CompletedRequests([self.metrics, RequestLog(self.sink, wall_clock=Clock(0.0))])
        self.proxy = Proxy(
            self.endpoints,
            the_models(self.model, aliases={self.model.name: self.aliases}),
            admission=self.tenancy.admission,
            owners=self.owners,
            completed_requests=self._completed_requests,
            disconnects=self.disconnects,
            keep_alive=self.keep_alive,
            clock=self.clock,
            rng=random.Random(7),
            bodies=self.bodies or bodies_up_to(self.max_body_bytes),
            retry_policy=RetryPolicy(max_attempts=self.max_attempts),
            guarded=self.guarded,
            cached_answers=CachedAnswers(self.cache, self.tenancy.admission, self.disconnects),
        )

    async def ask(self, *pieces: bytes, **how: Any) -> Caller:
        """Serve one request from begin to end."""
        caller = Caller(*pieces, **how)
        await caller.call(self.proxy)
        return caller

    @asynccontextmanager
    async def serving(self, caller: Caller, app: App | None = None) -> AsyncIterator[asyncio.Task[None]]:
        """Return the task that serves *caller*, while disconnects are watched."""
        async with asyncio.TaskGroup() as tasks:
            sweeping = [tasks.create_task(self.disconnects.run()), tasks.create_task(self.keep_alive.run())]
            yield tasks.create_task(caller.call(app or self.proxy))
            for sweep in sweeping:
                sweep.cancel()

    @property
    def lines(self) -> list[dict[str, Any]]:
        self._completed_requests.settle()
        return [json.loads(line) for line in self.sink.getvalue().splitlines()]

    @property
    def line(self) -> dict[str, Any]:
        """The only log line; the metrics must have counted one request as well."""
        (line,) = self.lines
        counted = {
            (sample.labels["model"], sample.labels["status"]): sample.value
            for family in text_string_to_metric_families(self.metrics.exposition().decode())
            for sample in family.samples
            if sample.name == "warmgate_requests_total"
        }
        assert {(line["model"] or "unknown", str(line["status"])): 1.0} == counted
        return line

    def outcome(self) -> tuple[int, str | None]:
        """Return status and error of the only request, and check that no slot is left."""
        line = self.line
        assert 0 == self.model.in_flight
        assert {} == {worker: load for worker, load in in_flight(self.model).items() if load}
        return line["status"], line["error"]


def decisions(stage: Stage) -> list[str]:
    """Return the counters of decisions, once every request that ended is counted."""
    assert stage.lines
    return [line for line in stage.metrics.exposition().decode().splitlines() if line.startswith("warmgate_decisions")]


def error_code(caller: Caller) -> str | None:
    """Return the code in OpenAI's error shape."""
    error = caller.json["error"]
    assert {"message", "type", "param", "code"} == error.keys()
    code: str | None = error["code"]
    return code
