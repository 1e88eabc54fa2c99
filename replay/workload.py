"""Arrivals of requests."""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from replay.setting import Setting
from replay.trace import Recorded, Trace


class Workload(Protocol):
    def begin(self) -> Iterable[tuple[float, Recorded]]:
        """Requests that come whatever the answers, with the time of each."""
        ...

    def answered(self, request: Recorded, now: float) -> tuple[float, Recorded] | None:
        """Return the requests that follow the answer to *request*."""
        ...


class OpenLoop:
    """Requests come when they come, *speed* times as fast as recorded, or at random *poisson_per_s* times a second."""

    def __init__(
        self, requests: Sequence[Recorded], rng: random.Random, *, speed: float, poisson_per_s: float | None = None
    ) -> None:
        if poisson_per_s is None:
            times = _spread_in_bins([request.wait_s for request in requests], rng)
        else:
            times = itertools.accumulate(rng.expovariate(poisson_per_s) for _ in requests)
        self._arrivals = [(at / speed, request) for at, request in zip(times, requests, strict=True)]

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._arrivals

    def answered(self, request: Recorded, now: float) -> tuple[float, Recorded] | None:  # noqa: ARG002
        return None


def _spread_in_bins(times: Sequence[float], rng: random.Random) -> Iterator[float]:
    """Recorders round: the times of a bin, which is as wide as the smallest gap, are spread evenly inside it."""
    width = min((b - a for a, b in itertools.pairwise(times) if b > a), default=0.0)
    return iter(sorted(at + rng.random() * width for at in times))


class ClosedLoop:
    """Each of *users* goes through one session after the other, until none is left; they come during one longest pause.

    Sessions are taken in the order of the trace. The fewer are left, the quieter it gets.
    """

    def __init__(self, requests: Sequence[Recorded], rng: random.Random, *, users: int, speed: float) -> None:
        sessions = [list(session) for _, session in itertools.groupby(requests, key=lambda request: request.session)]
        longest_s = max(request.wait_s for request in requests)
        self._speed = speed
        self._first = [(rng.random() * longest_s / speed, session[0]) for session in sessions[:users]]
        self._waiting = iter(sessions[users:])
        self._following = {a.number: b for session in sessions for a, b in itertools.pairwise(session)}

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._first

    def answered(self, request: Recorded, now: float) -> tuple[float, Recorded] | None:
        following = self._following.get(request.number)
        if following is None:
            session = next(self._waiting, None)
            return (now, session[0]) if session else None
        return now + following.wait_s / self._speed, following


def workload_of(trace: Trace, setting: Setting, seed: int) -> Workload:
    rng = random.Random(seed)
    if trace.is_closed_loop:
        return ClosedLoop(trace.requests, rng, users=setting.users, speed=setting.speed)
    return OpenLoop(trace.requests, rng, speed=setting.speed, poisson_per_s=setting.poisson_per_s)
