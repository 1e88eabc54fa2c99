"""Connection to Redis or Valkey. A timeout and a circuit breaker prevent a hanging store from blocking requests.

1. A query takes at most `store.timeout_s` (0.5 s), including the connection and the handshake.
2. A query is sent once. The caller decides whether to repeat it.
3. After `FAILURES` consecutive failures the breaker opens. Queries then fail at once, except one probe at a time.
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

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.reasons import reason_of, refusal_of

T = TypeVar("T")

TIMEOUT_S = 0.5
"""Seconds until a Redis query times out. A nearby store replies in 1 ms, and the first query takes six round trips."""
FAILURES = 3
"""Number of consecutive failed queries after which the circuit breaker opens."""
OPEN_S = 1.0
"""Maximum seconds between two probes of an unavailable store."""
FIRST_PROBE_S = 0.05
"""Seconds until the first probe of an unavailable store. The interval doubles after each probe, up to `OPEN_S`."""
CONNECTIONS = 64
"""Maximum number of connections to one Redis server. Further queries wait.

This is ample, because a round trip takes about 0.2 ms.
"""


class StoreRefuses(StoreUnavailable):
    """The store replied with an error, because it is read-only or out of memory or denies permission."""


class RedisLink:
    """Link that runs Redis queries with a timeout. While the circuit breaker is open, queries fail at once."""

    def __init__(
        self,
        client: "Redis",
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Create a link that uses *client*. The method `aclose` closes the client.

        Each query may take *timeout_s* seconds; the breaker uses *clock* and *sleep*.
        """
        self._client = client
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._failures = 0
        self._open_until = 0.0
        self._is_probing = False
        self._is_lost = asyncio.Event()
        self._message = ""
        """Error message of the Redis query that failed last."""

    @property
    def timeout_s(self) -> float:
        """Seconds until a Redis query times out."""
        return self._timeout_s

    @property
    def is_unavailable(self) -> bool:
        """Whether the last Redis query failed."""
        return self._failures > 0

    async def ask(self, query: Callable[["Redis"], Awaitable[T]]) -> T:
        """Run *query* with the Redis client and return its result.

        Raises:
            StoreUnavailable: if the store did not reply in time. It may still have executed the query.
            StoreRefuses: if the store replied with an error. The circuit breaker does not count it as a failure.
        """
        if self._failures < FAILURES:
            return await self._attempt(query)
        if self._is_probing or self._clock() < self._open_until:
            raise StoreUnavailable(self._message, retry_after_s=OPEN_S)
        self._is_probing = True
        try:
            return await self._attempt(query)
        finally:
            self._is_probing = False

    async def probe(self) -> bool:
        """Return whether the store is available. Send a ping first, unless another probe is running."""
        with suppress(StoreUnavailable):
            await self.ask(_ping)
        return not self.is_unavailable

    async def run(self) -> None:
        """Probe the store while it is unavailable, so that its recovery is detected without traffic.

        Runs until canceled.
        """
        while True:
            await self._is_lost.wait()
            pause_s = FIRST_PROBE_S
            while self.is_unavailable:
                await self._sleep(pause_s)
                pause_s = min(2 * pause_s, OPEN_S)
                await self.probe()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _attempt(self, query: Callable[["Redis"], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await query(self._client)
        except ResponseError as fault:
            self._note_success()  # it answered, so it is available
            raise StoreRefuses(f"The store refused the request: {refusal_of(fault)}", retry_after_s=OPEN_S) from None
        except (RedisError, RedisClusterException, OSError, TimeoutError) as fault:
            self._note_failure()
            error = store_unavailable(fault, self._timeout_s)
            self._message = error.message
            raise error from None
        self._note_success()
        return answer

    def _note_success(self) -> None:
        if self._failures:
            self._failures = 0
            self._is_lost.clear()

    def _note_failure(self) -> None:
        self._failures += 1
        self._is_lost.set()
        if self._failures >= FAILURES:
            self._open_until = self._clock() + OPEN_S


def store_unavailable(fault: Exception, timeout_s: float = TIMEOUT_S) -> StoreUnavailable:
    """Return an error that says that the store does not answer. *fault* determines the reason in it."""
    return StoreUnavailable(f"The store does not answer: {reason_of(fault, timeout_s)}", retry_after_s=OPEN_S)


def redis_link(url: str, *, timeout_s: float = TIMEOUT_S) -> RedisLink:
    """Return a link to the Redis server at *url*, which can be unavailable. `redis_client` describes the URL format."""
    return RedisLink(redis_client(url, timeout_s=timeout_s), timeout_s=timeout_s)


def redis_client(url: str, *, timeout_s: float = TIMEOUT_S) -> "Redis":
    """Return a Redis client for *url*. The client connects when it sends its first query.

    The format of *url* is ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://`` for TLS, or ``unix://PATH``.
    The query string accepts options of redis-py, such as ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (paths)
    and ``max_connections``. With ``cluster=true``, the host is any node of a Redis cluster.

    Raises:
        ValueError: if *url* has an unknown or invalid option. The message does not repeat any part of *url*.
    """
    options: dict[str, Any] = {
        # `ask` has its own. That of redis-py is an `asyncio.wait_for`, which on Python 3.11 may swallow a cancellation.
        "socket_timeout": None,
        "socket_connect_timeout": 10 * timeout_s,  # for closing; connecting is bounded by `ask`
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
    if url.startswith("rediss://"):  # same as `gateway.backends.upstream.tls`
        options["ssl_exclude_verify_flags"] = [ssl.VerifyFlags.VERIFY_X509_STRICT]
    try:
        single, is_cluster = _without_cluster(url)
        return _cluster(single, options) if is_cluster else _server(single, options)
    except (TypeError, ValueError, RedisError):
        raise ValueError("store.url has an unknown option or an invalid value. Correct its query string") from None


def _server(url: str, options: dict[str, Any]) -> "Redis":
    # With redis-py's default pool, a full pool is an error; here a query waits, within its timeout.
    pool = BlockingConnectionPool.from_url(url, **{"max_connections": CONNECTIONS, "timeout": None, **options})
    pool.make_connection()  # type: ignore[no-untyped-call]  # raises for unknown options; connects later
    return Redis.from_pool(pool)


def _cluster(url: str, options: dict[str, Any]) -> "Redis":
    # A moved slot is queried again at its new node; an unavailable node counts as an unavailable store.
    client = RedisCluster.from_url(url, **{"max_connections": CONNECTIONS, **options, "retry": Retry(NoBackoff(), 2)})
    return cast("Redis", client)  # it has the same commands


def _without_cluster(url: str) -> tuple[str, bool]:
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    values = query.pop("cluster", ["false"])
    if values not in (["true"], ["false"]):
        raise ValueError("store.url: cluster must be true or false")
    return parts._replace(query=urlencode(query, doseq=True)).geturl(), values == ["true"]


async def _ping(client: "Redis") -> None:
    await client.ping()
