"""Truth of the cache index: predicted cache hits against the hits that engines report, by worker and minute."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.telemetry.caches.hit_history import HitHistory, Minute, StreamChange
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Trust
from routing.candidate import Source
from routing.worker import Worker

WORKERS_PER_TURN = 10
"""Number of workers after which other tasks get a turn."""


@dataclass(frozen=True, slots=True)
class TruthMinute:
    """Predicted and reported cache hits of one minute, and what happened to the event stream in this minute."""

    ended_at: float | None
    """End of the minute in seconds since 1970, or None for the minute that has not ended."""
    requests: int
    """Requests whose cached tokens the engine reported. At high rates only a sample is counted."""
    prompt_tokens: int
    predicted_tokens: int
    reported_tokens: int
    accuracy: float | None
    """Share of cached tokens on which prediction and report agree, from 0 to 1, or None without cached tokens."""
    stream: Trust | None
    """State of the event stream at the end of the minute, or None without an event stream."""
    lag_s: float | None
    """Seconds from the creation of the last event batch to its application, by the clocks of both machines."""
    gaps: int
    lost_batches: int
    restarts: int
    rebuilds: int


@dataclass(frozen=True, slots=True)
class WorkerTruth:
    """Accuracy of the index for one worker."""

    worker: str
    source: Source
    """Source of the hits that routing uses: reported by KV events, or predicted from the requests sent."""
    accuracy: float
    """Accuracy on which routing relies now, in which recent requests have more weight. It is 1 without evidence."""
    is_unreliable: bool
    """Whether enough evidence shows that predictions are mostly wrong."""
    stream: Trust | None
    doubt: str | None
    """Reason why the event stream is not live, or None."""
    lag_s: float | None
    connections: int
    gaps: int
    """Gaps in the sequence of event batches since the gateway subscribed. The other counters start then too."""
    replays: int
    lost_batches: int
    restarts: int
    rebuilds: int
    minutes: tuple[TruthMinute, ...]
    """Complete minutes of the last hour, oldest first, and the current minute."""


@dataclass(frozen=True, slots=True)
class IndexTruth:
    """Accuracy of the index for the workers of one model, in order of their IDs."""

    model: str
    workers: tuple[WorkerTruth, ...]
    next: str | None = None
    """Value of `after` for the next page of workers, or None on the last page."""
    models: tuple[str, ...] = ()
    """Names of all models that have such a view."""


class Streams(Protocol):
    """Event streams that the gateway follows (see `gateway.workers.event_subscriptions.EventSubscriptions`)."""

    def state(self, worker: WorkerId) -> Trust | None: ...

    def counters(self) -> Mapping[WorkerId, StreamCounters]: ...


@dataclass(frozen=True, slots=True)
class IndexTruths:
    """Reader of the accuracy of the index. It changes no state."""

    history: HitHistory
    streams: Streams

    async def of(self, model: Model, workers: Sequence[WorkerId]) -> IndexTruth:
        """Return the accuracy for *workers* of *model*. O(workers), about 0.3 ms each. Other tasks run in between."""
        counters = self.streams.counters()
        present = {state.id: state for state in model.fleet}
        shown: list[WorkerTruth] = []
        for number, worker in enumerate(workers, start=1):
            if worker in present:
                shown.append(self._worker(model, present[worker], counters.get(worker)))
            if number % WORKERS_PER_TURN == 0:
                await asyncio.sleep(0)
        return IndexTruth(model.name, tuple(shown))

    def _worker(self, model: Model, worker: Worker, counters: StreamCounters | None) -> WorkerTruth:
        minutes = [_minute(each.ended_at, each) for each in self.history.minutes(model.name, worker.id)]
        current = _minute(None, Minute(0.0, self.history.peek(model.name, worker.id), StreamChange()))
        return WorkerTruth(
            worker=worker.id,
            source="reported" if worker.is_confirmed else "predicted",
            accuracy=round(worker.accuracy.value, 4),
            is_unreliable=worker.accuracy.is_unreliable,
            stream=self.streams.state(worker.id),
            doubt=None if counters is None else counters.doubt,
            lag_s=None if counters is None else counters.lag_s,
            connections=0 if counters is None else counters.connections,
            gaps=0 if counters is None else counters.gaps,
            replays=0 if counters is None else counters.replays,
            lost_batches=0 if counters is None else counters.lost_batches,
            restarts=0 if counters is None else counters.restarts,
            rebuilds=0 if counters is None else counters.rebuilds,
            minutes=(*minutes, current),
        )


def _minute(ended_at: float | None, minute: Minute) -> TruthMinute:
    hits, stream = minute.hits, minute.stream
    accuracy = hits.accuracy
    return TruthMinute(
        ended_at=ended_at,
        requests=round(hits.requests),
        prompt_tokens=round(hits.prompt),
        predicted_tokens=round(hits.predicted),
        reported_tokens=round(hits.reported),
        accuracy=None if accuracy is None else round(accuracy, 4),
        stream=stream.state,
        lag_s=stream.lag_s,
        gaps=stream.gaps,
        lost_batches=stream.lost_batches,
        restarts=stream.restarts,
        rebuilds=stream.rebuilds,
    )
