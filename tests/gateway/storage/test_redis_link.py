"""The connection to Redis: timeouts and the circuit breaker."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import ReadOnlyError

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import (
    CONNECTIONS,
    FAILURES,
    OPEN_S,
    RedisLink,
    StoreRefuses,
    redis_client,
    redis_link,
)
from tests.certificates import verify_strictly, without_key_identifiers
from tests.fault_proxy import Passage, fault_proxy
from tests.storage import PATIENCE_S, RedisServer, RedisServers, free_port

UNREACHABLE = "unix:///nowhere/at/all"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Store:
    """A query with an outcome that a test chooses; it needs no connection."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.asked = 0
        self.pause: asyncio.Event | None = None

    async def __call__(self, _: "Redis") -> str:
        self.asked += 1
        if self.pause is not None:
            await self.pause.wait()
        if self.fault is not None:
            raise self.fault
        return "here"


@asynccontextmanager
async def linked(url: str) -> AsyncIterator[RedisLink]:
    link = redis_link(url, timeout_s=PATIENCE_S)
    try:
        yield link
    finally:
        await link.aclose()


def link_of(clock: Clock) -> RedisLink:
    return RedisLink(redis_client(UNREACHABLE), clock=clock)


async def ping(client: "Redis") -> bool:
    return await client.ping()


async def fails(link: RedisLink, question: Callable[["Redis"], Awaitable[object]]) -> str:
    """Return the message of the failure."""
    with pytest.raises(StoreUnavailable) as raised:
        await link.ask(question)
    return raised.value.message


# ---- the breaker


async def test_an_answer_is_passed_on() -> None:
    link = link_of(Clock())

    assert "here" == await link.ask(Store())
    assert not link.is_unavailable


async def test_a_store_is_unavailable_until_it_answers() -> None:
    link, store = link_of(Clock()), Store()
    store.fault = NotConnected("redis://user:secret@host")

    assert "The store does not answer: ConnectionError" == await fails(link, store)
    assert link.is_unavailable

    store.fault = None
    await link.ask(store)
    assert not link.is_unavailable


async def test_failures_in_a_row_open_the_breaker() -> None:
    clock, store = Clock(), Store()
    link = link_of(clock)
    store.fault = NotConnected()
    for _ in range(FAILURES):
        await fails(link, store)
    assert FAILURES == store.asked

    clock.now += OPEN_S * 0.99
    for _ in range(100):
        await fails(link, store)
    assert FAILURES == store.asked

    clock.now += OPEN_S * 0.01
    await fails(link, store)
    assert FAILURES + 1 == store.asked

    await fails(link, store)
    assert FAILURES + 1 == store.asked


async def test_only_one_query_at_a_time_probes() -> None:
    """If all were sent, each of them would wait for its whole timeout."""
    clock, store = Clock(), Store()
    link = link_of(clock)
    store.fault = NotConnected()
    for _ in range(FAILURES):
        await fails(link, store)
    clock.now += OPEN_S
    store.fault, store.pause = None, asyncio.Event()

    first = asyncio.create_task(link.ask(store))
    while store.asked == FAILURES:
        await asyncio.sleep(0)
    for _ in range(10):
        await fails(link, store)
    store.pause.set()

    assert "here" == await first
    assert FAILURES + 1 == store.asked
    assert "here" == await link.ask(store)


async def test_a_cancelled_probe_leaves_the_next_query_to_probe() -> None:
    clock, store = Clock(), Store()
    link = link_of(clock)
    store.fault = NotConnected()
    for _ in range(FAILURES):
        await fails(link, store)
    clock.now += OPEN_S
    store.fault, store.pause = None, asyncio.Event()
    first = asyncio.create_task(link.ask(store))
    while store.asked == FAILURES:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    store.pause = None

    assert "here" == await link.ask(store)


async def test_a_store_that_answers_with_an_error_is_available() -> None:
    """The message has the kind of the error, not its text."""
    link, store = link_of(Clock()), Store()
    store.fault = ReadOnlyError("READONLY You can't write secret against a read only replica.")
    for _ in range(2 * FAILURES):
        with pytest.raises(StoreRefuses) as raised:
            await link.ask(store)

    assert "The store refused the request: the server is a read-only replica" == raised.value.message
    assert 2 * FAILURES == store.asked
    assert not link.is_unavailable


