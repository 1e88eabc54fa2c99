"""What Prometheus sees of how caches are known: the streams of engines, the index of what they told, exact tokens."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from gateway.kv_events.counters import StreamCounters
from gateway.kv_events.feed import Trust
from gateway.model import Model


class Streams(Protocol):
    """Whom somebody listens to; see `gateway.followers.Followers`."""

    def subjects(self) -> Collection[WorkerId]: ...

    def state(self, worker: WorkerId) -> Trust | None: ...

    def counters(self) -> Mapping[WorkerId, StreamCounters]: ...


class CacheCollector(Collector):
    """Reads the state itself when asked. *models* are read anew at every scrape."""

    def __init__(
        self, models: Iterable[Model], streams: Streams, confirmed: Confirmed, *, max_confirmed_bytes: int
    ) -> None:
        self._models = models
        self._streams = streams
        self._confirmed = confirmed
        self._max_confirmed_bytes = max_confirmed_bytes

    def collect(self) -> Iterator[Metric]:
        yield self._states()
        yield from self._stream_families()
        yield GaugeMetricFamily(
            "warmgate_confirmed_bytes", "Memory of what engines told of their caches.", self._confirmed.size_bytes
        )
        yield GaugeMetricFamily("warmgate_confirmed_max_bytes", "Its limit, from settings.", self._max_confirmed_bytes)
        odd = CounterMetricFamily(
            "warmgate_confirmed_odd_blocks", "Blocks that engines told of in an odd way, by which.", labels=("kind",)
        )
        for kind, count in asdict(self._confirmed.counts).items():
            odd.add_metric((kind,), count)
        yield odd
        yield self._exact_prompts()

    def _states(self) -> Metric:
        """Also of workers whose engines have not said where they tell of their caches."""
        family = GaugeMetricFamily(
            "warmgate_kv_stream_state",
            "1 for how far what an engine tells can be relied on: live, catching_up, stale, untrusted.",
            labels=("worker", "state"),
        )
        for worker in self._streams.subjects():
            state = self._streams.state(worker)
            if state is not None:
                family.add_metric((worker, state), 1.0)
        return family

    def _stream_families(self) -> Iterator[Metric]:
        doubt = GaugeMetricFamily(
            "warmgate_kv_stream_doubt", "1 for why a stream cannot be live.", labels=("worker", "doubt")
        )
        lag = GaugeMetricFamily(
            "warmgate_kv_stream_lag_seconds", "Age of the last batch when it was taken in.", labels=("worker",)
        )
        sequence = GaugeMetricFamily(
            "warmgate_kv_stream_sequence", "Number of the last batch that was taken in.", labels=("worker",)
        )
        families = {
            name: CounterMetricFamily(f"warmgate_kv_{name}", text, labels=("worker", "kind"))
            for name, text in _COUNTERS.items()
        }
        for worker, told in self._streams.counters().items():
            if told.doubt is not None:
                doubt.add_metric((worker, told.doubt), 1.0)
            if told.last_seq is not None:
                sequence.add_metric((worker,), told.last_seq)
            if told.lag_s is not None:
                lag.add_metric((worker,), told.lag_s)
            for name, kinds in _counts(told).items():
                for kind, count in kinds.items():
                    families[name].add_metric((worker, kind), count)
        yield from (doubt, lag, sequence, *families.values())

    def _exact_prompts(self) -> Metric:
        family = CounterMetricFamily(
            "warmgate_exact_prompts", "Prompts by whether their exact tokens were known.", labels=("model", "outcome")
        )
        for model in self._models:
            prompts = model.exact_prompts
            if prompts is not None:
                for outcome, count in [("exact", prompts.known), *prompts.unknown.items()]:
                    family.add_metric((model.name, outcome), count)
        return family


_COUNTERS = {
    "events": "What engines told of their caches, by kind of event.",
    "blocks": "Blocks that engines told of, by kind of event.",
    "batches": "Batches of events by what became of them.",
    "turns": "How often a stream was connected, replayed, begun anew, or that of another life of its engine.",
    "unused": "Events that were ignored or refused, by why.",
}


def _counts(told: StreamCounters) -> Mapping[str, Mapping[str, int]]:
    unused = {**_plain(told.ignored), **_plain(told.refused)}
    return {
        "events": _plain(told.events),
        "blocks": _plain(told.blocks),
        "batches": {
            "taken": told.batches,
            "duplicate": told.duplicates,
            "late": told.late,
            "lost": told.lost_batches,
            "turned_away": told.turned_away,
            "undecodable": told.undecodable,
            "malformed": told.malformed,
            "other_topic": told.other_topic,
        },
        "turns": {
            "connection": told.connections,
            "gap": told.gaps,
            "replay": told.replays,
            "restart": told.restarts,
            "rebuild": told.rebuilds,
        },
        "unused": unused,
    }


def _plain(counts: Mapping[Any, int]) -> dict[str, int]:
    """By kind, whatever kinds there are."""
    return {str(kind): count for kind, count in counts.items()}
