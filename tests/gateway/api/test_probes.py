"""Facts about what an orchestrator and a scraper ask."""

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from cache_index import WorkerId
from gateway.api.probes import router
from gateway.models.model import Model
from gateway.models.tokenizing.exactness import NotExact
from gateway.proxy.completed_requests import CompletedRequests
from gateway.server.asgi import Message, Receive, Send
from gateway.server.stop import SCOPE_KEY, Stop
from gateway.telemetry.metrics import Metrics
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.source import WorkerSource
from gateway.workers.kv_events.feed import Trust
from tests.fakes.backends import Answers
from tests.gateway.exact_examples import follow
from tests.gateway.examples import Clock, a_model, an_ended_request, an_exchange, the_models

Serve = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@dataclass
class Store:
    """State of a store, as /readyz has it."""

    status: dict[str, Any] = field(default_factory=dict)
    is_store_awaited: bool = False

    def store_status(self) -> dict[str, Any]:
        return self.status


@asynccontextmanager
async def serving(
    *models: Model,
    metrics: Metrics | None = None,
    completed_requests: CompletedRequests | None = None,
    streams: Mapping[WorkerId, Trust] | None = None,
    discovery_status: DiscoveryStatus | None = None,
    replicas: Mapping[str, Any] | None = None,
    store: "Store | None" = None,
    stop: Stop | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    api = FastAPI()
    api.include_router(router)
    api.state.models = the_models(*models)
    api.state.merged_metrics = None
    api.state.stream_state = (streams or {}).get
    api.state.discovery_status = discovery_status or DiscoveryStatus(clock=Clock(0.0))
    api.state.replicas = lambda: replicas or {}
    api.state.store = store or Store()
    api.state.metrics = metrics or Metrics()
    api.state.completed_requests = completed_requests or CompletedRequests([])

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await api(scope if stop is None else {**scope, "state": {SCOPE_KEY: stop}}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


def down(name: str) -> Model:
    model = a_model(Answers(), Answers(), name=name)
    for worker in ("a", "b"):
        model.fleet.set_up(WorkerId(worker), up=False)
    return model


async def test_a_process_that_answers_lives() -> None:
    """Whatever its workers do: to restart the gateway would not bring them back."""
    async with serving(down("tiny")) as client:
        response = await client.get("/livez")

    assert (200, {"status": "ok"}) == (response.status_code, response.json())


async def test_one_model_that_can_be_served_makes_it_ready() -> None:
    """The others come with their reason."""
    async with serving(down("tiny"), a_model(Answers(), name="big")) as client:
        response = await client.get("/readyz")

    assert 200 == response.status_code
    assert {
        "status": "ready",
        "models": {"tiny": "none of 2 workers is up", "big": "ready"},
    } == response.json()


async def test_a_source_of_workers_that_was_never_heard_keeps_it_from_being_ready() -> None:
    """Until it was heard once: then its age is reported, and takes no one out."""
    clock = Clock(10.0)
    discovery_status = DiscoveryStatus(clock=clock)
    with discovery_status.of(WorkerSource("tiny", ServiceSource(name="vllm"))) as source_status:
        async with serving(a_model(Answers(), name="tiny"), discovery_status=discovery_status) as client:
            before = await client.get("/readyz")
            source_status.heard(1)
            clock.now = 700.0
            source_status.failed("it is away")
            after = await client.get("/readyz")

    assert (503, "not ready") == (before.status_code, before.json()["status"])
    assert {"tiny": {"service": {"synced": False, "workers": 0, "age_s": 0.0}}} == before.json()["discovery"]
    assert (200, 690.0) == (after.status_code, after.json()["discovery"]["tiny"]["service"]["age_s"])


async def test_a_store_that_was_never_heard_keeps_it_from_being_ready() -> None:
    """A rollout must not replace good pods by some that refuse every key. Heard once, an outage takes no one out."""
    fault = "The store does not answer: wrong user or password"
    store = Store({"state": "away", "heard": False, "fault": fault}, is_store_awaited=True)
    async with serving(a_model(Answers(), name="tiny"), store=store) as client:
        before = await client.get("/readyz")
        store.is_store_awaited = False
        after = await client.get("/readyz")

    assert (503, "not ready") == (before.status_code, before.json()["status"])
    assert {"state": "away", "heard": False, "fault": fault} == before.json()["store"]
    assert (200, "ready") == (after.status_code, after.json()["status"])


async def test_it_says_which_replicas_are_heard() -> None:
    """Where there may be some. A gateway that is alone is as ready as before."""
    model = a_model(Answers(), Answers(), name="tiny")
    async with serving(model) as client:
        alone = await client.get("/readyz")
    async with serving(model, replicas={"heard": 1, "is_connected": False}) as client:
        sharing = await client.get("/readyz")

    assert "replicas" not in alone.json()
    assert (200, {"heard": 1, "is_connected": False}) == (sharing.status_code, sharing.json()["replicas"])


async def test_without_any_it_is_not_ready() -> None:
    """503, and why."""
    async with serving(down("tiny")) as client:
        response = await client.get("/readyz")

    assert 503 == response.status_code
    assert {"status": "not ready", "models": {"tiny": "none of 2 workers is up"}} == response.json()


async def test_a_gateway_that_stops_is_not_ready() -> None:
    """Whatever its models could do: requests are to go elsewhere. It lives, and is not to be killed for that."""
    stop = Stop(delay_s=60.0, clock=Clock())
    async with serving(a_model(Answers(), name="tiny"), stop=stop) as client:
        before = await client.get("/readyz")
        stop.signalled(signal.SIGTERM)
        responses = [await client.get(path) for path in ("/readyz", "/health", "/ping", "/livez")]

    assert 200 == before.status_code
    assert [503, 503, 503, 200] == [response.status_code for response in responses]
    assert {"status": "stopping", "models": {"tiny": "ready"}} == responses[0].json()


async def test_how_far_engines_can_be_relied_on_is_a_detail_of_readiness() -> None:
    following = a_model(Answers(), Answers(), Answers(), name="tiny")
    follow(following, NotExact("unavailable"))
    streams: dict[WorkerId, Trust] = {WorkerId("a"): "live", WorkerId("b"): "untrusted"}
    async with serving(following, a_model(Answers(), name="big"), streams=streams) as client:
        response = await client.get("/readyz")

    assert 200 == response.status_code
    assert {
        "status": "ready",
        "models": {"tiny": "ready", "big": "ready"},
        "kv_events": {"tiny": {"a": "live", "b": "untrusted"}},
    } == response.json()


async def test_metrics_come_in_the_format_that_they_say() -> None:
    """Prometheus goes by the content type: version 0.0.4 of the text format, in which names are plain."""
    metrics = Metrics()
    metrics.observe([an_ended_request(101.0, model="tiny", status=200)])
    async with serving(metrics=metrics) as client:
        response = await client.get("/metrics")

    assert "text/plain; version=0.0.4; charset=utf-8" == response.headers["content-type"]
    assert 'warmgate_requests_total{model="tiny",status="200"} 1.0\n' in response.text


async def test_a_scrape_sees_every_request_that_ended_before_it() -> None:
    """Endings are reported of together, a little later; a scrape does not wait for that."""
    metrics = Metrics()
    completed_requests = CompletedRequests([metrics])
    completed_requests.add(an_exchange(model="tiny", status=200), 101.0)
    async with serving(metrics=metrics, completed_requests=completed_requests) as client:
        response = await client.get("/metrics")

    assert 'warmgate_requests_total{model="tiny",status="200"} 1.0\n' in response.text


@pytest.mark.parametrize(("path", "status"), [("/livez", 200), ("/readyz", 503)])
async def test_probes_may_ask_for_the_head_alone(path: str, status: int) -> None:
    async with serving(down("tiny")) as client:
        assert status == (await client.head(path)).status_code


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
async def test_probes_are_for_reading(path: str) -> None:
    """Nothing can be done by them."""
    async with serving() as client:
        assert 405 == (await client.post(path)).status_code
