"""Requests at fixed times, independent of the ones before: an open loop.

Rules:
    1. A latency counts from the time a request was due, not from when it could be sent: a stall that keeps the sender
       from sending is in the figures of all requests that were due meanwhile.
    2. The same seed gives the same times to every router.
"""

import asyncio
import ctypes
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.peers.line import Answer, Lines

CLOCK_MONOTONIC = 1  # linux/time.h; what time.monotonic reads
TFD_NONBLOCK, TFD_CLOEXEC, TFD_TIMER_ABSTIME = 0o4000, 0o2000000, 1  # linux/timerfd.h
LEAD_S = 0.05
"""Time between the call and the first request."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Wakes a task at a time, to some microseconds: the timers of asyncio and uvloop know milliseconds only. Linux."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._rang: asyncio.Future[None] | None = None
        self._loop.add_reader(self._descriptor, self._ring)

    async def wait(self, until_s: float) -> None:
        """Return at *until_s* of the monotonic clock; if that is over, after the others have had their turn."""
        if until_s <= time.monotonic():
            await asyncio.sleep(0)
            return
        seconds, nanoseconds = divmod(round(until_s * 1e9), 10**9)
        setting = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        self._rang = self._loop.create_future()
        self._libc.timerfd_settime(self._descriptor, TFD_TIMER_ABSTIME, ctypes.byref(setting), None)
        await self._rang

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _ring(self) -> None:
        os.read(self._descriptor, 8)
        if self._rang is not None and not self._rang.done():
            self._rang.set_result(None)


def poisson(per_s: float, seconds: float, rng: random.Random) -> list[float]:
    """Times of arrival, seconds after the beginning, of requests that come independently of each other."""
    times: list[float] = []
    at = rng.expovariate(per_s)
    while at < seconds:
        times.append(at)
        at += rng.expovariate(per_s)
    return times


async def drive(
    lines: Lines,
    request: Callable[[int], bytes],
    schedule: Sequence[float],
    *,
    streams: bool = False,
    timeout_s: float = 30.0,
) -> list[Answer]:
    """Send request number n at ``schedule[n]``; return the outcome of all, in their order, when all have ended."""
    alarm = Alarm()
    try:
        async with asyncio.TaskGroup() as tasks:
            began_s = time.monotonic() + LEAD_S
            asked = []
            for number, at_s in enumerate(schedule):
                due_s = began_s + at_s
                wire = request(number)
                await alarm.wait(due_s)
                asking = lines.ask(wire, due_s=due_s, streams=streams, timeout_s=timeout_s)
                asked.append(tasks.create_task(asking))
        return [task.result() for task in asked]
    finally:
        alarm.close()


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of whole answers, from when they were due."""

    p50_ms: float
    p99_ms: float
    highest_ms: float

    @classmethod
    def of(cls, times_s: Iterable[float]) -> "Latency":
        """Raises ``ValueError`` when there is not one."""
        ordered = sorted(times_s)
        if not ordered:
            raise ValueError("no answer to speak of")
        return cls(*(1e3 * _quantile(ordered, share) for share in (0.5, 0.99, 1.0)))


def to_last(answers: Iterable[Answer]) -> Latency:
    """Return the latency to the last byte, of whole answers."""
    return Latency.of(each.last_s - each.due_s for each in answers if each.is_whole and each.last_s is not None)


def to_first(answers: Iterable[Answer]) -> Latency:
    """Return the latency to the first byte of the body, of whole answers."""
    return Latency.of(each.first_s - each.due_s for each in answers if each.is_whole and each.first_s is not None)


def ends(answers: Iterable[Answer]) -> Counter[str]:
    """Return the number of answers by how they ended."""
    return Counter(each.end for each in answers)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that so large a share is not above."""
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]
