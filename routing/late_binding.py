"""Holds requests back until a worker is about to be free, and then sends the one that it gains most by.

What is sent early waits in an engine's queue, in the order in which it came, for a worker that was right when it was
sent. Held here it can still go elsewhere, and what is short need not wait behind what is long.

1. The order of the waiting: seconds of prefill on the worker that holds most of the prompt, over the time waited plus a
   head start. So what is short or warm goes first, and what has waited long moves up, but slowly: where caches are
   contended, cold prompts that overtake warm ones cost them their caches, and they come back cold. That is how queues
   that age faster collapse under agents with more context than the fleet has room for (benchmarks/results/replay.md).
2. The home of each, in that order: the worker on which it would cost least, behind all that stand before it. So a hot
   prefix spreads as soon as its queue costs more than computing it a second time: soon while the fleet idles, late on a
   busy one. What has to leave a cache for it, and is likely to be asked for again, is work as well.
3. It is released if its home is about to be free, and no worker idles that is the home of anybody.

Where teams share the fleet, every request takes its turn, whatever its strategy, once no worker is about to be free:
the order above holds inside a team, and `FairQueue` says which team is next. Homes are sought in that order too.
The first request of a team that is owed its turn is bound a little earlier: nobody who comes later would go before it,
so waiting gains nothing, and would cost what believed times are wrong by and the way from an engine to here and back.

Where workers are in pools, a home is sought in the next pool as well once the wait in all before it is too long.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from cache_index import WorkerId
from routing.booking import Booking
from routing.candidate import Candidate
from routing.dispatcher import Dispatch, Immediate, Refusal, admitting_first
from routing.explanation import Explanation
from routing.fair_queue import Fairness, FairQueue
from routing.fleet import Fleet
from routing.fleet_view import ROUNDING_S, FleetView
from routing.patience import Patience
from routing.reason import reason_of
from routing.rendezvous import Rendezvous
from routing.request import Request
from routing.sessions import Sessions
from routing.strategies.by_name import StrategiesByName
from routing.waiting import Seconds, Waiting
from routing.worker import Worker

LATE: Final = frozenset({"kv_aware"})
"""Strategies whose requests are held, also of one team. The others rank by more than cost, or mean what they say."""
BY_COST = frozenset({"kv_aware", "prefix_aware"})
"""Strategies that think in seconds: what they wait for is the worker where a request costs least."""
ANYWHERE: Final = frozenset({"round_robin", "least_loaded"})
"""Strategies for which any worker will do that is free."""
ALONE = Fairness(starvation_s=float("inf"))
"""One team, and one class."""
SPILL_EVERY_S = 0.25
"""Between two looks for those that wait and have become late; whoever comes is looked at when it comes."""
OWED_DEPTH = 5.0
"""Times the depth at which a request is sent that nobody who may yet come would go before. It covers what believed
times are wrong by and the way to an engine and back, and binds nobody to a worker for long before it is free."""
HEARTBEAT_S = 0.5
"""Between two looks at the queue where nothing says that anything has changed."""
NOBODY: Final[list[Candidate]] = []


class LateBinding:
    """A `Dispatcher`. Requests that are pinned, or that ask for a strategy that is not in `LATE`, are sent at once.

    Not so with *fairness*: then all are held while no worker is about to be free, and refused if their wait cannot fit.

    One look at the queue costs some microseconds for each who waits, and a lookup of the index for those who are sent.
    With *fairness* a request that finds nobody waiting, and its worker free, costs a microsecond more than at once.
    """

    def __init__(
        self,
        fleet: Fleet,
        strategies: StrategiesByName,
        rng: random.Random,
        patience: Patience | None = None,
        fairness: Fairness | None = None,
        *,
        ties: Rendezvous | None = None,
    ) -> None:
        """*ties* is how replicas of the gateway choose alike among homes that cost the same; None: at random."""
        self._fleet = fleet
        self._strategies = strategies
        self._immediate = Immediate(fleet, strategies)
        self._patience = patience or Patience()
        self._fairness = fairness
        self._ties = ties
        self._rng = np.random.default_rng(rng.getrandbits(64))
        self._sessions = Sessions()
        self._queue = FairQueue(fairness or ALONE)
        self._arrived: list[tuple[Request, float]] = []
        self._refused: list[Refusal] = []
        self._came: list[Waiting] = []
        """Since the last look at the queue, of those that may go elsewhere."""
        self._spill_at = float("-inf")
        self._is_owed = False
        """Whether somebody was still waiting at the last look who is owed its turn."""
        self._workers: list[WorkerId] = []
        self._places: dict[WorkerId, int] = {}

    @property
    def waiting(self) -> int:
        """Requests that are held."""
        return len(self._queue) + len(self._arrived)

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        return dict(self._queue.by_team)

    def oldest_wait_s(self, now: float) -> float:
        """How long the one has waited that waits longest."""
        return max((now - each.since for each in self._queue), default=0.0)

    def submit(self, request: Request, now: float) -> None:
        if self._fairness is not None:
            self._arrived.append((request, now))
        elif self._name(request) not in LATE or request.pinned is not None or self._is_full():
            self._immediate.submit(request, now)
        else:
            begins_session = self._sessions.begins(request)
            self._add(Waiting(request, now, begins_session=begins_session, shares=False), now)

    def poll(self, now: float) -> list[Dispatch]:
        released = self._receive(now) if self._arrived else self._immediate.poll(now)
        if self._queue.by_team:
            released += self._release(now)
        return released

    def refused(self) -> list[Refusal]:
        refused = self._immediate.refused()
        if self._refused:
            refused += self._refused
            self._refused = []
        return refused

    def at_once(self, request: Request, now: float) -> Dispatch:
        dispatch = self._immediate.at_once(request, now)
        if self._fairness is not None and dispatch.booking is not None:
            self._charge(request, dispatch.order[0], dispatch.booking, now, level=request.priority)
        return dispatch

    def next_poll_at(self, now: float) -> float | None:
        if not self._queue.by_team:
            return None
        depth_s = self._patience.depth_s * (OWED_DEPTH if self._is_owed else 1.0)
        times = [worker.backlog_falls_to(depth_s, now) for worker in self._fleet if worker.is_ready]
        falls_at = min([at for at in times if at is not None and at > now], default=now + HEARTBEAT_S)
        is_watched = self._fairness is not None or self._queue.may_spill
        return min(falls_at, now + HEARTBEAT_S) if is_watched else falls_at

    def cancel(self, request: Request) -> None:
        self._queue.remove(request)
        self._arrived = [arrived for arrived in self._arrived if arrived[0] is not request]
        self._immediate.cancel(request)

    def explain(self, request: Request, now: float) -> Explanation:
        if self._fairness is None or self._name(request) not in ANYWHERE:
            return self._immediate.explain(request, now)
        return self._immediate.explain(request, now, lambda ranked: self._free_first(ranked, now))

    def hand_over(self) -> list[tuple[Request, float]]:
        """Whoever waits and since when, longest first; nobody waits here any more."""
        held, self._queue = [(each.request, each.since) for each in self._queue], FairQueue(self._fairness or ALONE)
        arrived, self._arrived = self._arrived, []
        return held + arrived

    # ---- those who come to a fleet that teams share

    def _receive(self, now: float) -> list[Dispatch]:
        arrived, self._arrived = self._arrived, []
        released = []
        for request, since in arrived:
            dispatch = self._received(request, since, now)
            if dispatch is not None:
                released.append(dispatch)
        return released

    def _received(self, request: Request, since: float, now: float) -> Dispatch | None:
        """Sent as if there were no queue, if there is none and its worker is free; else held or refused."""
        candidates = self._fleet.candidates(request, now)
        name = request.strategy or self._strategies.default
        if not candidates:
            return Dispatch(request, [], None, "none", name)
        if name not in LATE and not self._queue.by_team:
            near, far = candidates, NOBODY
            if self._fleet.has_pools:
                reach = self._fleet.reach(request, candidates)
                near, far = reach.near, reach.far
            ranked = self._strategies.named(name).rank(request, near)
            order = self._free_first(ranked, now) if name in ANYWHERE else admitting_first(ranked)
            if self._is_free(order[0], now):
                return self._sent(request, order + far if far else order, name, now, level=request.priority)
        self._hold(Waiting(request, since, begins_session=self._sessions.begins(request)), candidates, now)
        return None

    def _free_first(self, ranked: list[Candidate], now: float) -> list[Candidate]:
        order = admitting_first(ranked)
        if not order or self._is_free(order[0], now):
            return order
        return sorted(order, key=lambda candidate: not (candidate.admits and self._is_free(candidate, now)))

    def _is_free(self, candidate: Candidate, now: float) -> bool:
        return self._fleet.worker(candidate.worker).room(candidate.load.backlog_s, self._patience.depth_s, now) >= 1.0

    def _hold(self, each: Waiting, candidates: list[Candidate], now: float) -> None:
        """Unless its wait cannot fit."""
        self._note_workers()
        self._take_in(each, candidates, now)
        servers = sum(worker.is_ready for worker in self._fleet)
        refusal = self._queue.refusal(each, lambda other: self._rank(other, now), servers=servers)
        if refusal is None:
            self._add(each, now)
        else:
            self._refused.append(refusal)

    def _add(self, each: Waiting, now: float) -> None:
        self._queue.add(each, now)
        if each.spill_in_s is not None:
            self._came.append(each)

    # ---- a look at the queue

    def _release(self, now: float) -> Iterator[Dispatch]:
        self._refused += self._queue.given_up(now)
        view = self._view(now)
        if not np.isfinite(view.backlog_s).any():
            yield from self._release_all(now)
            return
        if self._fairness is None or view.takes().any():
            yield from self._release_to(view, now)
        if self._fairness is not None:
            yield from self._release_next(now)
        is_saturated = not view.takes().any()
        self._queue.looked(is_saturated=is_saturated)
        came, self._came = self._came, []
        if is_saturated and self._queue.may_spill:
            self._spill(came, now)

    def _spill(self, came: list[Waiting], now: float) -> None:
        """Those that may go elsewhere do if they would be late: no worker of any pool has room for them."""
        servers = sum(worker.is_ready for worker in self._fleet)
        if now >= self._spill_at:
            self._spill_at = now + SPILL_EVERY_S
            self._refused += self._queue.spill_all(now, lambda each: self._rank(each, now), servers=servers)
            return
        for each in came:
            refusal = self._queue.spill(each, now, lambda other: self._rank(other, now), servers=servers)
            if refusal is not None:
                self._refused.append(refusal)

    def _release_to(self, view: FleetView, now: float) -> Iterator[Dispatch]:
        patience, lookups = self._patience, self._patience.most_lookups
        for each in self._in_order(now):
            takes = view.takes()
            if not takes.any():
                return
            if now - each.seen_at > patience.fresh_s and (lookups > 0 or not each.order):
                self._look_up(each, now)
                lookups -= 1
            if not each.order:
                yield self._without_worker(each)
                continue
            if self._fleet.has_pools:
                self._reach(each, view.backlog_s, now)
            place = self._place(each, view, takes)
            if each.seen_at < now and self._is_taken(place, each, takes):
                self._look_up(each, now)
                place = self._place(each, view, takes)
            if self._is_taken(place, each, takes):
                place, dispatch = self._released(each, place, takes, now)
                view.room[place] -= 1.0
                yield dispatch
            view.backlog_s[place] += each.prefill_s[place]

    def _release_next(self, now: float) -> Iterator[Dispatch]:
        """Who is owed its turn is sent earlier than others, to be computed next: nobody would go before it."""
        owed = self._queue.owed(lambda each: self._rank(each, now))
        self._is_owed = bool(owed)
        if not owed:
            return
        view = self._view(now)
        is_next = [worker.is_ready and worker.takes_next(now) for worker in self._fleet]
        takes = np.array(is_next, np.bool_) & (view.backlog_s <= self._patience.depth_s * OWED_DEPTH + ROUNDING_S)
        for each in owed:
            if not takes.any():
                return
            self._look_up(each, now)
            if not each.order:
                continue
            place = self._place(each, view, takes)
            if self._is_taken(place, each, takes):
                only = np.zeros(len(takes), np.bool_)
                only[place] = True
                _, dispatch = self._released(each, place, only, now)
                takes[place] = False
                view.backlog_s[place] += each.prefill_s[place]
                yield dispatch

    def _is_taken(self, place: int, each: Waiting, takes: npt.NDArray[np.bool_]) -> bool:
        return bool(takes[place] and np.isfinite(each.prefill_s[place]))

    def _place(self, each: Waiting, view: FleetView, takes: npt.NDArray[np.bool_]) -> int:
        """The place where it stands, behind those who stand before it."""
        request, name = each.request, self._name(each.request)
        if request.pinned is not None:
            return self._places[request.pinned]
        if name in BY_COST:
            return self._home(each, view)
        if name in ANYWHERE or not request.session:
            able = np.isfinite(each.prefill_s)
            among = able & takes if (able & takes).any() else able
            return int(np.where(among, view.backlog_s, np.inf).argmin())
        return self._places[self._ranked(request, each.order)[0].worker]

    def _released(self, each: Waiting, place: int, takes: npt.NDArray[np.bool_], now: float) -> tuple[int, Dispatch]:
        """Sent to its place, or where the strategy would send it if that is free as well; the others come after it."""
        request, name = each.request, self._name(each.request)
        ranked = self._ranked(request, each.order)
        wanted = [self._places[candidate.worker] for candidate in ranked]
        # Of what costs the same to us, the strategy may have one of its own.
        choices = wanted if name not in BY_COST else wanted[:1]
        place = next((other for other in choices if self._is_taken(other, each, takes)), place)
        home = self._workers[place]
        order = [c for c in ranked if c.worker == home] + [c for c in ranked if c.worker != home] + each.reserves
        dispatch = self._sent(request, order, name, now, level=each.level)
        self._queue.remove(request)
        return place, dispatch

    def _without_worker(self, each: Waiting) -> Dispatch:
        """The only worker that could answer went away."""
        self._queue.remove(each.request)
        return Dispatch(each.request, [], None, "none", self._name(each.request))

    def _sent(self, request: Request, order: list[Candidate], name: str, now: float, *, level: int) -> Dispatch:
        booking = self._fleet.book(request, order[0], now)
        if booking is not None:
            self._charge(request, order[0], booking, now, level=level)
        return Dispatch(request, order, booking, reason_of(order), name)

    def _charge(self, request: Request, candidate: Candidate, booking: Booking, now: float, *, level: int) -> None:
        """It is sent: its team has had that much, and that much is being done."""
        cost_s = booking.work_s + request.output_tokens * candidate.load.decode_s_per_token
        if self._fairness is not None:
            self._queue.served(request.team, level, request.weight, cost_s, now)
        elif self._queue.may_spill:
            self._queue.served("", level, 1.0, cost_s, now)

    def _release_all(self, now: float) -> Iterator[Dispatch]:
        """Nobody can be waited for."""
        for request, since in self.hand_over():
            self._immediate.submit(request, since)
        yield from self._immediate.poll(now)

    def _view(self, now: float) -> FleetView:
        return FleetView.of(self._note_workers(), self._patience, now, counts_room=self._fairness is not None)

    def _note_workers(self) -> list[Worker]:
        """Everybody is looked up again when others are there than before."""
        workers = list(self._fleet)
        if [worker.id for worker in workers] != self._workers:
            self._workers = [worker.id for worker in workers]
            self._places = {worker: place for place, worker in enumerate(self._workers)}
            for each in self._queue:
                each.seen_at, each.found, each.order = float("-inf"), [], []
        return workers

    def _in_order(self, now: float) -> Iterator[Waiting]:
        for each in self._queue:
            if not each.order:
                self._look_up(each, now)
        return self._queue.in_turn(now, lambda each: self._rank(each, now))

    def _rank(self, each: Waiting, now: float) -> tuple[bool, float]:
        waited_s = now - each.since
        is_overdue = each.begins_session and waited_s >= self._patience.max_wait_s
        if is_overdue or waited_s + each.least_s >= each.due_in_s:
            return False, each.since
        return True, each.least_s / (waited_s + self._patience.head_start_s)

    def _look_up(self, each: Waiting, now: float) -> None:
        self._take_in(each, self._fleet.candidates(each.request, now), now)

    def _take_in(self, each: Waiting, candidates: list[Candidate], now: float) -> None:
        """What the prompt costs on every worker that it may choose, by what their caches hold now."""
        each.found, each.seen_at = candidates, now
        if self._fleet.has_pools:
            each.order = []
            self._reach(each, None, now)
        else:
            self._offer(each, candidates, [])

    def _reach(self, each: Waiting, backlog_s: Seconds | None, now: float) -> None:
        """Offer it the pools that it may have, for it has waited, and would wait behind those that stand before it.

        *backlog_s* by place; None: what every worker has to do.
        """
        waited_s = now - each.since
        if backlog_s is None:
            waits_s = [waited_s + candidate.load.backlog_s for candidate in each.found]
        else:
            waits_s = [waited_s + float(backlog_s[self._places[candidate.worker]]) for candidate in each.found]
        reach = self._fleet.reach(each.request, each.found, waits_s)
        if len(reach.near) != len(each.order) or backlog_s is None:
            self._offer(each, reach.near, reach.far)

    def _offer(self, each: Waiting, candidates: list[Candidate], reserves: list[Candidate]) -> None:
        request = each.request
        prefill_s, evicts_s = np.full(len(self._workers), np.inf), np.zeros(len(self._workers))
        each.order, each.reserves = candidates, reserves
        admitting = [c for c in each.order if c.admits] or each.order
        for candidate in admitting:
            load = candidate.load
            uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
            seconds = load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token + candidate.load_s
            place = self._places[candidate.worker]
            prefill_s[place], evicts_s[place] = seconds, candidate.evicts_s
        each.prefill_s, each.evicts_s = prefill_s, evicts_s
        each.least_s = float(prefill_s.min()) if admitting else 0.0
        each.cost_s = each.least_s
        if admitting:
            each.cost_s += request.output_tokens * admitting[0].load.decode_s_per_token

    def _home(self, each: Waiting, view: FleetView) -> int:
        """The place where it costs least; among equals any, or the one that replicas choose as well."""
        costs_s = view.backlog_s + view.price * (each.prefill_s + each.evicts_s)
        costs_s += view.slower_s * each.request.output_tokens + view.way_s
        margin_s = ROUNDING_S if self._ties is None else max(ROUNDING_S, self._ties.tie_s)
        equal = np.flatnonzero(costs_s <= costs_s.min() + margin_s)
        if len(equal) == 1:
            return int(equal[0])
        order = None if self._ties is None else self._alike(each, equal, self._ties)
        return int(self._rng.choice(equal)) if not order else self._places[order[0].worker]

    def _alike(self, each: Waiting, equal: npt.NDArray[np.intp], ties: Rendezvous) -> list[Candidate] | None:
        places = set(equal.tolist())
        tied = [candidate for candidate in each.order if self._places[candidate.worker] in places]
        return ties.order(each.request, tied) if tied else None

    # ---- what requests want

    def _name(self, request: Request) -> str:
        return request.strategy or self._strategies.default

    def _ranked(self, request: Request, candidates: list[Candidate]) -> list[Candidate]:
        return self._strategies.named(self._name(request)).rank(request, candidates)

    def _is_full(self) -> bool:
        return len(self._queue) >= self._patience.most_waiting
