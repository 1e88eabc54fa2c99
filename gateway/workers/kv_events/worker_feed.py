"""Applies the KV events of one worker's engine to the index, and sets how far the fleets trust it."""

from collections.abc import Iterable, Sequence

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Event
from gateway.workers.kv_events.feed import Trust
from routing.fleet import Fleet


class WorkerFeed:
    """A `Feed`. *model* is what the worker loads, as `scope_of` has it for prompts to it.

    After its end it ignores events: a stream that is being canceled may still have some, and another feed may have the
    worker by then.
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
        """Serve only *fleets* from now on: those of all models that the worker serves."""
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
        """Set the trust. While a stream catches up, what was known before is still nearly right."""
        if self._has_ended:
            return
        self.state = state
        if state != "catching_up":
            self._is_trusted = state == "live"
        self._tell()

    def end(self) -> None:
        """Drop all blocks of the worker: its engine is not heard any more."""
        self._confirmed.drop(self._worker)
        self.trusted("untrusted")
        self._has_ended = True

    def _tell(self) -> None:
        for fleet in self._fleets:
            fleet.set_trusted(self._worker, trusted=self._is_trusted)
