"""Most of it is tested by its routes, and in tests/gateway/app/test_application.py."""

from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cache_index import WorkerId
from gateway.api.admin_access import AdminAccess
from gateway.api.application import public_api
from gateway.api.explain import Explainer
from gateway.api.kept_looks import KeptLooks
from gateway.api.kept_responses import KeptResponses
from gateway.models.response_affinity.owners import ResponseOwners
from gateway.proxy.completed_requests import CompletedRequests
from gateway.telemetry.metrics import Metrics
from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.kv_events.feed import Trust
from tests.bodies import bodies_up_to
from tests.gateway.asgi import Caller
from tests.gateway.examples import Clock, the_models
from tests.gateway.tenancy_examples import a_tenancy


def an_api(metrics: Metrics) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: Any) -> Any:
        yield

    models = the_models()
    streams: dict[WorkerId, Trust] = {}
    return public_api(
        models,
        metrics,
        CompletedRequests([metrics]),
        KeptResponses(models, ResponseOwners()),
        Explainer({}, models, ResponseOwners(), stream_state=streams.get, bodies=bodies_up_to(1)),
        kept_looks=KeptLooks(a_tenancy().admission, CompletedRequests([]), clock=Clock()),
        stream_state=streams.get,
        discovery_status=DiscoveryStatus(clock=Clock()),
        replicas=dict,
        admin_access=AdminAccess([]),
        access=a_tenancy().access,
        lifespan=lifespan,
    )


async def test_what_no_one_foresaw_has_openais_shape_too() -> None:
    """The caller is reported nothing of it; the server gets the exception, to log it."""

    class Fails(Collector):
        def collect(self) -> Iterator[Metric]:
            raise ZeroDivisionError("inside")

    metrics = Metrics()
    metrics.register(Fails())
    caller = Caller(method="GET", path="/metrics")
    with pytest.raises(ZeroDivisionError):
        await caller.call(an_api(metrics))

    assert (500, "internal_error") == (caller.status, caller.json["error"]["code"])
    assert b"inside" not in caller.body


async def test_paths_below_messages_fail_in_anthropics_shape() -> None:
    """Anthropic's SDKs look for their own types, also where no endpoint is."""
    caller = Caller(method="GET", path="/v1/messages/batches")
    await caller.call(an_api(Metrics()))

    assert (404, "error", "not_found_error") == (caller.status, caller.json["type"], caller.json["error"]["type"])


async def test_the_page_of_fastapi_that_loads_scripts_from_outside_is_not_served() -> None:
    caller = Caller(method="GET", path="/redoc")
    await caller.call(an_api(Metrics()))

    assert 404 == caller.status
