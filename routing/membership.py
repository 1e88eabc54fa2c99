"""Workers of one fleet, with the pool, role and penalties that the settings assign to each worker."""

from collections.abc import Callable, Iterable, Mapping

from cache_index import WorkerId
from routing.breaker import Breaker
from routing.candidate import Role
from routing.learning.rates import Rates
from routing.worker import Worker


class Membership:
    """List of the workers that belong to a fleet.

    Pools, roles and penalties are stored by worker name, so they also apply to workers that join later.
    """

    def __init__(self, *, breaker: Callable[[], Breaker], rates: Rates) -> None:
        self.workers: dict[WorkerId, Worker] = {}
        self.has_roles = False
        """Whether any worker handles only one part of each request: the prefill or the decoding."""
        self.has_pools = False
        """Whether the workers of the fleet belong to more than one pool."""
        self._breaker = breaker
        self._rates = rates
        self._tiers: Mapping[WorkerId, int] = {}
        self._zone_penalties_s: Mapping[WorkerId, float] = {}
        self._adapter_penalties_s: dict[WorkerId, float] = {}
        self._roles: Mapping[WorkerId, Role] = {}
        self._next_incarnation = 0
        """Incarnation number of the next worker that joins. It is higher than the number of every worker that has left.
        """

    def replace(self, workers: Iterable[WorkerId], now: float) -> list[WorkerId]:
        """Replace the fleet's workers with *workers*, and return the workers that left. The others keep their state."""
        wanted = dict.fromkeys(workers)
        left = [worker for worker in self.workers if worker not in wanted]
        for worker in left:
            self._next_incarnation = max(self._next_incarnation, self.workers.pop(worker).incarnation + 1)
        for worker in wanted:
            if worker not in self.workers:
                self.workers[worker] = Worker(
                    worker, now, breaker=self._breaker(), rates=self._rates, incarnation=self._next_incarnation
                )
        self.set_tiers(self._tiers)
        self.set_zone_penalties(self._zone_penalties_s)
        self.set_roles(self._roles)
        return left

    def set_tiers(self, tiers: Mapping[WorkerId, int]) -> None:
        """Set the pool number of each worker. Workers without an entry are in pool 0, which is tried first."""
        self._tiers = tiers
        for worker in self.workers.values():
            worker.tier = tiers.get(worker.id, 0)
        self.has_pools = len({worker.tier for worker in self.workers.values()}) > 1

    def set_zone_penalties(self, penalties_s: Mapping[WorkerId, float]) -> None:
        """Set the extra cost in seconds of a request on each worker, compared with a worker in the gateway's zone."""
        self._zone_penalties_s = penalties_s
        for worker in self.workers.values():
            worker.zone_penalty_s = penalties_s.get(worker.id, 0.0) + self._adapter_penalties_s.get(worker.id, 0.0)

    def set_adapter_penalty(self, worker: WorkerId, seconds: float) -> None:
        """Set the extra cost in seconds of a request on *worker*, which would have to load the LoRA adapter first."""
        self._adapter_penalties_s[worker] = seconds
        state = self.workers.get(worker)
        if state is not None:
            state.zone_penalty_s = self._zone_penalties_s.get(worker, 0.0) + seconds

    def adapter_penalty_s(self, worker: WorkerId) -> float:
        """Return the extra cost in seconds that `set_adapter_penalty` last set for *worker*."""
        return self._adapter_penalties_s.get(worker, 0.0)

    def set_roles(self, roles: Mapping[WorkerId, Role]) -> None:
        """Set the role of each worker. Workers without an entry handle whole requests."""
        self._roles = roles
        for worker in self.workers.values():
            worker.role = roles.get(worker.id, "both")
        self.has_roles = any(worker.role != "both" for worker in self.workers.values())

    def incarnation(self, worker: WorkerId) -> int:
        """Return the number of the current incarnation of *worker*, which each restart changes, or -1 if absent."""
        state = self.workers.get(worker)
        return -1 if state is None else state.incarnation
