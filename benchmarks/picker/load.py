"""Load for endpoint pickers: a constant number of requests in flight, or a constant rate."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.picker.exchange import PATH, Answer, Exchange, Request, Times
from benchmarks.picker.http2 import Connection, connect

PATIENCE_S = 60.0
"""Seconds that the last requests have to end."""


@dataclass(slots=True)
class Found:
    """Requests of one measurement."""

    times: list[Times] = field(default_factory=list)
    failed: int = 0
    took_s: float = 0.0

    @property
    def per_s(self) -> float:
        """Requests per second that ended while the load lasted."""
        return len(self.times) / self.took_s


class Load:
    """Requests to the picker behind *connection*, with *requests* in turn."""

    def __init__(self, connection: Connection, requests: Sequence[Request], answer: Answer) -> None:
        self._connection = connection
        self._requests = requests
        self._answer = answer
        self._sent = 0
        self._in_flight = 0
        self._is_over = False
        self._idle = asyncio.Event()
        self.found = Found()

    async def in_flight(self, count: int, *, seconds: float) -> Found:
        """Keep *count* requests in flight for *seconds*."""
        began = time.perf_counter()
        for _ in range(count):
            self._send(follows=True)
        await asyncio.sleep(seconds)
        return await self._end(began)

    async def at_rate(self, per_s: float, *, seconds: float, rng: random.Random) -> Found:
        """Send *per_s* requests per second at random times for *seconds*, however many are in flight."""
        began = due = time.perf_counter()
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._send(follows=False)
            due += rng.expovariate(per_s)
        return await self._end(began)

    async def _end(self, began: float) -> Found:
        """Wait for the last requests, of which only failures count."""
        self.found.took_s = time.perf_counter() - began
        self._is_over = True
        if self._in_flight:
            self._idle.clear()  # at a constant rate it was set whenever nothing was in flight
            await asyncio.wait_for(self._idle.wait(), PATIENCE_S)
        return self.found

    def _send(self, *, follows: bool) -> None:
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        self._in_flight += 1

        def done(times: Times | None) -> None:
            self._in_flight -= 1
            if times is None:
                self.found.failed += 1
            elif not self._is_over:
                self.found.times.append(times)
            if follows and not self._is_over:
                self._send(follows=True)
            elif not self._in_flight:
                self._idle.set()

        Exchange(self._connection, request, self._answer, done)


async def with_in_flight(
    address: str, requests: Sequence[Request], answer: Answer, count: int, *, seconds: float
) -> Found:
    """Keep *count* requests in flight at the picker with the gRPC *address*."""
    host, _, port = address.rpartition(":")
    connection = await connect(host, int(port), PATH)
    try:
        return await Load(connection, requests, answer).in_flight(count, seconds=seconds)
    finally:
        connection.close()


async def with_rate(
    address: str, requests: Sequence[Request], answer: Answer, per_s: float, *, seconds: float, seed: int
) -> Found:
    """Send *per_s* requests per second to the picker with the gRPC *address*."""
    host, _, port = address.rpartition(":")
    connection = await connect(host, int(port), PATH)
    try:
        return await Load(connection, requests, answer).at_rate(per_s, seconds=seconds, rng=random.Random(seed))
    finally:
        connection.close()
