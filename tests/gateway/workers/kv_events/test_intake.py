"""Sources are found and subscribed to, over real sockets."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
import zmq.asyncio

from gateway.backends.client import WorkerClient
from gateway.workers.kv_events.intake import Intake
from gateway.workers.kv_events.sources import EventSource, EventSources
from tests.fakes.engine import Garbage, Page, fake_engine
from tests.fakes.event_publisher import event_publisher
from tests.gateway.workers.kv_events.engines import DictFeed
from tests.gateway.workers.kv_events.examples import batch, stored, until

pytestmark = pytest.mark.e2e


@pytest.fixture
async def client() -> AsyncIterator[WorkerClient]:
    async with WorkerClient() as client:
        yield client


def an_intake(client: WorkerClient, *, bind: str | None = None) -> Intake:
    allowed = [ip_network("127.0.0.0/8"), ip_network("10.0.0.0/24")]
    return Intake(bind=bind, allowed=allowed, client=client, clock=time.monotonic, wall_clock=lambda: 1000.25)


def a_free_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{taken.getsockname()[1]}"


def vllm_reports(endpoint: str) -> Page:
    """Return vLLM's answer to ``GET /kv_event_sources``."""
    reported = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": endpoint, "topic": ""}
    return Page(json.dumps({"0": reported}))


# ---- where


async def test_an_engine_is_asked_where_it_reports(client: WorkerClient) -> None:
    """With the worker's key; a wildcard is the host at which it was asked."""
    async with fake_engine({"/kv_event_sources": vllm_reports("tcp://*:5557")}) as engine:
        found = await an_intake(client).find(engine.url, {"authorization": "Bearer k-1"})

    assert EventSources((EventSource("tcp://127.0.0.1:5557"),)) == found
    assert "\r\nauthorization: bearer k-1\r\n" in engine.heads[0]


@pytest.mark.parametrize("bind", [None, "tcp://*:5557", "tcp://*:5558"])
async def test_an_engine_that_dials_the_bound_address_is_found(client: WorkerClient, bind: str | None) -> None:
    """It publishes to that port of another host; without such an address it names a host that is not its own."""
    async with fake_engine({"/kv_event_sources": vllm_reports("tcp://warmgate:5557")}) as engine:
        found = await an_intake(client, bind=bind).find(engine.url, {})

    assert found == (
        EventSources((EventSource(None),)) if bind == "tcp://*:5557" else EventSources((), refused_hosts=("warmgate",))
    )


async def test_an_engine_may_name_an_address_of_its_host(client: WorkerClient) -> None:
    """Where the worker is known by a name; by vLLM and by SGLang."""
    sglang = Page(
        json.dumps({"kv_events": {"publisher": "zmq", "endpoint_host": "10.0.0.9", "endpoint_port_base": 5557}})
    )
    async with (
        fake_engine({"/kv_event_sources": vllm_reports("tcp://10.0.0.9:5557")}) as vllm,
        fake_engine({"/server_info": sglang}) as other,
    ):
        intake = Intake(bind=None, client=client, clock=time.monotonic, wall_clock=time.time)
        found = await intake.find(vllm.url.replace("127.0.0.1", "localhost"), {})
        allowed = await an_intake(client).find(other.url, {})
        refused = await intake.find(other.url, {})

    assert EventSources((), refused_hosts=("10.0.0.9",)) == found
    assert EventSources((EventSource("tcp://10.0.0.9:5557"),)) == allowed
    assert EventSources((), refused_hosts=("10.0.0.9",)) == refused


async def test_who_does_not_say_is_not_found(client: WorkerClient) -> None:
    """It has no such route, or it does not speak HTTP."""
    odd_pages = {path: Garbage() for path in ("/kv_event_sources", "/server_info")}
    async with fake_engine({}) as mute, fake_engine(odd_pages) as odd:
        assert [None, None] == [await an_intake(client).find(engine.url, {}) for engine in (mute, odd)]


# ---- streams


async def test_a_source_is_listened_to(client: WorkerClient, context: zmq.asyncio.Context) -> None:
    """The past by a replay, the present as it is published; how long a request had to wait is measured."""
    feed, intake = DictFeed(), an_intake(client)
    assert 0.0 == intake.longest_slice_s
    async with event_publisher(context) as engine, intake.opened():
        engine.keep(batch(stored(1)))
        source = EventSource(engine.endpoint, engine.replay_endpoint)
        subscriber = intake.subscribe(source, feed, worker="w1", url="http://127.0.0.1:8000")
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(subscriber.run())
            await until(lambda: subscriber.trust == "live")
            await engine.publish(batch(stored(2)))
            await until(lambda: subscriber.counters.batches == 2)
            running.cancel()

    assert {1, 2} == {block for block, _ in feed.content}
    assert 0.25 == subscriber.counters.lag_s
    assert 0.0 < intake.longest_slice_s


@pytest.mark.parametrize("name", ["w1", "10.0.0.5", "10.0.0.5:8000"])
async def test_who_dials_is_known_by_its_name(client: WorkerClient, context: zmq.asyncio.Context, name: str) -> None:
    """Its worker's id, host, or host and port; what others publish there is not its."""
    feed, bind = DictFeed(), a_free_address()
    intake = an_intake(client, bind=bind)
    topic = f"kv@{name}@tiny".encode()
    async with (
        intake.opened(),
        event_publisher(context, dials=bind, topic=b"kv@w2@tiny") as other,
        event_publisher(context, dials=bind, topic=topic) as engine,
        asyncio.TaskGroup() as tasks,
    ):
        subscriber = intake.subscribe(EventSource(None), feed, worker="w1", url="http://10.0.0.5:8000")
        running = tasks.create_task(subscriber.run())
        async with asyncio.timeout(60):
            while not subscriber.counters.batches:  # what is published before it is connected is lost
                await other.publish(batch(stored(2)))
                await engine.publish(batch(stored(1)))
                await asyncio.sleep(0.02)
        running.cancel()

    assert {1} == {block for block, _ in feed.content}


async def test_who_dials_cannot_be_heard_without_an_address(client: WorkerClient) -> None:
    """The settings have none: anyone who subscribes is notified so at once."""
    intake = an_intake(client)
    async with intake.opened():
        with pytest.raises(ValueError, match=r"kv_events.bind is not set"):
            intake.subscribe(EventSource(None), DictFeed(), worker="w1", url="http://10.0.0.5:8000")


# ---- the end


async def test_at_the_end_no_socket_is_open(client: WorkerClient, context: zmq.asyncio.Context) -> None:
    """Also if it ends amid everything; the address is free, so it can be opened again."""
    bind = a_free_address()
    intake = an_intake(client, bind=bind)
    before = asyncio.all_tasks()

    async def fail() -> None:
        async with event_publisher(context) as engine, intake.opened(), asyncio.TaskGroup() as tasks:
            subscriber = intake.subscribe(EventSource(engine.endpoint), DictFeed(), worker="w1", url="http://w1")
            tasks.create_task(subscriber.run())
            await until(lambda: subscriber.counters.connections and is_taken(bind))
            raise LookupError

    for _ in range(2):
        with pytest.raises(ExceptionGroup):
            await fail()
        assert before == asyncio.all_tasks()
        await until(lambda: not is_taken(bind))  # ZMQ closes in a thread of its own


def is_taken(address: str) -> bool:
    """Whether somebody listens there."""
    host, port = address.removeprefix("tcp://").split(":")
    with socket.socket() as trying:
        trying.settimeout(5.0)
        return trying.connect_ex((host, int(port))) == 0
