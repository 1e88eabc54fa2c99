"""Apply the KV events of one worker to the index, and set whether the fleets trust the index."""

from collections.abc import Iterable, Sequence

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Event
from gateway.workers.kv_events.feed import Trust
from routing.fleet import Fleet


class WorkerFeed:
    """Feed for one worker. Implements `Feed`. *model* is the model that it loads, in the form that `scope_of` uses for
    prompts.

    After `end`, events are ignored. A stream that is being canceled may still deliver events when another feed has
    taken over.
    """

    def __init__(self, worker: WorkerId, confirmed: Confirmed, *, model: str) -> None:
        self.state: Trust = "untrusted"
        self._worker = worker
        self._confirmed = confirmed
        self._model = model
        self._fleets: tuple[Fleet, ...] = ()
        self._is_trusted = False
        self._has_ended = False

    def serve(self, fleets: Iterable[Fleet]) -> None:
        """Set the fleets whose trust the feed updates: those of all models that the worker serves."""
        former, self._fleets = self._fleets, tuple(fleets)
        for fleet in former:
            if fleet not in self._fleets:
                fleet.set_trusted(self._worker, trusted=False)
        self._confirmed.join(self._worker, model=self._model)
        self._tell()

    def apply(self, events: Sequence[Event]) -> None:
        if self._has_ended:
            return
        for event in events:
            self._confirmed.apply(self._worker, event, model=self._model)

    def restarted(self) -> None:
        if self._has_ended:
            return
        self._confirmed.drop(self._worker)
        self._confirmed.join(self._worker, model=self._model)

    def trusted(self, state: Trust) -> None:
        """Set the trust in the index. While a stream catches up, its index is mostly correct and stays trusted."""
        if self._has_ended:
            return
        self.state = state
        if state != "catching_up":
            self._is_trusted = state == "live"
        self._tell()

    def end(self) -> None:
        """Drop all blocks of the worker, because the subscription to its engine has ended."""
        self._confirmed.drop(self._worker)
        self.trusted("untrusted")
        self._has_ended = True

    def _tell(self) -> None:
        for fleet in self._fleets:
            fleet.set_trusted(self._worker, trusted=self._is_trusted)
