"""Cache hits of each worker by minute: what was predicted, what engines reported, and the state of the event stream."""

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cache_index import WorkerId
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Trust

MINUTES: Final = 60
"""Number of minutes to keep for each worker, at about 150 bytes each."""
RECENT_MINUTES: Final = 10
"""Number of complete minutes that count as recent."""
STATES: Final[tuple[Trust | None, ...]] = (None, "live", "catching_up", "stale", "untrusted")

_MINUTE: Final = struct.Struct("<d6d4IbdB")


class HitSums:
    """Sums over requests whose cached tokens an engine reported. All sums except *requests* are numbers of tokens."""

    __slots__ = ("agreed", "predicted", "prompt", "recomputed", "reported", "requests")

    def __init__(  # noqa: PLR0917  # one for each sum
        self,
        requests: float = 0.0,
        prompt: float = 0.0,
        predicted: float = 0.0,
        reported: float = 0.0,
        agreed: float = 0.0,
        recomputed: float = 0.0,
    ) -> None:
        self.requests = requests
        self.prompt = prompt
        self.predicted = predicted
        self.reported = reported
        """Cached tokens according to the engine's usage reports."""
        self.agreed = agreed
        """The smaller one of predicted and reported tokens of each request."""
        self.recomputed = recomputed
        """Tokens that were computed although the worker had computed them before, so it had evicted them."""

    def add(self, *, prompt: float, predicted: float, reported: float, recomputed: float) -> None:
        """Add one request."""
        self.requests += 1.0
        self.prompt += prompt
        self.predicted += predicted
        self.reported += reported
        self.agreed += min(predicted, reported)
        self.recomputed += recomputed

    def include(self, other: "HitSums") -> None:
        """Add the sums of *other*."""
        for name in HitSums.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def accuracy(self) -> float | None:
        """Share of cached tokens on which predictions and reports agree, or None if there are no cached tokens."""
        larger = self.predicted + self.reported - self.agreed
        return self.agreed / larger if larger > 0.0 else None

    @property
    def reuse_share(self) -> float | None:
        """Share of prompt tokens that came from the cache, or None without requests."""
        return self.reported / self.prompt if self.prompt > 0.0 else None

    @property
    def thrash_share(self) -> float | None:
        """Share of computed prompt tokens that the worker had computed before, or None if it computed none."""
        computed = self.prompt - self.reported
        return min(1.0, self.recomputed / computed) if computed > 0.0 else None


@dataclass(frozen=True, slots=True)
class StreamChange:
    """State of an event stream at the end of a minute, and what happened to the stream in this minute."""

    state: Trust | None = None
    lag_s: float | None = None
    gaps: int = 0
    lost_batches: int = 0
    restarts: int = 0
    rebuilds: int = 0


@dataclass(frozen=True, slots=True)
class Minute:
    ended_at: float
    """End of the minute in seconds since 1970."""
    hits: HitSums
    stream: StreamChange


class _WorkerHistory:
    __slots__ = ("current", "minutes", "seen")

    def __init__(self) -> None:
        self.current = HitSums()
        self.minutes: deque[bytes] = deque(maxlen=MINUTES)
        self.seen: tuple[int, int, int, int] | None = None
        """Counters of the event stream at the end of the last minute, or None without a stream."""


class HitHistory:
    """Last `MINUTES` minutes of each worker. A worker is identified by its model and its ID."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], _WorkerHistory] = {}

    def current(self, model: str, worker: str) -> HitSums:
        """Return the sums of the minute that has not ended, to which requests are added."""
        history = self._workers.get((model, worker))
        if history is None:
            history = self._workers[model, worker] = _WorkerHistory()
        return history.current

    def peek(self, model: str, worker: str) -> HitSums:
        """Return the sums of the minute that has not ended, which are empty for an unknown worker."""
        history = self._workers.get((model, worker))
        return HitSums() if history is None else history.current

    def end_minute(
        self,
        ended_at: float,
        workers: Iterable[tuple[str, WorkerId]],
        counters: Mapping[WorkerId, StreamCounters],
    ) -> None:
        """End the current minute of *workers*, each given by its model and its ID, and forget all other workers.

        O(workers), about 3 microseconds each.
        """
        former, self._workers = self._workers, {}
        for key in workers:
            history = former.get(key) or _WorkerHistory()
            change = _change(history, counters.get(key[1]))
            history.minutes.append(_packed(Minute(ended_at, history.current, change)))
            history.current = HitSums()
            self._workers[key] = history

    def minutes(self, model: str, worker: str) -> list[Minute]:
        """Return the complete minutes of a worker, oldest first. O(`MINUTES`)."""
        history = self._workers.get((model, worker))
        return [] if history is None else [_unpacked(packed) for packed in history.minutes]

    def recent(self, model: str, worker: str) -> HitSums:
        """Return the sums of the last `RECENT_MINUTES` complete minutes and of the current minute."""
        total = HitSums()
        for hits in (self.peek(model, worker), *(each.hits for each in self.minutes(model, worker)[-RECENT_MINUTES:])):
            total.include(hits)
        return total


def _change(history: _WorkerHistory, counters: StreamCounters | None) -> StreamChange:
    """Return what happened to an event stream since the last call for *history*."""
    if counters is None:
        history.seen = None
        return StreamChange()
    now = (counters.gaps, counters.lost_batches, counters.restarts, counters.rebuilds)
    before, history.seen = history.seen or (0, 0, 0, 0), now
    if any(new < old for new, old in zip(now, before, strict=True)):
        before = (0, 0, 0, 0)  # a new subscription counts from zero
    gaps, lost, restarts, rebuilds = (new - old for new, old in zip(now, before, strict=True))
    return StreamChange(counters.trust, counters.lag_s, gaps, lost, restarts, rebuilds)


def _packed(minute: Minute) -> bytes:
    hits, stream = minute.hits, minute.stream
    return _MINUTE.pack(
        minute.ended_at,
        *(hits.requests, hits.prompt, hits.predicted, hits.reported, hits.agreed, hits.recomputed),
        *(stream.gaps, stream.lost_batches, stream.restarts, stream.rebuilds),
        STATES.index(stream.state),
        0.0 if stream.lag_s is None else stream.lag_s,
        stream.lag_s is not None,
    )


def _unpacked(packed: bytes) -> Minute:
    ended_at, *numbers = _MINUTE.unpack(packed)
    gaps, lost, restarts, rebuilds, state, lag_s, has_lag = numbers[6:]
    stream = StreamChange(STATES[state], lag_s if has_lag else None, gaps, lost, restarts, rebuilds)
    return Minute(ended_at, HitSums(*numbers[:6]), stream)
