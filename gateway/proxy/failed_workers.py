"""The workers that failed one request. Each is not retried until it restarts."""

from cache_index import WorkerId
from routing.fleet import Fleet


class FailedWorkers:
    """Workers of *fleet* that failed. A worker that restarted, or was replaced under its name, is not one of them."""

    __slots__ = ("_fleet", "_incarnations")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._incarnations: dict[WorkerId, int] = {}

    def __len__(self) -> int:
        """Return how many failed, including those that restarted."""
        return len(self._incarnations)

    def __contains__(self, worker: WorkerId) -> bool:
        """Return whether *worker* failed, and has not restarted since."""
        incarnation = self._incarnations.get(worker)
        return incarnation is not None and incarnation == self._fleet.members.incarnation(worker)

    def add(self, worker: WorkerId) -> None:
        """Note that *worker* failed now."""
        self._incarnations[worker] = self._fleet.members.incarnation(worker)

    def forgive(self, worker: WorkerId) -> None:
        """Allow *worker* to be asked again before it restarts."""
        self._incarnations.pop(worker, None)
