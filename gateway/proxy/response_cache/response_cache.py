"""Answers that are sent again, and identical requests in flight that share one answer.

1. The first of several identical requests leads: it is sent to a worker. The others wait for its answer.
2. If the leader leaves, the next request leads. If the leader fails, one more request leads, and if that fails too, all
   others are sent on their own.
3. If the answer of the leader cannot be kept, all others are sent on their own.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Literal

from gateway.protocol.usage import Usage
from gateway.proxy.response_cache.answer_store import AnswerStore, KeptAnswer, is_complete

Result = Literal["hit", "shared", "miss", "uncacheable"]
"""Result of a request that may use the cache: a kept answer, the answer of an identical request in flight, neither, or
a request whose answer is never kept.
"""

MAX_FAILURES: Final = 2
"""Number of leaders that can fail before all waiting requests are sent on their own."""


class _Flight:
    """Identical requests in flight."""

    __slots__ = ("failures", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[Claim]] = deque()
        self.failures = 0


class Claim:
    """Right of one request to send a kept answer, or else to compute an answer that can be kept."""

    __slots__ = ("_cache", "_flight", "_is_open", "_key", "_lane", "_pieces", "_size", "age_s", "answer", "result")

    def __init__(
        self, cache: "ResponseCache", key: bytes, lane: int, flight: _Flight | None, answer: KeptAnswer | None = None
    ) -> None:
        self._cache = cache
        self._key = key
        self._lane = lane
        self._flight = flight
        self._is_open = answer is None
        self._pieces: list[bytes] | None = None
        self._size = 0
        self.answer = answer
        """Kept answer, or None if the request has to be sent to a worker."""
        self.age_s = 0
        """Age of the kept answer in seconds."""
        self.result: Result = "miss"

    def publish(self, path: str, body: bytes, media: bytes, usage: Usage | None) -> None:
        """Keep the answer of the request to *path* if it is complete, and pass it to the requests that wait for it."""
        if not self._is_open:
            return
        if is_complete(path, body):
            self._end()
            self._cache.kept(self._key, self._lane, self._flight, KeptAnswer(body, media, usage, self._cache.clock()))
        else:
            self.refuse()

    def refuse(self) -> None:
        """Record that the answer cannot be kept, so that waiting requests are sent on their own."""
        if self._is_open:
            self._end()
            self._cache.given_up(self._key, self._lane, self._flight)

    def close(self, *, has_left: bool) -> None:
        """Record that the request ended, if no answer was published: its caller *has_left*, or it failed."""
        if self._is_open:
            self._end()
            self._cache.failed(self._key, self._lane, self._flight, has_left=has_left)

    def begin_recording(self) -> None:
        """Record the pieces of a stream from now on."""
        self._pieces = []

    def record(self, data: bytes) -> None:
        """Record *data*, the next piece of the stream. A stream that becomes too large is not recorded further."""
        if self._pieces is None:
            return
        if self._cache.store.may_record(self._size, len(data)):
            self._pieces.append(data)
            self._size += len(data)
        else:
            self._forget()

    def recorded(self) -> bytes | None:
        """Return the whole recorded stream, or None if nothing was recorded or the stream was too large."""
        pieces = self._pieces
        return b"".join(pieces) if pieces else None

    def _forget(self) -> None:
        self._cache.store.recorded(self._size)
        self._pieces, self._size = None, 0

    def _end(self) -> None:
        self._is_open = False
        self._forget()


class ResponseCache:
    """Kept answers of all teams and models, and identical requests in flight."""

    def __init__(
        self,
        store: AnswerStore,
        *,
        secret: bytes,
        charge_share: float = 0.0,
        clock: Callable[[], float],
    ) -> None:
        """Create the cache. *secret* is the key of the HMAC, and *charge_share* the share of its usage for which a
        kept answer is charged. *clock* returns monotonic seconds.
        """
        self.store = store
        self.charge_share = charge_share
        self.clock = clock
        self.secret = secret
        self._flights: dict[tuple[bytes, int], _Flight] = {}
        self.results: Counter[tuple[str, Result]] = Counter()
        """Number of requests by model and result."""

    @property
    def flights(self) -> int:
        """Number of different requests in flight whose answers others can share."""
        return len(self._flights)

    def claim(self, key: bytes, lane: int, *, reads: bool = True, shares: bool = True) -> Claim | None:
        """Return the claim of a request with *key*, or None if the request has to wait with `turn`.

        If *reads* is false, the request is always sent, and its answer replaces the kept one. If *shares* is false, the
        request neither waits for others nor lets others wait. Requests in different lanes, such as priorities, do not
        wait for each other.
        """
        if not reads:
            return Claim(self, key, lane, None)
        answer = self.store.find(key, self.clock())
        if answer is not None:
            claim = Claim(self, key, lane, None, answer)
            claim.age_s, claim.result = int(self.clock() - answer.kept_at), "hit"
            return claim
        if not shares:
            return Claim(self, key, lane, None)
        if (key, lane) in self._flights:
            return None
        flight = self._flights[key, lane] = _Flight()
        return Claim(self, key, lane, flight)

    async def turn(self, key: bytes, lane: int) -> Claim:
        """Wait for the identical request in flight. Return a claim with its answer, or one without an answer if this
        request has to be sent.
        """
        flight = self._flights[key, lane]
        future: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()
        flight.waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().close(has_left=True)  # the caller left in the moment in which it became the leader
            raise

    def kept(self, key: bytes, lane: int, flight: _Flight | None, answer: KeptAnswer) -> None:
        """Keep *answer*, and pass it to all requests that wait in *flight*."""
        self.store.keep(key, answer)
        for future in self._ended(key, lane, flight):
            claim = Claim(self, key, lane, None, answer)
            claim.result = "shared"
            future.set_result(claim)

    def given_up(self, key: bytes, lane: int, flight: _Flight | None) -> None:
        """Let all requests that wait in *flight* be sent on their own."""
        for future in self._ended(key, lane, flight):
            future.set_result(Claim(self, key, lane, None))

    def failed(self, key: bytes, lane: int, flight: _Flight | None, *, has_left: bool) -> None:
        """Let the next request that waits in *flight* lead, unless too many leaders have failed."""
        if flight is None:
            return
        flight.failures += not has_left
        if flight.failures >= MAX_FAILURES:
            self.given_up(key, lane, flight)
            return
        while flight.waiting:
            future = flight.waiting.popleft()
            if not future.done():
                future.set_result(Claim(self, key, lane, flight))
                return
        self._flights.pop((key, lane), None)

    def _ended(self, key: bytes, lane: int, flight: _Flight | None) -> Iterable[asyncio.Future[Claim]]:
        """End *flight*, and return the requests that still wait in it."""
        if flight is None:
            return ()
        self._flights.pop((key, lane), None)
        return [future for future in flight.waiting if not future.done()]
