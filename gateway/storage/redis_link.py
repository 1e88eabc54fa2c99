"""The connection to Redis or Valkey. A timeout and a circuit breaker keep a store that hangs from blocking requests.

1. A query takes at most `store.timeout_s` (0.5 s), including the connection and the handshake.
2. A query is sent once. The caller decides whether to repeat it.
3. After `FAILURES` failures in a row the breaker is open: queries fail at once, except one at a time that probes.
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
"""Timeout of one query; a store in the same network answers in a millisecond, the first query takes six round trips."""
FAILURES = 3
"""Failures in a row that open the breaker."""
OPEN_S = 1.0
"""Longest time between two probes of an unavailable store."""
FIRST_PROBE_S = 0.05
"""Time to the first probe, after which most failures are over; doubled up to `OPEN_S`."""
CONNECTIONS = 64
"""Connections to one server; more queries wait. A round trip takes about 0.2 ms, so this is plenty."""


class StoreRefuses(StoreUnavailable):
    """The store answered with an error: read-only, out of memory, no permission."""


class RedisLink:
    """Runs queries while the store seems to be available."""

    def __init__(
        self,
        client: "Redis",
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """*timeout_s* is for one query, *clock* and *sleep* are for the breaker. *client* is closed with the link."""
        self._client = client
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._failures = 0
        self._open_until = 0.0
        self._is_probing = False
        self._is_lost = asyncio.Event()
        self._message = ""
        """The reason of the last failure."""

    @property
    def timeout_s(self) -> float:
        """Timeout of one query."""
        return self._timeout_s

    @property
    def is_unavailable(self) -> bool:
        """Whether the last query failed."""
        return self._failures > 0

    async def ask(self, query: Callable[["Redis"], Awaitable[T]]) -> T:
        """Return the result of *query*.

        Raises:
            StoreUnavailable: the store did not answer in time. It may have executed the query.
            StoreRefuses: the store answered with an error; this does not count as a failure.
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
        """Return whether the store is available; ask it now, unless another probe is running."""
        with suppress(StoreUnavailable):
            await self.ask(_ping)
        return not self.is_unavailable

    async def run(self) -> None:
        """Probe the store while it is unavailable, to notice its return without traffic. Runs until cancelled."""
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
    """Return the error for a store that did not answer because of *fault*, with the reason."""
    return StoreUnavailable(f"The store does not answer: {reason_of(fault, timeout_s)}", retry_after_s=OPEN_S)


def redis_link(url: str, *, timeout_s: float = TIMEOUT_S) -> RedisLink:
    """Return a link to the store at *url*, see `redis_client`. The store may be unavailable."""
    return RedisLink(redis_client(url, timeout_s=timeout_s), timeout_s=timeout_s)


def redis_client(url: str, *, timeout_s: float = TIMEOUT_S) -> "Redis":
    """Return a client for a link. It connects at its first query.

    *url* is ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://`` for TLS, or ``unix://PATH``. Its query string
    has options of redis-py, such as ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (paths), ``max_connections``,
    and ``cluster=true`` for a cluster, where the host is any node.

    Raises:
        ValueError: an option is unknown or wrong. The message contains nothing of *url*.
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
