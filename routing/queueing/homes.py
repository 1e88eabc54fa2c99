"""Find the worker with the lowest cost for a waiting request, given the requests that are ahead of it in the queue.

A hot prefix spreads to a second worker once queueing costs more than computing the prefix again. This happens early on
an idle fleet and late on a busy one. The cost includes recomputing cached blocks that the request evicts and that are
likely to be needed again. With several pools, a later pool is considered once the wait in all earlier pools is too
long.
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
"""Set of workers, as a Boolean array over their positions in the list of workers."""


class Homes:
    """Search for the worker with the lowest cost for each waiting request. A worker's place is its position in the
    fleet.

    *ties* makes gateway replicas choose the same worker among workers of equal cost. If *ties* is None, the choice is
    random.
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
        """Return a snapshot of the workers at *now*."""
        return FleetView.at(self.note_workers(queue), self._policy, now, counts_room=counts_room)

    def note_workers(self, queue: Iterable[Waiting]) -> list[Worker]:
        """Return the current workers. If they have changed, mark all requests in *queue* for a new cache lookup."""
        workers = list(self._fleet)
        if [worker.id for worker in workers] != self._workers:
            self._workers = [worker.id for worker in workers]
            self._places = {worker: place for place, worker in enumerate(self._workers)}
            for each in queue:
                each.seen_at, each.found, each.order = float("-inf"), [], []
        return workers

    def look_up(self, each: Waiting, now: float) -> None:
        """Look up the prompt of the waiting request in the caches again."""
        candidates = self._fleet.candidates(each.request, now, begins_session=each.begins_session)
        self.set_candidates(each, candidates, now)

    def set_candidates(self, each: Waiting, candidates: list[Candidate], now: float) -> None:
        """Set the cost of the request on each worker in *candidates* that the request can use."""
        each.found, each.seen_at = candidates, now
        if self._fleet.members.has_pools:
            each.order = []
            self.extend_reach(each, None, now)
        else:
            self._set_costs(each, candidates, [])

    def extend_reach(self, each: Waiting, backlog_s: Seconds | None, now: float) -> None:
        """Let the request use later pools if its wait so far and its predicted wait in the earlier pools are too long.

        *backlog_s* includes the requests ahead of this request. If it is None, the backlog of each worker is used.
        """
        waited_s = now - each.since
        if backlog_s is None:
            waits_s = [waited_s + candidate.load.backlog_s for candidate in each.found]
        else:
            waits_s = [waited_s + float(backlog_s[self._places[candidate.worker]]) for candidate in each.found]
        reach = self._fleet.reach(each.request, each.found, waits_s)
        if len(reach.near) != len(each.order) or backlog_s is None:
            self._set_costs(each, reach.near, reach.far)

    def place(self, worker: WorkerId) -> int:
        """Return the position of *worker*, which must be in the fleet."""
        return self._places[worker]

    def can_begin(self, each: Waiting, place: int, free: Places) -> bool:
        """Return whether the worker at position *place* is free and could answer the request."""
        return bool(free[place] and np.isfinite(each.prefill_s[place]))

    def find(self, each: Waiting, view: FleetView, free: Places) -> int:
        """Return the position of the cheapest worker for the request, given the requests ahead of it in the queue."""
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
        """Return the position of the worker to send the request to, and all candidates in the order of attempts.

        The strategy's first choice takes precedence over *home* if that worker is free as well.
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
        prefill_s = np.full(len(self._workers), np.inf)
        evicts_s, displaces_s = np.zeros(len(self._workers)), np.zeros(len(self._workers))
        each.order, each.reserves = candidates, reserves
        admitting = [c for c in each.order if c.admits] or each.order
        for candidate in admitting:
            load = candidate.load
            uncached_tokens = max(1.0, request.prompt_tokens - candidate.hit_tokens)
            seconds = load.prefill_overhead_s + uncached_tokens * load.prefill_s_per_token + candidate.load_s
            place = self._places[candidate.worker]
            prefill_s[place], evicts_s[place] = seconds, candidate.evicts_s
            displaces_s[place] = candidate.displaces_s
        each.prefill_s, each.evicts_s, each.displaces_s = prefill_s, evicts_s, displaces_s
        each.min_s = float(prefill_s.min()) if admitting else 0.0
        each.cost_s = each.min_s
        if admitting:
            each.cost_s += request.output_tokens * admitting[0].load.decode_s_per_token

    def _cheapest(self, each: Waiting, view: FleetView) -> int:
        costs_s = view.backlog_s + view.price * (each.prefill_s + each.evicts_s)
        costs_s += view.slower_s * each.request.output_tokens + view.zone_penalty_s + each.displaces_s
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
