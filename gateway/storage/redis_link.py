"""The connection to Redis or Valkey: bounded waits, and a breaker, so that a store that hangs stops nobody.

1. A question takes `store.timeout_s` at most (0.5 s), whatever it waits for: a connection, a handshake, an answer.
2. It is asked once. Whoever may ask again does so.
3. After `FAILURES` in a row nobody waits: questions fail at once, but for one at a time that finds out how it is.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.maint_notifications import MaintNotificationsConfig

from gateway.errors import StoreAway
from gateway.storage.reasons import reason_of, refusal_of

T = TypeVar("T")

TIMEOUT_S = 0.5
"""For one question; a store in the same network answers within a millisecond. The first takes some six round trips."""
FAILURES = 3
"""In a row, after which nobody waits for it."""
OPEN_S = 1.0
"""Between two looks for a store that is away."""
FIRST_LOOK_S = 0.05
"""After its first failure: most are over by then. Doubled up to `OPEN_S`."""
CONNECTIONS = 64
"""At once, to one server; who needs another one waits. A round trip takes some 0.2 ms, so this is plenty."""


class StoreRefuses(StoreAway):
    """It answered, and cannot do what it was asked: read-only, out of memory, no such right."""


class RedisLink:
    """Hands out the client while the store seems to be there."""

    def __init__(
        self,
        client: "Redis",
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """*timeout_s* is for one question, *clock* and *sleep* for the breaker. *client* is closed with the link."""
        self._client = client
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._failures = 0
        self._open_until = 0.0
        self._looks = False
        self._is_lost = asyncio.Event()
        self._message = ""
        """Why it did not answer when it was asked last."""

    @property
    def timeout_s(self) -> float:
        """Time that one question may take."""
        return self._timeout_s

    @property
    def is_away(self) -> bool:
        """Whether it did not answer when it was asked last."""
        return self._failures > 0

    async def ask(self, question: Callable[["Redis"], Awaitable[T]]) -> T:
        """What *question* comes to.

        Raises:
            StoreAway: it is not there, or did not answer in time. It may have carried out what it was told.
            StoreRefuses: it answered with an error; this does not count as being away.
        """
        if self._failures < FAILURES:
            return await self._attempt(question)
        if self._looks or self._clock() < self._open_until:
            raise StoreAway(self._message, retry_after_s=OPEN_S)
        self._looks = True
        try:
            return await self._attempt(question)
        finally:
            self._looks = False

    async def look(self) -> bool:
        """Whether it is there, found out at once unless somebody is about it."""
        with suppress(StoreAway):
            await self.ask(_ping)
        return not self.is_away

    async def run(self) -> None:
        """Look for the store while it is away, so that its return is noticed without traffic. Until cancelled."""
        while True:
            await self._is_lost.wait()
            pause_s = FIRST_LOOK_S
            while self.is_away:
                await self._sleep(pause_s)
                pause_s = min(2 * pause_s, OPEN_S)
                await self.look()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _attempt(self, question: Callable[["Redis"], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await question(self._client)
        except ResponseError as fault:
            self._found()  # it answered, so it is there
            raise StoreRefuses(f"The store cannot do it: {refusal_of(fault)}", retry_after_s=OPEN_S) from None
        except (RedisError, RedisClusterException, OSError, TimeoutError) as fault:
            self._lost()
            error = away(fault, self._timeout_s)
            self._message = error.message
            raise error from None
        self._found()
        return answer

    def _found(self) -> None:
        if self._failures:
            self._failures = 0
            self._is_lost.clear()

    def _lost(self) -> None:
        self._failures += 1
        self._is_lost.set()
        if self._failures >= FAILURES:
            self._open_until = self._clock() + OPEN_S


def away(fault: Exception, timeout_s: float = TIMEOUT_S) -> StoreAway:
    """Return the error for a store that did not answer because of *fault*, with the reason in plain words."""
    return StoreAway(f"The store does not answer: {reason_of(fault, timeout_s)}", retry_after_s=OPEN_S)


def redis_link(url: str, *, timeout_s: float = TIMEOUT_S) -> RedisLink:
    """A link to the store at *url*, which may be away. As `redis_client` otherwise."""
    return RedisLink(redis_client(url, timeout_s=timeout_s), timeout_s=timeout_s)


def redis_client(url: str, *, timeout_s: float = TIMEOUT_S) -> "Redis":
    """A client that waits as a link wants it to. It connects when it is asked something.

    ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://`` for TLS, or ``unix://PATH``. The query takes what
    redis-py takes, such as ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (paths), ``max_connections``; and
    ``cluster=true`` for a cluster, of which the host is any node.

    Raises:
        ValueError: the query holds what there is not. The message shows nothing of *url*.
    """
    options: dict[str, Any] = {
        # `ask` has its own. redis-py's is an `asyncio.wait_for`, which on Python 3.11 may swallow a cancellation.
        "socket_timeout": None,
        "socket_connect_timeout": 10 * timeout_s,  # what bounds a connecting is `ask`, and a closing this
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
    if url.startswith("rediss://"):  # as `gateway.tls` has it for others
        options["ssl_exclude_verify_flags"] = [ssl.VerifyFlags.VERIFY_X509_STRICT]
    try:
        single, is_cluster = _without_cluster(url)
        return _cluster(single, options) if is_cluster else _server(single, options)
    except (TypeError, ValueError, RedisError):
        raise ValueError("store.url has an option in its query that is not known, or has a wrong value") from None


def _server(url: str, options: dict[str, Any]) -> "Redis":
    # redis-py answers a full pool with an error; ours is to wait, within the time of the question.
    pool = BlockingConnectionPool.from_url(url, **{"max_connections": CONNECTIONS, "timeout": None, **options})
    pool.make_connection()  # type: ignore[no-untyped-call]  # says what it does not know; connects later
    return Redis.from_pool(pool)


def _cluster(url: str, options: dict[str, Any]) -> "Redis":
    # A moved slot is asked for again at its new place; a node that is away counts as the store being away.
    client = RedisCluster.from_url(url, **{"max_connections": CONNECTIONS, **options, "retry": Retry(NoBackoff(), 2)})
    return cast("Redis", client)  # it has the commands that we use


def _without_cluster(url: str) -> tuple[str, bool]:
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    values = query.pop("cluster", ["false"])
    if values not in (["true"], ["false"]):
        raise ValueError("store.url: cluster is true or false")
    return parts._replace(query=urlencode(query, doseq=True)).geturl(), values == ["true"]


async def _ping(client: "Redis") -> None:
    await client.ping()
