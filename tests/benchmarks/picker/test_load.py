import asyncio
import random
from collections.abc import Callable
from typing import cast

from benchmarks.picker import wire
from benchmarks.picker.bare import chosen
from benchmarks.picker.exchange import Answer, Request
from benchmarks.picker.http2 import Connection
from benchmarks.picker.load import Load


class Calls:
    """Connection to a server that fails the first *failing* requests."""

    def __init__(self, *, failing: int) -> None:
        self._failing = failing
        self.waiting: list[Callable[[bytes], None]] = []

    def call(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> "Calls":
        self._on_message, self._on_end = on_message, on_end
        return self

    def send(self, message: bytes) -> None:
        kind, content = wire.kind_and_content(message)
        if kind != wire.REQUEST_BODY:
            return
        assert (b"x", True) == wire.piece_in(content)
        self.waiting.append(self._on_message)

    def answer_all(self) -> None:
        """Answer the requests that wait."""
        waiting, self.waiting = self.waiting, []
        for take in waiting:
            if self._failing:
                self._failing -= 1
                take(wire.field(wire.IMMEDIATE, b""))
                continue
            take(chosen(b"10.0.0.1:8000"))
            take(wire.streamed_answer(wire.BODY_OF_REQUEST, b"x", is_last=True))
            take(wire.streamed_answer(wire.BODY_OF_ANSWER, b"{}", is_last=True))

    def end(self) -> None:
        return


async def test_each_request_that_ends_is_followed_by_another() -> None:
    calls = Calls(failing=1)
    load = Load(cast("Connection", calls), [Request.of(b"x")], Answer.of(b"{}"))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(load.in_flight(2, seconds=3600))
        while not calls.waiting:
            await asyncio.sleep(0)
        for _ in range(3):
            assert 2 == len(calls.waiting)
            calls.answer_all()
        running.cancel()

    assert (5, 1) == (len(load.found.times), load.found.failed)


async def test_a_rate_does_not_wait_for_answers() -> None:
    calls = Calls(failing=0)
    load = Load(cast("Connection", calls), [Request.of(b"x")], Answer.of(b"{}"))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(load.at_rate(1e6, seconds=3600, rng=random.Random(1)))
        while len(calls.waiting) < 3:
            await asyncio.sleep(0)
        running.cancel()

    assert not load.found.times


async def test_a_rate_ends_with_its_last_answer_although_nothing_was_in_flight_before() -> None:
    calls = Calls(failing=0)
    load = Load(cast("Connection", calls), [Request.of(b"x")], Answer.of(b"{}"))
    for _ in range(2):
        running = asyncio.create_task(load.at_rate(0.001, seconds=1e-6, rng=random.Random(1)))
        while not calls.waiting:
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not running.done()
        calls.answer_all()
        await running

    assert not load.found.failed
