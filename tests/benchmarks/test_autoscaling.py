import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from benchmarks.autoscaling import Clients, Look, Phase, drill, report_of, scalers
from benchmarks.report import Circumstances
from benchmarks.scaler import Scaler, Trigger

SOME = Phase("some", 3, 0.2)
NONE = Phase("after", 0, 0.2)
SCALER = Scaler("engines", 1, 8, (Trigger("requests", "open", 1),))


class Open(httpx.AsyncByteStream):
    """A stream that has begun and does not end; counts how many of its kind there are."""

    def __init__(self, transport: "Streams") -> None:
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._transport.open += 1
        yield b"data: {}\n\n"
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self._transport.open -= 1


class Streams(httpx.AsyncBaseTransport):
    """Answers every request with a stream that goes on, or with *status*."""

    def __init__(self, status: int = 200) -> None:
        self.open = 0
        self._status = status

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._status != 200:
            return httpx.Response(self._status, request=request)
        return httpx.Response(200, stream=Open(self))


def circumstances() -> Circumstances:
    return Circumstances.observe(seed=None, packages=())


def looks(*, gateways: int = 3, reported: float | None = 460.0) -> list[Look]:
    """A run in which everything is as it should be, but for what is said."""
    keys = ("warmgate requests", "vllm-llama-70b requests", "vllm-llama-70b kv-usage", "vllm-llama-70b backlog")

    def look(name: str, streams: int, seen: float | None, **replicas: int) -> Look:
        values: dict[str, float | None] = dict.fromkeys(keys, seen)
        wanted = {"warmgate": replicas["gateways"], "vllm-llama-70b": replicas["engines"]}
        return Look(1.0, Phase(name, streams, 90), True, values, wanted)

    return [
        look("before", 0, 0.0, gateways=2, engines=1),
        look("some", 100, 100.0, gateways=2, engines=3),
        look("many", 460, reported, gateways=gateways, engines=8),
        look("after", 0, 0.0, gateways=2, engines=1),
    ]


def test_the_manifests_are_what_is_drilled() -> None:
    """Gateways first, then engines."""
    gateways, engines = scalers()

    assert ["requests"] == [trigger.name for trigger in gateways.triggers]
    assert ["requests", "kv-usage", "backlog"] == [trigger.name for trigger in engines.triggers]
    assert (2, 6, 1, 8) == (gateways.least, gateways.most, engines.least, engines.most)


async def test_replicas_follow_what_is_open() -> None:
    """Up with the streams of a phase, and down when they are gone."""
    transport = Streams()

    async def ask(query: str) -> float | None:
        return float(transport.open)

    async with httpx.AsyncClient(transport=transport) as http:
        seen = await drill(ask, Clients(http, "http://gateway"), [SCALER], [SOME, NONE], look_s=0.02)

    assert {("some", 3), ("after", 1)} == {(look.phase.name, look.replicas["engines"]) for look in seen}
    assert {3.0, 0.0} == {look.values["engines requests"] for look in seen}
    assert 0 == transport.open


async def test_a_client_that_is_refused_ends_the_drill() -> None:
    """Its figures would be about nothing."""
    async with httpx.AsyncClient(transport=Streams(503)) as http:
        clients = Clients(http, "http://gateway", opened_s=0.2)

        with pytest.raises(httpx.HTTPStatusError, match="503"):
            await clients.become(2)


def test_a_run_as_it_should_be_meets_the_bars() -> None:
    """All eight."""
    report = report_of(looks(), scalers(), circumstances())

    assert 8 == len(report.bars)
    assert report.is_met


@pytest.mark.parametrize(
    ("run", "missed"),
    [
        (looks(gateways=2), "gateways under much load"),
        (looks(reported=None), "queries that Prometheus had no answer to"),
        (looks(reported=430.0), "open streams by the query"),
    ],
)
def test_a_bar_is_missed_where_a_query_says_something_else(run: list[Look], missed: str) -> None:
    """The report says which."""
    report = report_of(run, scalers(), circumstances())

    assert missed in " ".join(bar.what for bar in report.bars if not bar.is_met)
