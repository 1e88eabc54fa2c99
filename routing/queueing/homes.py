"""The home of a held request: the worker on which it would cost least, behind the requests that stand before it.

A hot prefix spreads as soon as its queue costs more than computing it a second time: soon on an idle fleet, late on a
busy one. Cached blocks that must make room, and are likely to be needed again, count as work too. Where workers are in
pools, the next pool counts once the wait in all pools before it is too long.
"""

import random
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from cache_index import WorkerId
from routing.candidate import Candidate
from routing.fleet import Fleet
from routing.queueing.fleet_view import ROUNDING_S, FleetView
from routing.queueing.release_policy import ReleasePolicy
from routing.queueing.waiting import Seconds, Waiting
from routing.rendezvous import Rendezvous
from routing.strategies.by_name import StrategiesByName
from routing.worker import Worker

Places = npt.NDArray[np.bool_]
"""A set of workers, by place."""


class Homes:
    """Decides to which worker a held request belongs. A worker's place is its number in the order of the fleet.

    *ties* is how replicas of the gateway choose alike among homes that cost the same. None: at random.
    """

    def __init__(
        self,
        fleet: Fleet,
        strategies: StrategiesByName,
        policy: ReleasePolicy,
        rng: random.Random,
        ties: Rendezvous | None,
    ) -> None:
        self._fleet = fleet
        self._strategies = strategies
        self._policy = policy
        self._ties = ties
        self._rng = np.random.default_rng(rng.getrandbits(64))
        self._workers: list[WorkerId] = []
        self._places: dict[WorkerId, int] = {}

    def view(self, queue: Iterable[Waiting], now: float, *, counts_room: bool) -> FleetView:
        """Return the workers at *now*."""
        return FleetView.at(self.note_workers(queue), self._policy, now, counts_room=counts_room)

    def note_workers(self, queue: Iterable[Waiting]) -> list[Worker]:
        """Return the workers. If they have changed, all of *queue* must be looked up again."""
        workers = list(self._fleet)
        if [worker.id for worker in workers] != self._workers:
            self._workers = [worker.id for worker in workers]
            self._places = {worker: place for place, worker in enumerate(self._workers)}
            for each in queue:
                each.seen_at, each.found, each.order = float("-inf"), [], []
        return workers

    def look_up(self, each: Waiting, now: float) -> None:
        """Look the prompt up in the caches again."""
        self.set_candidates(each, self._fleet.candidates(each.request, now), now)

    def set_candidates(self, each: Waiting, candidates: list[Candidate], now: float) -> None:
        """Set the cost on each of *candidates* that the request may choose."""
        each.found, each.seen_at = candidates, now
        if self._fleet.members.has_pools:
            each.order = []
            self.extend_reach(each, None, now)
        else:
            self._set_costs(each, candidates, [])

    def extend_reach(self, each: Waiting, backlog_s: Seconds | None, now: float) -> None:
        """Let the request choose from further pools if it has waited, and would wait, too long for the nearer ones.

        *backlog_s* includes the requests that stand before it. None: the workers' own backlog.
        """
        waited_s = now - each.since
        if backlog_s is None:
            waits_s = [waited_s + candidate.load.backlog_s for candidate in each.found]
        else:
            waits_s = [waited_s + float(backlog_s[self._places[candidate.worker]]) for candidate in each.found]
        reach = self._fleet.reach(each.request, each.found, waits_s)
        if len(reach.near) != len(each.order) or backlog_s is None:
            self._set_costs(each, reach.near, reach.far)

    def can_begin(self, each: Waiting, place: int, free: Places) -> bool:
        """Return whether *place* is among the *free* ones and could answer the request."""
        return bool(free[place] and np.isfinite(each.prefill_s[place]))

    def find(self, each: Waiting, view: FleetView, free: Places) -> int:
        """Return the home of the request, behind the requests that stand before it."""
        request = each.request
        if request.pinned is not None:
            return self._places[request.pinned]
        strategy = self._strategies.chosen_by(request)
        if strategy.ranks_by_cost:
            return self._cheapest(each, view)
        if strategy.accepts_any_worker or not request.session:
            able = np.isfinite(each.prefill_s)
            among = able & free if (able & free).any() else able
            return int(np.where(among, view.backlog_s, np.inf).argmin())
        return self._places[strategy.rank(request, each.order)[0].worker]

    def choose(self, each: Waiting, home: int, free: Places) -> tuple[int, list[Candidate]]:
        """Return the worker to send the request to, and all candidates in the order in which to try them.

        The strategy's own choice goes before *home* if it is free as well.
        """
        strategy = self._strategies.chosen_by(each.request)
        ranked = strategy.rank(each.request, each.order)
        wanted = [self._places[candidate.worker] for candidate in ranked]
        # Among workers that cost the same to us, the strategy may prefer one.
        choices = wanted[:1] if strategy.ranks_by_cost else wanted
        place = next((other for other in choices if self.can_begin(each, other, free)), home)
        first = self._workers[place]
        order = [c for c in ranked if c.worker == first] + [c for c in ranked if c.worker != first] + each.reserves
        return place, order

    def _set_costs(self, each: Waiting, candidates: list[Candidate], reserves: list[Candidate]) -> None:
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
        each.min_s = float(prefill_s.min()) if admitting else 0.0
        each.cost_s = each.min_s
        if admitting:
            each.cost_s += request.output_tokens * admitting[0].load.decode_s_per_token

    def _cheapest(self, each: Waiting, view: FleetView) -> int:
        costs_s = view.backlog_s + view.price * (each.prefill_s + each.evicts_s)
        costs_s += view.slower_s * each.request.output_tokens + view.zone_penalty_s
        margin_s = ROUNDING_S if self._ties is None else max(ROUNDING_S, self._ties.tie_s)
        equal = np.flatnonzero(costs_s <= costs_s.min() + margin_s)
        if len(equal) == 1:
            return int(equal[0])
        order = None if self._ties is None else self._order_alike(each, equal, self._ties)
        return int(self._rng.choice(equal)) if not order else self._places[order[0].worker]

    def _order_alike(self, each: Waiting, equal: npt.NDArray[np.intp], ties: Rendezvous) -> list[Candidate] | None:
        places = set(equal.tolist())
        tied = [candidate for candidate in each.order if self._places[candidate.worker] in places]
        return ties.order(each.request, tied) if tied else None
