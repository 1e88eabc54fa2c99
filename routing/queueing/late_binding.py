"""Hold requests until a worker is about to be free, and then send the request that gains most.

A request that is sent early waits in an engine's queue, in order of arrival, on the worker that was best when the
request was sent. A held request can still go to another worker, and a short request need not wait behind a long one.

1. Requests are ordered by a quotient: prefill seconds on the worker with the longest cache hit, divided by the time
   waited plus a head start. Short requests and requests with cached prefixes therefore go first, and requests that have
   waited long move up slowly. On a fleet with contended caches, a cold prompt that overtakes a warm one evicts the warm
   prompt's blocks, and the warm prompt becomes cold. Queues that age faster collapse in this way under agents whose
   contexts exceed the fleet's cache size (see benchmarks/results/replay.md).
2. In this order, each request gets a home, the worker on which it costs least (see `Homes`).
3. A request is sent if its home is about to be free, unless it waits for a prefix that another worker is computing (see
   `SharedPrefixes`).

If teams share the fleet, requests of all strategies are held while no worker is about to be free. The order above then
applies within a team, and `FairQueue` decides between teams. Homes are found in the resulting order. If no later
request could precede a team's first request, that request is bound a little earlier. Holding it longer would gain
nothing and would cost the error of the predicted times plus the round trip to the engine.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np

from routing.booking import Booking
from routing.candidate import Candidate
from routing.dispatcher import Dispatch, Immediate, Refusal, admitting_first
from routing.explanation import Explanation, reason_of
from routing.fleet import Fleet
from routing.queueing.fair_queue import Fairness, FairQueue
from routing.queueing.fleet_view import ROUNDING_S, FleetView
from routing.queueing.homes import Homes
from routing.queueing.release_policy import ReleasePolicy
from routing.queueing.shared_prefixes import SharedPrefixes
from routing.queueing.waiting import Waiting
from routing.rendezvous import Rendezvous
from routing.request import BATCH, Request
from routing.strategies.by_name import StrategiesByName

SINGLE_TEAM = Fairness(starvation_s=float("inf"))
"""Fair-sharing rules for a single team and a single priority class."""
SPILL_EVERY_S = 0.25
"""Seconds between two checks of all waiting requests for lateness. New requests are checked on arrival, too."""
OWED_DEPTH = 5.0
"""Factor on a worker's maximum backlog for a waiting request that no later request could overtake.

