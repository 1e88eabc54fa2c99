"""Takes what one worker's engine tells of its cache into the index, and tells the fleets how far to rely on it."""

from collections.abc import Iterable, Sequence

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Event
from gateway.kv_events.feed import Trust
from routing.fleet import Fleet


class WorkerFeed:
    """A `Feed`. *model* is what the worker loads, as `scope_of` has it for prompts to it.

    After its end it hears nothing: a stream that is being cancelled may still tell something, and another feed may
    have the worker by then.
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
        """Tell *fleets* from now on, and no others: those of all models that the worker serves."""
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
        """While it catches up with the last moments, what was known before is still nearly right."""
        if self._has_ended:
            return
        self.state = state
        if state != "catching_up":
            self._is_trusted = state == "live"
        self._tell()

    def end(self) -> None:
        """Nobody listens to the engine any more: nothing that it told counts."""
        self._confirmed.drop(self._worker)
        self.trusted("untrusted")
        self._has_ended = True

    def _tell(self) -> None:
        for fleet in self._fleets:
            fleet.set_trusted(self._worker, trusted=self._is_trusted)
