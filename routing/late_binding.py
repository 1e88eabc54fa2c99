"""Holds requests back until a worker is about to be free, and then sends the one that it gains most by.

What is sent early waits in an engine's queue, in the order in which it came, for a worker that was right when it was
sent. Held here it can still go elsewhere, and what is short need not wait behind what is long.

1. The order of the waiting: seconds of prefill on the worker that holds most of the prompt, over the time waited plus a
   head start. So what is short or warm goes first, and what has waited long moves up, but slowly: where caches are
   contended, cold prompts that overtake warm ones cost them their caches, and they come back cold. That is how queues
   that age faster collapse under agents with more context than the fleet has room for (benchmarks/results/replay.md).
2. The home of each, in that order: the worker on which it would cost least, behind all that stand before it. So a hot
   prefix spreads as soon as its queue costs more than computing it a second time.
3. It is released if its home is about to be free, and no worker idles that is the home of anybody.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.dispatcher import Dispatch, Immediate
from routing.explanation import Explanation
from routing.fleet import Fleet
from routing.reason import reason_of
from routing.request import Request
from routing.sessions import Sessions
from routing.strategies.by_name import StrategiesByName
from routing.strategies.prefix_aware import DECODE_PRICE

Seconds = npt.NDArray[np.float64]

LATE = frozenset({"kv_aware"})
"""Strategies whose requests are held. The others rank by more than cost, or mean what they say."""
HEARTBEAT_S = 0.5
"""Between two looks at the queue where nothing says that anything has changed."""
ROUNDING_S = 1e-9
"""When a backlog was to have reached the depth it may be a hair above."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is waited for. The defaults did best when real traces were replayed; none of them is critical."""

    depth_s: float = 0.05
    """A worker with no more backlog is about to be free: what is sent now begins when it is."""
    max_wait_s: float = 120.0
    """A session's first request that has waited so long comes before all others; so does whatever would be late for
    when it is wanted.

    Not so the requests that follow: those that wait so long are cold, and where many are they would cost the warm ones
    their caches, until the queue is one of cold requests in the order in which they came. Their wait moves them up.
    """
    head_start_s: float = 30.0
    """How much waiting counts little beside what a prompt costs."""
    price: float = 3.0
    """Seconds of waiting that a second of prefill is worth when a home is sought: it delays those who come after."""
    most_waiting: int = 4096
    """With as many waiting, more are released at once."""
    fresh_s: float = 0.5
    """A prompt is looked up again in the caches when what was found is older, and always before its release."""
    most_lookups: int = 32
    """Of them at one look at the queue; the others keep what was found."""


class _Waiting:
    """A request in the queue; seconds of prefill by the place of the worker in the fleet."""

    __slots__ = ("begins_session", "least_s", "order", "prefill_s", "request", "seen_at", "since", "wanted_in_s")

    def __init__(self, request: Request, since: float, *, begins_session: bool) -> None:
        self.request = request
        self.begins_session = begins_session
        self.since = since
        self.seen_at = float("-inf")
        self.order: list[Candidate] = []
        self.prefill_s: Seconds = np.empty(0)
        self.least_s = 0.0
        self.wanted_in_s = float("inf") if request.wanted_in_s is None else request.wanted_in_s