The factor allows for errors in predicted times and for the round trip to the engine. It is small enough that a request
is not bound long before its worker is free.
"""
HEARTBEAT_S = 0.5
"""Seconds between two passes over the queue of waiting requests if no event occurs."""
NO_RESERVES: Final[list[Candidate]] = []


class LateBinding:
    """Dispatcher that holds requests until a worker is about to be free. Pinned requests, and requests whose strategy
    is not late-bound, are sent at once.

    If *fairness* is given, all requests are held while no worker is about to be free, and requests that would wait too
    long are refused.

    A pass over the queue costs a few microseconds per waiting request, plus an index lookup per sent request. With
    *fairness*, a request that finds an empty queue and a free worker costs one more microsecond.
    """

    def __init__(
        self,
        fleet: Fleet,
        strategies: StrategiesByName,
        rng: random.Random,
        policy: ReleasePolicy | None = None,
        fairness: Fairness | None = None,
        *,
        ties: Rendezvous | None = None,
    ) -> None:
        """Break cost ties by *ties*, so that gateway replicas choose the same worker, or at random if it is None."""
        self._fleet = fleet
        self._strategies = strategies
        self._immediate = Immediate(fleet, strategies)
        self._policy = policy or ReleasePolicy()
        self._fairness = fairness
        self._homes = Homes(fleet, strategies, self._policy, rng, ties)
        self._shared = SharedPrefixes(fleet, self._homes, self._policy)
        self._queue = FairQueue(fairness or SINGLE_TEAM)
        self._arrived: list[tuple[Request, float]] = []
        self._refused: list[Refusal] = []
        self._new_spillable: list[Waiting] = []
        """Requests that a fallback is able to answer and that arrived since the last pass over the queue."""
        self._spill_at = float("-inf")
        self._is_owed = False
        """Whether the last pass over the queue left a request waiting that no later request could overtake."""

    @property
    def waiting(self) -> int:
        return len(self._queue) + len(self._arrived)

    @property
    def others_wait(self) -> bool:
        return any(each.request.priority != BATCH for each in self._queue)

    @property
    def waiting_by_team(self) -> Mapping[str, int]:
        return dict(self._queue.by_team)

    def oldest_wait_s(self, now: float) -> float:
        return max((now - each.since for each in self._queue), default=0.0)

    def submit(self, request: Request, now: float) -> None:
        if self._fairness is not None:
            self._arrived.append((request, now))
        elif request.pinned is not None or not self._strategies.chosen_by(request).is_late_bound or self._is_full():
            self._immediate.submit(request, now)
        else:
            begins_session = self._fleet.sessions.begins(request)
            self._enqueue(Waiting(request, now, begins_session=begins_session, shares=False), now)

    def poll(self, now: float) -> list[Dispatch]:
        dispatches = self._send_or_hold_arrived(now) if self._arrived else self._immediate.poll(now)
        if self._queue.by_team:
            dispatches += self._send_held(now)
        return dispatches

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
        depth_s = self._policy.depth_s * (OWED_DEPTH if self._is_owed else 1.0)
        times = [worker.backlog_falls_to(depth_s, now) for worker in self._fleet if worker.is_ready]
        falls_at = min([at for at in times if at is not None and at > now], default=now + HEARTBEAT_S)
        is_watched = self._fairness is not None or self._queue.may_spill
        return min(falls_at, now + HEARTBEAT_S) if is_watched else falls_at

    def cancel(self, request: Request) -> None:
        self._queue.remove(request)
        self._arrived = [arrived for arrived in self._arrived if arrived[0] is not request]
        self._immediate.cancel(request)

    def explain(self, request: Request, now: float) -> Explanation:
        strategy = self._strategies.chosen_by(request)
        if self._fairness is None and not strategy.is_late_bound:
            return self._immediate.explain(request, now)
        is_any = self._fairness is not None and strategy.accepts_any_worker
        arrange = (lambda ranked: self._free_first(ranked, now)) if is_any else None
        explanation = self._immediate.explain(request, now, arrange)
        return msgspec.structs.replace(explanation, waits_for=self._shared.awaited(explanation))

    def hand_over(self) -> list[tuple[Request, float]]:
        held, self._queue = (
            [(each.request, each.since) for each in self._queue],
            FairQueue(self._fairness or SINGLE_TEAM),
        )
        arrived, self._arrived = self._arrived, []
        return held + arrived

    # ---- requests that come to a fleet that teams share

    def _send_or_hold_arrived(self, now: float) -> list[Dispatch]:
        arrived, self._arrived = self._arrived, []
        dispatches = []
        for request, since in arrived:
            dispatch = self._send_or_hold(request, since, now)
            if dispatch is not None:
                dispatches.append(dispatch)
        return dispatches

    def _send_or_hold(self, request: Request, since: float, now: float) -> Dispatch | None:
        """Send the request if the queue is empty and the best worker is free. Otherwise, hold or refuse the request."""
        begins_session = self._fleet.sessions.begins(request)
        candidates = self._fleet.candidates(request, now, begins_session=begins_session)
        name = request.strategy or self._strategies.default
        if not candidates:
            return Dispatch(request, [], None, "none", name)
        strategy = self._strategies.named(name)
        if not self._queue.by_team and not strategy.is_late_bound:
            near, far = candidates, NO_RESERVES
            if self._fleet.members.has_pools:
                reach = self._fleet.reach(request, candidates)
                near, far = reach.near, reach.far
            ranked = strategy.rank(request, near)
            order = self._free_first(ranked, now) if strategy.accepts_any_worker else admitting_first(ranked)
            if self._is_free(order[0], now) and not self._shared.computing(request, near, order[0]):
                whole = order + far if far else order
                return self._book(request, whole, now, level=request.priority, reserves=len(far))
        self._hold_or_refuse(Waiting(request, since, begins_session=begins_session), candidates, now)
        return None

    def _free_first(self, ranked: list[Candidate], now: float) -> list[Candidate]:
        order = admitting_first(ranked)
        if not order or self._is_free(order[0], now):
            return order
        return sorted(order, key=lambda candidate: not (candidate.admits and self._is_free(candidate, now)))

    def _is_free(self, candidate: Candidate, now: float) -> bool:
        return self._fleet.worker(candidate.worker).room(candidate.load.backlog_s, self._policy.depth_s, now) >= 1.0

    def _hold_or_refuse(self, each: Waiting, candidates: list[Candidate], now: float) -> None:
        self._homes.note_workers(self._queue)
        self._homes.set_candidates(each, candidates, now)
        servers = sum(worker.is_ready for worker in self._fleet)
        refusal = self._queue.refusal(each, lambda other: self._policy.rank(other, now), servers=servers)
        if refusal is None:
            self._enqueue(each, now)
        else:
            self._refused.append(refusal)

    def _enqueue(self, each: Waiting, now: float) -> None:
        self._queue.add(each, now)
        if each.spill_in_s is not None:
            self._new_spillable.append(each)

    # ---- a pass over the queue

    def _send_held(self, now: float) -> Iterator[Dispatch]:
        self._refused += self._queue.given_up(now)
        view = self._view(now)
        if not np.isfinite(view.backlog_s).any():
            yield from self._send_all(now)
            return
        if self._fairness is None or view.is_free().any():
            yield from self._send_to_free_homes(view, now)
        if self._fairness is not None:
            yield from self._send_owed_early(now)
        is_saturated = not view.is_free().any()
        self._queue.passed(is_saturated=is_saturated)
        new, self._new_spillable = self._new_spillable, []
        if is_saturated and self._queue.may_spill:
            self._spill_late(new, now)

    def _spill_late(self, new: list[Waiting], now: float) -> None:
        """Refuse late requests that a fallback is able to answer, because no worker of any pool can take them."""
        servers = sum(worker.is_ready for worker in self._fleet)
        if now >= self._spill_at:
            self._spill_at = now + SPILL_EVERY_S
            self._refused += self._queue.spill_all(now, lambda each: self._policy.rank(each, now), servers=servers)
            return
        for each in new:
            refusal = self._queue.spill(each, now, lambda other: self._policy.rank(other, now), servers=servers)
            if refusal is not None:
                self._refused.append(refusal)

    def _send_to_free_homes(self, view: FleetView, now: float) -> Iterator[Dispatch]:
        homes, policy, lookups = self._homes, self._policy, self._policy.max_lookups
        has_sent = False
        for each in self._in_order(now):
            free = view.is_free()
            if not free.any():
                return
            if self._shared.still_waits(each, view, now):
                continue
            if now - each.seen_at > policy.fresh_s and (lookups > 0 or not each.order):
                homes.look_up(each, now)
                lookups -= 1
            if not each.order:
                yield self._without_worker(each)
                continue
            if self._fleet.members.has_pools:
                homes.extend_reach(each, view.backlog_s, now)
            place = homes.find(each, view, free)
            # A request that was sent in this pass may compute a prefix of a long prompt.
            is_old = each.seen_at < now or (has_sent and each.min_s >= policy.min_shared_s)
            if is_old and homes.can_begin(each, place, free):
                homes.look_up(each, now)
                place = homes.find(each, view, free)
            if homes.can_begin(each, place, free):
                place, order = homes.choose(each, place, free)
                if self._shared.begins_wait(each, order[0], view, now):
                    continue
                view.room[place] -= 1.0
                has_sent = True
                yield self._send(each, order, now)
            view.backlog_s[place] += each.prefill_s[place]

    def _send_owed_early(self, now: float) -> Iterator[Dispatch]:
        """Send requests that no later request could overtake to workers that would begin them next."""
        owed = self._queue.owed(lambda each: self._policy.rank(each, now))
        self._is_owed = bool(owed)
        if not owed:
            return
        homes, view = self._homes, self._view(now)
        begins_next = [worker.is_ready and worker.begins_next(now) for worker in self._fleet]
        free = np.array(begins_next, np.bool_) & (view.backlog_s <= self._policy.depth_s * OWED_DEPTH + ROUNDING_S)
        for each in owed:
            if not free.any():
                return
            if self._shared.still_waits(each, view, now):
                continue
            homes.look_up(each, now)
            if not each.order:
                continue
            place = homes.find(each, view, free)
            if homes.can_begin(each, place, free):
                only = np.zeros(len(free), np.bool_)
                only[place] = True
                _, order = homes.choose(each, place, only)
                if self._shared.begins_wait(each, order[0], view, now):
                    continue
                free[place] = False
                view.backlog_s[place] += each.prefill_s[place]
                yield self._send(each, order, now)

    def _send_all(self, now: float) -> Iterator[Dispatch]:
        """Send all waiting requests at once, because no worker is ready."""
        for request, since in self.hand_over():
            self._immediate.submit(request, since)
        yield from self._immediate.poll(now)

    def _send(self, each: Waiting, order: list[Candidate], now: float) -> Dispatch:
        dispatch = self._book(each.request, order, now, level=each.level, reserves=len(each.reserves))
        self._queue.remove(each.request)
        return dispatch

    def _without_worker(self, each: Waiting) -> Dispatch:
        """Release a request whose only possible worker has left the fleet."""
        self._queue.remove(each.request)
        return Dispatch(each.request, [], None, "none", each.request.strategy or self._strategies.default)

    def _book(self, request: Request, order: list[Candidate], now: float, *, level: int, reserves: int = 0) -> Dispatch:
        booking = self._fleet.bookings.book(request, order[0], now)
        if booking is not None:
            self._charge(request, order[0], booking, now, level=level)
        name = request.strategy or self._strategies.default
        return Dispatch(request, order, booking, reason_of(order), name, reserves)

    def _charge(self, request: Request, candidate: Candidate, booking: Booking, now: float, *, level: int) -> None:
        """Charge the cost of a sent request to its team, and include the request in the throughput."""
        cost_s = booking.work_s + request.output_tokens * candidate.load.decode_s_per_token
        if self._fairness is not None:
            self._queue.served(request.team, level, request.weight, cost_s, now)
        elif self._queue.may_spill:
            self._queue.served("", level, 1.0, cost_s, now)

    def _view(self, now: float) -> FleetView:
        return self._homes.view(self._queue, now, counts_room=self._fairness is not None)

    def _in_order(self, now: float) -> Iterator[Waiting]:
        for each in self._queue:
            if not each.order:
                self._homes.look_up(each, now)
        return self._queue.in_order(now, lambda each: self._policy.rank(each, now))

    def _is_full(self) -> bool:
        return len(self._queue) >= self._policy.max_waiting
