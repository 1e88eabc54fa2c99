import asyncio
import time
from collections.abc import Callable

import httpx
import pytest

from benchmarks.timed_worker import SENT_AT, Wheel, serving


def counting(calls: list[str], name: str, *, times: int) -> Callable[[], bool]:
    """Notes each of its calls, and is done at the last of *times*."""

    def write() -> bool:
        calls.append(name)
        return calls.count(name) == times

    return write


def test_each_stream_has_one_turn_per_interval_until_it_is_done() -> None:
    wheel = Wheel(turns=5)
    calls: list[str] = []
    for name, times in (("a", 1), ("b", 2), ("c", 3)):
        wheel.enter(counting(calls, name, times=times))

    intervals = []
    for interval in range(4):
        calls_before = len(calls)
        for place in range(5):
            wheel.turn(interval * 5 + place)
        intervals.append(sorted(calls[calls_before:]))

    assert [["a", "b", "c"], ["b", "c"], ["c"], []] == intervals


def test_streams_that_begin_together_have_turns_of_their_own() -> None:
    wheel = Wheel(turns=500)
    calls: list[str] = []
    for name in map(str, range(500)):
        wheel.enter(counting(calls, name, times=1))

    seen = []
    for place in range(500):
        wheel.turn(place)
        seen.append(len(calls))

    assert [*range(1, 501)] == seen


async def test_events_say_when_they_left() -> None:
    """In nanoseconds of the clock that all processes share; in order, and never of the future."""
    began = time.perf_counter_ns()
    async with serving(events=3, interval_s=0.02) as url, httpx.AsyncClient() as client:
        answer = await client.post(f"{url}/v1/chat/completions", content=b'{"model":"tiny","stream":true}')

    sent = [int(event[1]) for event in SENT_AT(answer.content)]
    assert 3 == len(sent)
    assert began < sent[0] < sent[1] < sent[2] < time.perf_counter_ns()
    assert answer.content.endswith(b"data: [DONE]\n\n")


async def test_all_else_is_answered_as_the_stub_worker_does() -> None:
    """A gateway asks for health and models first. A long body comes in pieces."""
    async with serving(events=1) as url, httpx.AsyncClient() as client:
        answers = [
            await client.get(f"{url}/v1/models"),
            await client.get(f"{url}/nowhere"),
            await client.post(f"{url}/v1/chat/completions", content=b'{"model":"tiny","x":"%b"}' % (b"x" * 500_000)),
        ]

    assert [200, 404, 200] == [answer.status_code for answer in answers]
    assert ["list", "chat.completion"] == [answers[0].json()["object"], answers[2].json()["object"]]


async def test_a_reader_that_goes_ends_its_stream_only() -> None:
    """The others go on to their end."""
    async with serving(events=5, interval_s=0.02) as url, httpx.AsyncClient() as client:
        body = b'{"model":"tiny","stream":true}'
        async with client.stream("POST", f"{url}/v1/chat/completions", content=body) as gone:
            await anext(gone.aiter_bytes())
        answer = await client.post(f"{url}/v1/chat/completions", content=body)

    assert 5 == len([*SENT_AT(answer.content)])


@pytest.mark.parametrize("late_s", [0.0, 0.05])
async def test_a_late_turn_is_made_up_for(late_s: float) -> None:
    """However long something held the loop, every stream has all its events."""
    wheel = Wheel(turns=2)
    calls: list[str] = []
    all_called = asyncio.Event()

    def write() -> bool:
        calls.append("x")
        if len(calls) == 5:
            all_called.set()
        return len(calls) == 5

    wheel.enter(write)
    async with asyncio.TaskGroup() as tasks:
        turning = tasks.create_task(wheel.run(turn_s=0.005))
        await asyncio.sleep(0)
        time.sleep(late_s)  # noqa: ASYNC251  # that is the point
        async with asyncio.timeout(60):
            await all_called.wait()
        turning.cancel()

    assert 5 == len(calls)