async def test_an_error_of_the_query_itself_is_raised_unchanged() -> None:
    """The store is not to blame."""

    async def wrong(_: "Redis") -> None:
        raise KeyError("field")

    link = link_of(Clock())
    with pytest.raises(KeyError):
        await link.ask(wrong)

    assert not link.is_unavailable


async def test_an_unavailable_store_is_probed() -> None:
    """The pauses grow."""
    pauses: list[float] = []
    server: list[str] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        clock.now += pause_s
        if len(pauses) == 7:
            here.set()
            await asyncio.Event().wait()

    clock, here, store = Clock(), asyncio.Event(), Store()
    link = RedisLink(redis_client(UNREACHABLE), clock=clock, sleep=sleep)
    store.fault = NotConnected()
    await fails(link, store)
    running = asyncio.create_task(link.run())
    await asyncio.wait_for(here.wait(), 60)
    running.cancel()
    await asyncio.wait([running])

    assert [] == server
    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == pauses


# ---- a real one


@pytest.mark.redis
async def test_a_server_that_hangs_delays_no_longer_than_the_timeout(redis_server: RedisServer) -> None:
    """After the breaker opened, not at all. The link recovers by itself when the server continues."""
    async with linked(redis_server.url) as link:
        await link.ask(ping)
        link._timeout_s = 0.2
        running = asyncio.create_task(link.run())
        redis_server.freeze()
        for _ in range(FAILURES):
            async with asyncio.timeout(60):
                assert "The store does not answer: no answer within 0.2 s (store.timeout_s)" == await fails(link, ping)
        assert "The store does not answer: no answer within 0.2 s (store.timeout_s)" == await fails(link, ping)
        redis_server.thaw()
        link._timeout_s = PATIENCE_S
        async with asyncio.timeout(60):
            while link.is_unavailable:
                await asyncio.sleep(0.01)

        assert await link.ask(ping)
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.redis
async def test_a_restarted_server_is_used_again(redis_server: RedisServer) -> None:
    """A connection that it has closed is not a failure."""
    async with linked(redis_server.url) as link:
        await link.ask(ping)
        redis_server.kill()
        assert "The store does not answer: ConnectionError" == await fails(link, ping)
        redis_server.start()
        assert await link.ask(ping)
        with redis_server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        for _ in range(10):  # the loop has to see it
            await asyncio.sleep(0)

        assert await link.ask(ping)


@pytest.mark.redis
async def test_connections_are_bounded_and_queries_wait_for_one(redis_server: RedisServer) -> None:
    async with linked(redis_server.url) as link:
        answers = await asyncio.gather(*(link.ask(ping) for _ in range(5 * CONNECTIONS)))
        with redis_server.client() as client:
            clients = client.info("clients")["connected_clients"]

        assert [True] * (5 * CONNECTIONS) == answers
        assert clients <= CONNECTIONS + 1


@pytest.mark.redis
async def test_a_query_can_be_cancelled_at_any_moment(redis_server: RedisServer) -> None:
    """No other query receives its answer."""
    async with linked(redis_server.url) as link:
        for ticks in range(30):
            task = asyncio.create_task(link.ask(lambda client: client.set("n", "cancelled")))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert await link.ask(ping)
        else:
            pytest.fail("it takes longer than 30 turns of the loop")


@pytest.mark.redis
async def test_a_password_is_sent_and_never_shown(redis_servers: RedisServers) -> None:
    server = redis_servers.make(port=free_port())
    server.arguments = ("--requirepass", "open-sesame")
    server.start()
    async with linked(f"redis://:open-sesame@127.0.0.1:{server.port}/1") as link:
        assert await link.ask(ping)
    async with linked(f"redis://:open-barley@127.0.0.1:{server.port}/1") as link:
        message = await fails(link, ping)

    assert "The store does not answer: wrong user or password" == message


