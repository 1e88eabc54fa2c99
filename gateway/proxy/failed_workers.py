"""Record the workers that failed a request. A failed worker does not get the request again until it restarts."""

from cache_index import WorkerId
from routing.fleet import Fleet


class FailedWorkers:
    """Workers in *fleet* that failed one request. A worker that restarted, or that was replaced under the same name, is
    not a member.
    """

    __slots__ = ("_fleet", "_incarnations")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._incarnations: dict[WorkerId, int] = {}

    def __len__(self) -> int:
        """Return the number of workers that failed, including workers that have restarted since."""
        return len(self._incarnations)

    def __contains__(self, worker: WorkerId) -> bool:
        """Return whether *worker* failed and has not restarted since."""
        incarnation = self._incarnations.get(worker)
        return incarnation is not None and incarnation == self._fleet.members.incarnation(worker)

    def add(self, worker: WorkerId) -> None:
        """Record that *worker* failed in its current incarnation."""
        self._incarnations[worker] = self._fleet.members.incarnation(worker)

    def forgive(self, worker: WorkerId) -> None:
        """Allow *worker* to get the request again before the worker restarts."""
        self._incarnations.pop(worker, None)
