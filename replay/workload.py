"""Arrivals of requests."""

import dataclasses
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from replay.setting import Setting
from replay.trace import Recorded, Trace

Arrivals = Sequence[tuple[float, Recorded]]
"""Requests, each with the time at which it arrives."""


class Workload(Protocol):
    def begin(self) -> Iterable[tuple[float, Recorded]]:
        """Requests that come whatever the answers, with the time of each."""
        ...

    def answered(self, request: Recorded, now: float) -> Arrivals:
        """Return the requests that follow the answer to *request*, none if nothing waits for it."""
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

    def answered(self, request: Recorded, now: float) -> Arrivals:  # noqa: ARG002
        return ()


def _spread_in_bins(times: Sequence[float], rng: random.Random) -> Iterator[float]:
    """Recorders round: the times of a bin, which is as wide as the smallest gap, are spread evenly inside it."""
    width = min((b - a for a, b in itertools.pairwise(times) if b > a), default=0.0)
    return iter(sorted(at + rng.random() * width for at in times))


class ClosedLoop:
    """Each of *users* goes through one session after the other, until none is left; they come during one longest pause.

    Sessions are taken in the order of the trace. The fewer are left, the quieter it gets. The sub-agents of a session
    begin together, with the answer that spawns them, and the session goes on when the last of them has ended.
    """

    def __init__(self, requests: Sequence[Recorded], rng: random.Random, *, users: int, speed: float) -> None:
        by_name: dict[str | None, list[Recorded]] = {}
        for request in requests:
            by_name.setdefault(request.session, []).append(request)
        sessions = [session for session in by_name.values() if session[0].group is None]
        longest_s = max(request.wait_s for request in requests)
        self._speed = speed
        self._first = [(rng.random() * longest_s / speed, session[0]) for session in sessions[:users]]
        self._waiting = iter(sessions[users:])
        self._following = {a.number: b for session in by_name.values() for a, b in itertools.pairwise(session)}
        self._groups: dict[str, list[Recorded]] = {}
        """First requests of the sub-agents of each group."""
        for session in by_name.values():
            if session[0].group is not None:
                self._groups.setdefault(session[0].group, []).append(session[0])
        self._parents: dict[str, Recorded] = {}
        """Requests that wait for the sub-agents of a group, by group."""
        self._running: dict[str, int] = {}
        """Number of sub-agents of each group that have not ended."""

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._first

    def answered(self, request: Recorded, now: float) -> Arrivals:
        following = self._following.get(request.number)
        if request.spawns is not None:
            return self._spawn(request.spawns, following, now)
        if following is not None:
            return [self._after(now, following)]
        if request.group is not None:
            return self._joined(request.group, now)
        return self._next_session(now)

    def _spawn(self, group: str, parent: Recorded | None, now: float) -> Arrivals:
        agents = self._groups[group]
        self._running[group] = len(agents)
        if parent is not None:
            self._parents[group] = parent
        return [self._after(now, agent) for agent in agents]

    def _joined(self, group: str, now: float) -> Arrivals:
        """Return what follows the end of one sub-agent of *group*."""
        self._running[group] -= 1
        if self._running[group]:
            return ()
        parent = self._parents.pop(group, None)
        return self._next_session(now) if parent is None else [self._after(now, parent)]

    def _next_session(self, now: float) -> Arrivals:
        session = next(self._waiting, None)
        return [(now, session[0])] if session else ()

    def _after(self, now: float, request: Recorded) -> tuple[float, Recorded]:
        return now + request.wait_s / self._speed, request


@dataclass(frozen=True, slots=True)
class SessionStart:
    """One session: when it begins, and its requests, each some time after the answer before."""

    begins_s: float
    requests: Sequence[Recorded]

    def at(self, load: float) -> "SessionStart":
        """Return the same session, *load* times as fast."""
        requests = [dataclasses.replace(each, wait_s=each.wait_s / load) for each in self.requests]
        return SessionStart(self.begins_s / load, requests)


class OpenSessions:
    """A `Workload`: sessions come at times of their own, whether others are still being answered or not."""

    def __init__(self, sessions: Sequence[SessionStart]) -> None:
        self._first = [(session.begins_s, session.requests[0]) for session in sessions]
        self._following = {a.number: b for session in sessions for a, b in itertools.pairwise(session.requests)}

    def begin(self) -> Iterable[tuple[float, Recorded]]:
        return self._first

    def answered(self, request: Recorded, now: float) -> Arrivals:
        following = self._following.get(request.number)
        return () if following is None else [(now + following.wait_s, following)]


def workload_of(trace: Trace, setting: Setting, seed: int) -> Workload:
    rng = random.Random(seed)
    if trace.is_closed_loop:
        return ClosedLoop(trace.requests, rng, users=setting.users, speed=setting.speed)
    return OpenLoop(trace.requests, rng, speed=setting.speed, poisson_per_s=setting.poisson_per_s)
