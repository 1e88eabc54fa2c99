"""Finding out what an engine is and reports."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.backends.client import WorkerClient
from gateway.backends.engine_metrics import EngineKind, EngineReading
from gateway.backends.engine_watch import EngineWatch
from gateway.backends.probe import WorkerProbe
from tests.fakes.engine import Answer, FakeEngine, Floods, Garbage, Hangs, Page, fake_engine

LOADS_PATH = "/v1/loads?include=core"
VLLM = Page('vllm:num_requests_running{engine="0"} 3\n')
SGLANG = Page("sglang:num_running_reqs 5\n")
WHOLE_SGLANG = Page("sglang:num_running_reqs 5\nsglang:max_total_num_tokens 4096\nsglang:page_size 16\n")
DYNAMO = Page('dynamo_frontend_inflight_requests{model="tiny"} 7\n')
LOADS = Page('{"loads":[{"num_running_reqs":5,"num_waiting_reqs":1,"max_total_num_tokens":65536}]}')
INFO = Page('{"page_size":64,"max_total_num_tokens":65536}')


@asynccontextmanager
async def watching(
    answers: dict[str, Answer], *, timeout_s: float = 5.0
) -> AsyncIterator[tuple[FakeEngine, EngineWatch]]:
    async with fake_engine(answers) as engine, WorkerClient() as client:
        yield engine, EngineWatch(WorkerProbe(client, engine.url, timeout_s=timeout_s))


@pytest.mark.parametrize(
    ("page", "reading"),
    [
        (VLLM, EngineReading(EngineKind.VLLM, running=3.0)),
        (WHOLE_SGLANG, EngineReading(EngineKind.SGLANG, running=5.0, cache_tokens=4096, block_size=16)),
        (DYNAMO, EngineReading(EngineKind.DYNAMO, running=7.0)),
        (Page("process_start_time_seconds 7\n"), EngineReading(started_at=7.0)),
    ],
)
async def test_its_metrics_say_which_engine_it_is(page: Page, reading: EngineReading) -> None:
    """One question is enough."""
    async with watching({"/metrics": page}) as (engine, watch):
        assert reading == await watch.read()
        assert ["/metrics"] == engine.asked


async def test_sglang_without_metrics_reports_its_loads() -> None:
    reading = EngineReading(EngineKind.SGLANG, running=5.0, waiting=1.0, cache_tokens=65536, block_size=64)
    async with watching({LOADS_PATH: LOADS, "/server_info": INFO}) as (engine, watch):
        assert [reading, reading] == [await watch.read(), await watch.read()]
        assert ["/metrics", LOADS_PATH, "/server_info", LOADS_PATH] == engine.asked


async def test_what_the_metrics_lack_comes_from_the_servers_arguments() -> None:
    """Older SGLang reports neither room nor pages among its metrics."""
    async with watching({"/metrics": SGLANG, "/server_info": INFO}) as (_, watch):
        assert EngineReading(EngineKind.SGLANG, running=5.0, cache_tokens=65536, block_size=64) == await watch.read()


@pytest.mark.parametrize("info", [Page(status=401), Page("<html>"), Garbage(b"\x00\xff\r\n\r\n"), Hangs(), Floods()])
async def test_arguments_that_are_not_reported_are_asked_once(info: Answer) -> None:
    """The load is reported all the same."""
    async with watching({"/metrics": SGLANG, "/server_info": info}, timeout_s=1.0) as (engine, watch):
        assert [EngineReading(EngineKind.SGLANG, running=5.0)] * 2 == [await watch.read(), await watch.read()]
        assert 1 == engine.times("/server_info")


@pytest.mark.parametrize("answer", [Page(status=404), Page(status=500), Page("<html>"), Garbage(), Hangs()])
async def test_a_worker_may_tell_nothing(answer: Answer) -> None:
    """None, whatever it is that it answers instead."""
    async with watching({"/metrics": answer, LOADS_PATH: answer}, timeout_s=0.5) as (engine, watch):
        assert await watch.read() is None
        assert ["/metrics", LOADS_PATH] == engine.asked


async def test_of_a_flood_the_first_megabytes_are_read() -> None:
    """What stands there counts; it is not waited for an end."""
    async with watching({"/metrics": Floods(b"vllm:num_requests_waiting 2\n" + b"x" * 65000 + b"\n")}) as (
        engine,
        watch,
    ):
        assert EngineReading(EngineKind.VLLM, waiting=2) == await watch.read()
        assert engine.sent < 40_000_000


async def test_loads_that_end_lead_back_to_the_beginning() -> None:
    """Another engine may have taken the place."""
    async with watching({LOADS_PATH: LOADS}) as (engine, watch):
        await watch.read()
        engine.answers = {"/metrics": VLLM}

        assert [None, EngineReading(EngineKind.VLLM, running=3.0)] == [await watch.read(), await watch.read()]


async def test_what_is_forgotten_is_found_out_again() -> None:
    async with watching({LOADS_PATH: LOADS, "/server_info": INFO}) as (engine, watch):
        await watch.read()
        watch.forget()
        engine.asked.clear()
        await watch.read()

        assert ["/metrics", LOADS_PATH, "/server_info"] == engine.asked
