"""/admin/v1/requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.receipts.receipts import Receipts
from gateway.telemetry.receipts.ring import ReceiptRing
from tests.gateway.api.admin_v1.administration import Administration, administration, fault, message
from tests.gateway.examples import Clock, a_draining, the_models
from tests.gateway.telemetry.receipts.examples import SECONDS_OF_2026, answered


class Served:
    """The admin application of a gateway that keeps receipts."""

    def __init__(self, admin: Administration, ring: ReceiptRing) -> None:
        self.admin = admin
        self._ring = ring

    def add(self, name: str, *, ended: float = 102.0, **known: Any) -> None:
        self._ring.observe([CompletedRequest(answered(request_id=name.encode(), **known), ended)])

    async def ids(self, query: str = "") -> list[str]:
        return [each["id"] for each in (await self.admin.get(f"/requests{query}"))["data"]]


@asynccontextmanager
async def served(*, size: int = 10, keeps: bool = True) -> AsyncIterator[Served]:
    ring = ReceiptRing(size, clock=Clock(), wall_clock=Clock(SECONDS_OF_2026))
    models = the_models()
    receipts = Receipts(ring, lambda: None) if keeps else None
    gateway = AdminGateway(models, list, draining=a_draining(models), receipts=receipts)
    async with administration(gateway=gateway) as admin:
        yield Served(admin, ring)


async def test_a_request_with_everything() -> None:
    """The names are part of the API."""
    async with served() as gateway:
        gateway.add("r-1", session=b"s-1", failures=(("c", "ConnectFailed"),), attempts=2)
        shown = await gateway.admin.get("/requests/r-1")

    candidates = shown.pop("candidates")

    assert {
        "object": "request",
        "number": 0,
        "id": "r-1",
        "time": "2026-01-01T00:00:00.000Z",
        "team": "blue",
        "key": "ci",
        "model": "tiny",
        "session": "s-1",
        "stream": True,
        "status": 200,
        "error": None,
        "refused_by": None,
        "guardrails": [],
        "strategy": "prefix_aware",
        "reason": "hit",
        "chosen": "a",
        "candidate_count": 2,
        "excluded": [],
        "prefill_price": 1.0,
        "attempts": [{"backend": "c", "outcome": "ConnectFailed"}, {"backend": "a", "outcome": "answered"}],
        "attempt_count": 2,
        "continued": 0,
        "backend": "a",
        "served_by": "worker",
        "fell_back": False,
        "prefill": None,
        "prefill_worker": None,
        "prompt_tokens": 1000.0,
        "reported_prompt_tokens": 1000,
        "predicted_hit_tokens": 800.0,
        "hit_source": "predicted",
        "cached_tokens": 800,
        "completion_tokens": 9,
        "prompt_blocks": 62,
        "queued_s": 0.5,
        "predicted_ttft_s": 1.5,
        "ttft_s": 1.5,
        "duration_s": 2.0,
        "regret_s": 0.0,
        "cost_usd": 0.0,
        "saved_usd": 0.0,
        "phases": [
            {"name": "prepare", "began_s": 0.0, "duration_s": 0.5},
            {"name": "queue", "began_s": 0.5, "duration_s": 0.5},
            {"name": "attempt", "began_s": 1.0, "duration_s": 0.5},
            {"name": "relay", "began_s": 1.5, "duration_s": 0.5},
        ],
        "trace_id": None,
    } == shown
    assert {
        "worker": "b",
        "rank": 2,
        "hit_blocks": 0,
        "hit_tokens": 0.0,
        "hit_source": "predicted",
        "wait_s": 0.0,
        "prefill_s": 1.01,
        "load_s": 0.0,
        "evicts_s": 0.0,
        "displaces_s": 0.0,
        "predicted_ttft_s": 1.01,
        "cost_s": 1.01,
        "pulled_tokens": 0.0,
        "pending": 0,
        "decodes": 0,
        "why_not": "higher cost",
    } == candidates[1]


async def test_a_list_has_no_details() -> None:
    async with served() as gateway:
        gateway.add("r-1")
        (listed,) = (await gateway.admin.get("/requests"))["data"]
        shown = await gateway.admin.get("/requests/r-1")

    assert {"candidates", "excluded", "attempts", "phases"} == shown.keys() - listed.keys()
    assert listed.items() <= shown.items()


async def test_the_description_has_exactly_the_fields_of_a_response() -> None:
    async with served() as gateway:
        gateway.add("r-1")
        shown = await gateway.admin.get("/requests/r-1")
        schemas = (await gateway.admin.get("/openapi.json"))["components"]["schemas"]

    assert schemas["RequestDetailResponse"]["properties"].keys() == shown.keys()
    assert schemas["CandidateResponse"]["properties"].keys() == shown["candidates"][0].keys()


async def test_pages() -> None:
    """Each request is on one page, although another one ends between them."""
    async with served() as gateway:
        for number in range(3):
            gateway.add(f"r-{number}")
        first = await gateway.admin.get("/requests?limit=2")
        gateway.add("r-3")
        second = await gateway.admin.get(f"/requests?limit=2&after={first['next']}")

    assert (["r-2", "r-1"], True, "1") == ([each["id"] for each in first["data"]], first["has_more"], first["next"])
    assert (["r-0"], False, None) == ([each["id"] for each in second["data"]], second["has_more"], second["next"])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?team=red", ["red"]),
        ("?model=big", ["big"]),
        ("?worker=b", ["other"]),
        ("?session=s-1", ["session"]),
        ("?error=Refused", ["refused"]),
        ("?status=400", ["refused"]),
        ("?status=4xx", ["refused"]),
        ("?status=2xx&min_duration_s=5", ["slow"]),
        ("?since=2026-01-01T00:00:01Z", ["late"]),
        ("?since=2026-01-01T01:00:01%2B01:00", ["late"]),
        ("?team=red&model=big", []),
    ],
)
async def test_filters(query: str, found: list[str]) -> None:
    async with served() as gateway:
        gateway.add("red", team="red")
        gateway.add("big", model="big")
        gateway.add("other", backend="b")
        gateway.add("session", session=b"s-1")
        gateway.add("refused", status=400, error="Refused")
        gateway.add("slow", ended=106.0)
        gateway.add("late", started=101.5)

        assert found == await gateway.ids(query)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("status=abc", "status"),
        ("status=6xx", "status"),
        ("min_duration_s=-1", "min_duration_s"),
        ("since=yesterday", "since"),
        ("since=2026-01-01T00:00:00", "since"),
        ("after=x", "after"),
        ("limit=0", "limit"),
        ("teem=red", "teem"),
    ],
)
async def test_wrong_queries_are_refused(query: str, param: str) -> None:
    """A time needs its zone."""
    async with served() as gateway:
        assert (400, None, param) == fault(await gateway.admin.ask("GET", f"/requests?{query}"))


async def test_an_unknown_request() -> None:
    async with served() as gateway:
        response = await gateway.admin.ask("GET", "/requests/r-1")

    assert (404, "not_found", "request_id") == fault(response)
    assert "r-1" in message(response)


async def test_a_gateway_without_receipts() -> None:
    async with served(keeps=False) as gateway:
        listed = await gateway.admin.ask("GET", "/requests")

    assert (404, "not_found", None) == fault(listed)
    assert "admin.receipts is 0" in message(listed)


async def test_a_viewer_reads_and_a_stranger_does_not() -> None:
    async with served() as gateway:
        gateway.add("r-1")
        async with gateway.admin.client(None) as stranger:
            refused = await stranger.get("/admin/v1/requests/r-1")

        assert ["r-1"] == await gateway.ids()
        assert 401 == refused.status_code


async def test_a_request_id_may_contain_slashes() -> None:
    """Callers choose ids."""
    async with served() as gateway:
        gateway.add("a/b")

        assert "a/b" == (await gateway.admin.get("/requests/a/b"))["id"]
