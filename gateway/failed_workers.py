"""The workers that failed of one request: each is left alone as long as it lives the life in which it did."""

from cache_index import WorkerId
from routing.fleet import Fleet


class FailedWorkers:
    """Those of *fleet*. Each may be asked again once it is another: restarted, or replaced under its name."""

    __slots__ = ("_fleet", "_lives")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._lives: dict[WorkerId, int] = {}

    def __len__(self) -> int:
        """How many have failed, those that live anew among them."""
        return len(self._lives)

    def __contains__(self, worker: WorkerId) -> bool:
        """Whether it has failed in the life that it is in."""
        life = self._lives.get(worker)
        return life is not None and life == self._fleet.life(worker)

    def add(self, worker: WorkerId) -> None:
        """It failed just now."""
        self._lives[worker] = self._fleet.life(worker)

    def forgive(self, worker: WorkerId) -> None:
        """It may be asked again in this life."""
        self._lives.pop(worker, None)