@pytest.mark.redis
async def test_a_user_without_permission_is_refused(redis_server: RedisServer) -> None:
    """The store is available."""
    with redis_server.client() as client:
        client.acl_setuser("reader", enabled=True, passwords=["+x"], categories=["+@read", "+@connection"], keys=["*"])
    async with linked(f"{redis_server.url}?username=reader&password=x") as link:
        assert await link.ask(ping)
        with pytest.raises(StoreRefuses, match=r"the user in store\.url has no permission"):
            await link.ask(lambda client: client.set("a", "1"))


@pytest.mark.redis
async def test_a_cluster_is_used_if_the_url_asks_for_it(redis_servers: RedisServers) -> None:
    """Keys with one hash tag are on one node."""
    server = redis_servers.make(port=free_port())
    server.start_cluster()
    async with linked(f"redis://127.0.0.1:{server.port}/0?cluster=true") as link:
        await link.ask(lambda client: client.set("{a}n", "1"))
        await link.ask(lambda client: client.set("{b}n", "2"))

        assert b"1" == await link.ask(lambda client: client.get("{a}n"))
        assert b"2" == await link.ask(lambda client: client.get("{b}n"))
        server.kill()
        assert "The store does not answer" in await fails(link, ping)


@pytest.mark.redis
async def test_tls_checks_both_sides(redis_servers: RedisServers) -> None:
    """The server by its CA, the client by its certificate."""
    server = redis_servers.make()
    ca, key = certificate(server.folder)
    port = free_port()
    tls = ("--tls-port", str(port), "--tls-cert-file", ca, "--tls-key-file", key, "--tls-ca-cert-file", ca)
    server.arguments = tls
    server.start()
    address = f"rediss://localhost:{port}/0"
    async with linked(f"{address}?ssl_ca_certs={ca}&ssl_certfile={ca}&ssl_keyfile={key}") as link:
        assert await link.ask(ping)
    async with linked(f"{address}?ssl_ca_certs={ca}") as link:
        assert "The store does not answer" in await fails(link, ping)
    async with linked(f"{address}?ssl_certfile={ca}&ssl_keyfile={key}") as link:
        assert "The store does not answer" in await fails(link, ping)


@pytest.mark.redis
async def test_tls_needs_no_key_identifiers(redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private authority may leave them out, also where Python verifies strictly by default."""
    verify_strictly(monkeypatch)
    server = redis_servers.make()
    made = without_key_identifiers(server.folder)
    port = free_port()
    server.arguments = (
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", str(made.server), "--tls-key-file", str(made.key)),
        *("--tls-ca-cert-file", str(made.authority)),
    )
    server.start()
    async with linked(f"rediss://localhost:{port}/0?ssl_ca_certs={made.authority}") as link:
        assert await link.ask(ping)


def certificate(folder: Path) -> tuple[str, str]:
    """Return paths of a self-signed certificate of localhost and of its key."""
    if shutil.which("openssl") is None:
        if os.environ.get("TEST_REDIS") == "required":
            pytest.fail("openssl is not installed")
        pytest.skip("openssl is not installed")
    paths = str(folder / "cert.pem"), str(folder / "key.pem")
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(["openssl", *made.split(), "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


# ---- addresses


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:secret@host:6379/0?cluter=true",
        "redis://user:secret@host:6379/0?cluster=perhaps",
        "redis://user:secret@host:6379/0?max_connections=many",
        "redis://user:secret@host:port/0",
        "rediss://user:secret@host/0?ssl_cert_reqs=sometimes",
    ],
)
def test_a_wrong_option_is_refused_at_once(url: str) -> None:
    """The message does not contain the URL, which has the password."""
    with pytest.raises(ValueError, match=r"^store\.url has an unknown option") as raised:
        redis_link(url)

    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.redis
async def test_a_distant_redis_needs_a_longer_timeout(redis_servers: RedisServers) -> None:
    """With 200 ms for a round trip, half a second is too short to connect."""
    server = redis_servers.started(port=free_port())
    async with fault_proxy(f"http://127.0.0.1:{server.port}") as proxy:
        proxy.set(Passage(delay_s=0.1))
        url = proxy.url.replace("http://", "redis://") + "/1"
        near, far = redis_link(url), redis_link(url, timeout_s=30.0)
        message = await fails(near, ping)
        assert await far.ask(ping)
        for link in (near, far):
            await link.aclose()

    assert "The store does not answer: no answer within 0.5 s (store.timeout_s)" == message