class LateBinding:
    """A `Dispatcher`. Requests that are pinned, or that ask for a strategy that is not in `LATE`, are sent at once.

    One look at the queue costs some microseconds for each who waits, and a lookup of the index for those who are sent.
    """

    def __init__(
        self,
        fleet: Fleet,
        strategies: StrategiesByName,
        rng: random.Random,
        patience: Patience = Patience(),
    ) -> None:
        self._fleet = fleet
        self._strategies = strategies
        self._immediate = Immediate(fleet, strategies)
        self._patience = patience
        self._rng = np.random.default_rng(rng.getrandbits(64))
        self._sessions = Sessions()
        self._waiting: dict[int, _Waiting] = {}
        self._workers: list[WorkerId] = []
        self._places: dict[WorkerId, int] = {}

    @property
    def waiting(self) -> int:
        """Requests that are held."""
        return len(self._waiting)

    def oldest_wait_s(self, now: float) -> float:
        """How long the one has waited that waits longest."""
        return max((now - each.since for each in self._waiting.values()), default=0.0)

    def submit(self, request: Request, now: float) -> None:
        name = request.strategy or self._strategies.default
        if name not in LATE or request.pinned is not None or len(self._waiting) >= self._patience.most_waiting:
            self._immediate.submit(request, now)
        else:
            begins_session = self._sessions.begins(request)
            self._waiting[id(request)] = _Waiting(request, now, begins_session=begins_session)

    def poll(self, now: float) -> list[Dispatch]:
        released = self._immediate.poll(now)
        if self._waiting:
            released += self._release(now)
        return released

    def next_poll_at(self, now: float) -> float | None:
        if not self._waiting:
            return None
        depth_s = self._patience.depth_s
        times = [worker.backlog_falls_to(depth_s, now) for worker in self._fleet if worker.is_ready]
        return min([at for at in times if at is not None and at > now], default=now + HEARTBEAT_S)

    def cancel(self, request: Request) -> None:
        self._waiting.pop(id(request), None)
        self._immediate.cancel(request)

    def explain(self, request: Request, now: float) -> Explanation:
        return self._immediate.explain(request, now)

    def hand_over(self) -> list[tuple[Request, float]]:
        """Whoever waits and since when, longest first; nobody waits here any more."""
        held, self._waiting = self._waiting, {}
        return [(each.request, each.since) for each in held.values()]

    # ---- a look at the queue

    def _release(self, now: float) -> Iterator[Dispatch]:
        backlog_s, slower_s = self._readings(now)
        if not np.isfinite(backlog_s).any():
            yield from self._release_all(now)
            return
        patience, lookups = self._patience, self._patience.most_lookups
        for each in self._in_order(now):
            if backlog_s.min() > patience.depth_s + ROUNDING_S:
                return
            if now - each.seen_at > patience.fresh_s and (lookups > 0 or not each.order):
                self._look_up(each, now)
                lookups -= 1
            home = self._home(each, backlog_s, slower_s)
            if each.seen_at < now and self._is_free(home, each, backlog_s):
                self._look_up(each, now)
                home = self._home(each, backlog_s, slower_s)
            if self._is_free(home, each, backlog_s):
                ranked = self._ranked(each.request, each.order)
                # Where what the strategy would choose is free as well, its choice goes: of equals, one of its own.
                first = self._places[ranked[0].worker]
                home = first if self._is_free(first, each, backlog_s) else home
                yield self._released(each, ranked, self._workers[home], now)
            backlog_s[home] += each.prefill_s[home]

    def _is_free(self, place: int, each: _Waiting, backlog_s: Seconds) -> bool:
        """Whether what is sent there is computed as soon as that is possible at all."""
        return bool(backlog_s[place] <= self._patience.depth_s + ROUNDING_S and np.isfinite(each.prefill_s[place]))

    def _ranked(self, request: Request, candidates: list[Candidate]) -> list[Candidate]:
        return self._strategies.named(request.strategy or self._strategies.default).rank(request, candidates)

    def _released(self, each: _Waiting, ranked: list[Candidate], home: WorkerId, now: float) -> Dispatch:
        """Sent to its home; the others are tried after it as the strategy ranks them."""
        request = each.request
        del self._waiting[id(request)]
        name = request.strategy or self._strategies.default
        order = [c for c in ranked if c.worker == home] + [c for c in ranked if c.worker != home]
        return Dispatch(request, order, self._fleet.book(request, order[0], now), reason_of(order), name)

    def _release_all(self, now: float) -> Iterator[Dispatch]:
        """Nobody can be waited for."""
        for request, _ in self.hand_over():
            self._immediate.submit(request, now)
        yield from self._immediate.poll(now)

    def _readings(self, now: float) -> tuple[Seconds, Seconds]:
        """By place: seconds of backlog, without end where nothing can be sent; seconds each output token is slower."""
        workers = list(self._fleet)
        if [worker.id for worker in workers] != self._workers:
            self._workers = [worker.id for worker in workers]
            self._places = {worker: place for place, worker in enumerate(self._workers)}
            for each in self._waiting.values():
                each.seen_at, each.order = float("-inf"), []
        backlog_s, slower_s = np.full(len(workers), np.inf), np.zeros(len(workers))
        for place, worker in enumerate(workers):
            if worker.is_ready:
                load = worker.load(now)
                backlog_s[place] = load.backlog_s
                slower_s[place] = load.decode_s_per_token * load.in_flight * DECODE_PRICE
        return backlog_s, slower_s

    def _in_order(self, now: float) -> list[_Waiting]:
        patience = self._patience

        def rank(each: _Waiting) -> tuple[bool, float]:
            waited_s = now - each.since
            is_overdue = each.begins_session and waited_s >= patience.max_wait_s
            if is_overdue or waited_s + each.least_s >= each.wanted_in_s:
                return False, each.since
            return True, each.least_s / (waited_s + patience.head_start_s)

        for each in self._waiting.values():
            if not each.order:
                self._look_up(each, now)
        return sorted(self._waiting.values(), key=rank)

    def _look_up(self, each: _Waiting, now: float) -> None:
        """What the prompt costs on every worker, by what their caches hold now."""
        request = each.request
        prefill_s = np.full(len(self._workers), np.inf)
        each.order = self._fleet.candidates(request, now)
        admitting = [c for c in each.order if c.admits] or each.order
        for candidate in admitting:
            load = candidate.load
            uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
            seconds = load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token + candidate.load_s
            prefill_s[self._places[candidate.worker]] = seconds
        each.prefill_s = prefill_s
        each.least_s = float(prefill_s.min()) if admitting else 0.0
        each.seen_at = now

    def _home(self, each: _Waiting, backlog_s: Seconds, slower_s: Seconds) -> int:
        """The place where it costs least; among equals any."""
        costs_s = backlog_s + self._patience.price * each.prefill_s + slower_s * each.request.output_tokens
        least = costs_s.min()
        equal = np.flatnonzero(costs_s <= least + ROUNDING_S)
        return int(equal[0] if len(equal) == 1 else self._rng.choice(equal))
