"""Gauges of a model's workers: the gateway's own counts, and the latest values that engines reported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cache_index import CacheIndex, WorkerId
from gateway.backends.backend import WorkerBackend
from gateway.backends.engine_metrics import EngineReading, Observation
from routing.fleet import Fleet


@dataclass(frozen=True, slots=True)
class WorkerReading:
    """Gauges of one worker, by gauge name."""

    worker: str
    values: Mapping[str, float]
    reported: EngineReading | None = None
    """Last report of the worker's engine, or None if there is no recent report."""


class WorkerGauges:
    """Reader for the gauges of *workers*. Observations in *former* stay valid for the workers that remain."""

    def __init__(
        self,
        fleet: Fleet,
        index: CacheIndex,
        workers: Mapping[WorkerId, WorkerBackend],
        former: "WorkerGauges | None" = None,
    ) -> None:
        self._fleet = fleet
        self._index = index
        self._workers = workers
        before = {} if former is None else former._observations  # noqa: SLF001  # of the same class
        self._observations: dict[WorkerId, Observation] = {w: before[w] for w in workers if w in before}

    def observed(self, worker: WorkerId, observation: Observation) -> None:
        """Include *observation* in the gauges of *worker* until it is stale."""
        self._observations[worker] = observation

    def readings(self, now: float) -> Iterator[WorkerReading]:
        """Yield the gauges of every worker at the time *now*, in monotonic seconds."""
        for state in self._fleet:
            load = state.load(now)
            yield WorkerReading(
                state.id,
                {
                    "up": float(state.is_up),
                    "asleep": float(state.is_asleep),
                    "draining": float(state.is_draining),
                    "breaker_open": float(state.breaker.is_open),
                    "in_flight": float(load.in_flight),
                    "backlog_seconds": load.backlog_s,
                    "prefill_tokens_per_second": state.speed.prefill_tokens_per_s,
                    "ttft_error_ratio": state.speed.ttft_error.absolute,
                    "ttft_bias_ratio": state.speed.ttft_error.bias,
                    "index_blocks": float(self._index.held(state.id)),
                    "kv_events_live": float(state.is_trusted),
                    "hit_accuracy_ratio": state.accuracy.value,
                    "hit_alarm": float(state.accuracy.is_unreliable),
                    "connections": float(self._workers[state.id].connections_open),
                    **self._reported(state.id, now),
                },
                self._recent(state.id, now),
            )

    def _recent(self, worker: WorkerId, now: float) -> EngineReading | None:
        observation = self._observations.get(worker)
        return None if observation is None or observation.is_stale(now) else observation.reading

    def _reported(self, worker: WorkerId, now: float) -> dict[str, float]:
        """Return the gauges that the engine of *worker* reported, with the age of the report, unless they are stale."""
        observation = self._observations.get(worker)
        if observation is None:
            return {}
        gauges = {"reading_age_seconds": observation.age_s(now)}
        if observation.is_stale(now):
            return gauges
        reading = observation.reading
        reported = {
            "engine_running": reading.running,
            "engine_waiting": reading.waiting,
            "engine_kv_usage_ratio": reading.kv_usage,
        }
        return gauges | {name: value for name, value in reported.items() if value is not None}
