"""Metrics about the gateway's knowledge of KV caches: event streams of engines, the index of reported blocks, and exact
tokens.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from gateway.models.model import Model
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Trust


class StreamStates(Protocol):
    """Event streams that the gateway follows (see `gateway.workers.event_subscriptions.EventSubscriptions`)."""

    def subjects(self) -> Collection[WorkerId]: ...

    def state(self, worker: WorkerId) -> Trust | None: ...

    def counters(self) -> Mapping[WorkerId, StreamCounters]: ...


class CacheCollector(Collector):
    """Prometheus collector that reads event streams, indexes and *models* at every scrape."""

    def __init__(
        self, models: Iterable[Model], streams: StreamStates, confirmed: Confirmed, *, max_confirmed_bytes: int
    ) -> None:
        self._models = models
        self._streams = streams
        self._confirmed = confirmed
        self._max_confirmed_bytes = max_confirmed_bytes

    def collect(self) -> Iterator[Metric]:
        yield self._states()
        yield from self._stream_families()
        yield GaugeMetricFamily(
            "warmgate_confirmed_bytes",
            "Memory in bytes used by the index of KV cache blocks that engines report.",
            self._confirmed.size_bytes,
        )
        yield GaugeMetricFamily(
            "warmgate_confirmed_max_bytes",
            "Memory limit in bytes of the index of KV cache blocks that engines report.",
            self._max_confirmed_bytes,
        )
        odd = CounterMetricFamily(
            "warmgate_index_anomalies",
            "KV cache blocks that engines reported in an unexpected way, by kind.",
            labels=("kind",),
        )
        for kind, count in asdict(self._confirmed.counts).items():
            odd.add_metric((kind,), count)
        yield odd
        yield self._exact_prompts()
        yield self._load_rates()
        yield from self._pulls()

    def _states(self) -> Metric:
        """Return the state of each followed worker's event stream, including workers whose stream is not known yet."""
        family = GaugeMetricFamily(
            "warmgate_kv_stream_state",
            "1 for the state of an engine's event stream: live, catching_up, stale, untrusted.",
            labels=("worker", "state"),
        )
        for worker in self._streams.subjects():
            state = self._streams.state(worker)
            if state is not None:
                family.add_metric((worker, state), 1.0)
        return family

    def _stream_families(self) -> Iterator[Metric]:
        doubt = GaugeMetricFamily(
            "warmgate_kv_stream_doubt",
            "1 for the reason why an engine's event stream is not live.",
            labels=("worker", "reason"),
        )
        lag = GaugeMetricFamily(
            "warmgate_kv_stream_lag_seconds",
            "Age in seconds of the last batch of cache events when it was applied.",
            labels=("worker",),
        )
        sequence = GaugeMetricFamily(
            "warmgate_kv_stream_sequence",
            "Sequence number of the last batch of cache events that was applied.",
            labels=("worker",),
        )
        families = {
            name: CounterMetricFamily(f"warmgate_{name}", text, labels=("worker", "kind"))
            for name, text in _COUNTERS.items()
        }
        for worker, stream in self._streams.counters().items():
            if stream.doubt is not None:
                doubt.add_metric((worker, stream.doubt), 1.0)
            if stream.last_seq is not None:
                sequence.add_metric((worker,), stream.last_seq)
            if stream.lag_s is not None:
                lag.add_metric((worker,), stream.lag_s)
            for name, kinds in _counts(stream).items():
                for kind, count in kinds.items():
                    families[name].add_metric((worker, kind), count)
        yield from (doubt, lag, sequence, *families.values())

    def _exact_prompts(self) -> Metric:
        family = CounterMetricFamily(
            "warmgate_exact_prompts",
            "Prompts whose exact tokens were known, and other prompts by the reason why not.",
            labels=("model", "outcome"),
        )
        for model in self._models:
            prompts = model.exact_prompts
            if prompts is not None:
                for outcome, count in [("exact", prompts.known), *prompts.unknown.items()]:
                    family.add_metric((model.name, outcome), count)
        return family

    def _load_rates(self) -> Metric:
        family = GaugeMetricFamily(
            "warmgate_worker_load_tokens_per_second",
            "Learned rate at which the worker loads cached tokens to its GPU, by tier: cpu, disk, shared, peer.",
            labels=("model", "worker", "tier"),
        )
        for model in self._models:
            for worker in model.fleet:
                for tier, tokens_per_s in worker.speed.load_tokens_per_s().items():
                    family.add_metric((model.name, worker.id, tier), tokens_per_s)
        return family

    def _pulls(self) -> Iterator[Metric]:
        pulls = CounterMetricFamily(
            "warmgate_pulls",
            "Requests that pull cached blocks from another worker, by outcome: complete, partial, missed, unknown.",
            labels=("model", "outcome"),
        )
        tokens = CounterMetricFamily(
            "warmgate_pulled_tokens", "Prompt tokens pulled from other workers instead of computed.", labels=("model",)
        )
        for model in self._models:
            if model.pulls is not None:
                for outcome, count in model.fleet.pulls.counts.items():
                    pulls.add_metric((model.name, outcome), count)
                tokens.add_metric((model.name,), model.fleet.pulls.tokens)
        yield from (pulls, tokens)


_COUNTERS = {
    "kv_events": "Cache events received from engines, by kind.",
    "kv_blocks": "KV cache blocks in received cache events, by kind of event.",
    "kv_batches": "Batches of cache events from engines, by outcome.",
    "kv_stream_transitions": "Transitions of an engine's event stream: connection, gap, replay, restart, rebuild.",
    "kv_unused": "Cache events that were ignored or rejected, by reason.",
}


def _counts(stream: StreamCounters) -> Mapping[str, Mapping[str, int]]:
    unused = {**_plain(stream.ignored), **_plain(stream.refused)}
    return {
        "kv_events": _plain(stream.events),
        "kv_blocks": _plain(stream.blocks),
        "kv_batches": {
            "taken": stream.batches,
            "duplicate": stream.duplicates,
            "late": stream.late,
            "lost": stream.lost_batches,
            "turned_away": stream.turned_away,
            "undecodable": stream.undecodable,
            "malformed": stream.malformed,
            "other_topic": stream.other_topic,
        },
        "kv_stream_transitions": {
            "connection": stream.connections,
            "gap": stream.gaps,
            "replay": stream.replays,
            "restart": stream.restarts,
            "rebuild": stream.rebuilds,
        },
        "kv_unused": unused,
    }


def _plain(counts: Mapping[Any, int]) -> dict[str, int]:
    """Return *counts* with the kinds converted to strings."""
    return {str(kind): count for kind, count in counts.items()}
