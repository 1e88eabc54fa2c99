"""The metrics of several processes of one gateway, merged into one exposition.

Counters and histograms are summed. Gauges are merged by their meaning: what each process has of its own is summed, what
all processes see of the same thing is not. The counts of processes that have ended are kept, so that a sum never falls.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

Merge = Callable[[list[float]], float]
Sample = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels of one sample."""


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


SEEN_BY_ALL: Final = frozenset(
    {
        "warmgate_kv_events",
        "warmgate_kv_blocks",
        "warmgate_kv_batches",
        "warmgate_kv_unused",
        "warmgate_kv_stream_transitions",
        "warmgate_index_anomalies",
        "warmgate_discovery_updates",
        "warmgate_config_reloads",
    }
)
"""Counters of events that every process receives, of which the highest count is shown."""

_SUMMED: Final = (
    "warmgate_requests_in_flight",
    "warmgate_requests_waiting",
    "warmgate_team_requests_waiting",
    "warmgate_requests_without_worker",
    "warmgate_index_bytes",
    "warmgate_index_max_bytes",
    "warmgate_confirmed_bytes",
    "warmgate_confirmed_max_bytes",
    "warmgate_worker_connections",
    "warmgate_response_cache_answers",
    "warmgate_response_cache_bytes",
    "warmgate_batch_lines_in_flight",
    "warmgate_fallback_spend_usd",
    "warmgate_fallback_held_usd",
    "warmgate_ledger_waiting",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
    "process_max_fds",
)
_HIGHEST: Final = (
    # The processes share the load of workers, so each process reports the whole load.
    "warmgate_worker_in_flight",
    "warmgate_worker_backlog_seconds",
    "warmgate_oldest_wait_seconds",
    "warmgate_worker_asleep",
    "warmgate_worker_engine_running",
    "warmgate_worker_engine_waiting",
    "warmgate_worker_engine_kv_usage_ratio",
    "warmgate_worker_reading_age_seconds",
    "warmgate_worker_role",
    "warmgate_worker_draining",
    "warmgate_worker_breaker_open",
    "warmgate_worker_hit_alarm",
    "warmgate_policy_configured",
    "warmgate_policy_effective",
    "warmgate_kv_stream_state",
    "warmgate_kv_stream_doubt",
    "warmgate_kv_stream_lag_seconds",
    "warmgate_kv_stream_sequence",
    "warmgate_discovery_age_seconds",
    "warmgate_discovery_workers",
    "warmgate_adapter_loaded",
    "warmgate_adapter_load_seconds",
    "warmgate_fallback_breaker_open",
    "warmgate_fallback_canary_age_seconds",
    "warmgate_fallback_legacy",
    "warmgate_team_budget_limit_usd",
    "warmgate_team_budget_used_usd",
    "warmgate_key_budget_limit_usd",
    "warmgate_key_budget_used_usd",
    "warmgate_team_budget_limit_tokens",
    "warmgate_team_budget_used_tokens",
    "warmgate_key_budget_limit_tokens",
    "warmgate_key_budget_used_tokens",
    "warmgate_team_soft_budget_used_ratio",
    "warmgate_quota_degraded",
    "warmgate_key_store_unavailable",
    "warmgate_store_unfit",
    "warmgate_replicas",
    "warmgate_replica_bookings",
    "warmgate_replica_lag_seconds",
    "warmgate_config_needs_restart",
    "warmgate_build_info",
)
_LOWEST: Final = (
    "warmgate_worker_up",
    "warmgate_worker_kv_events_live",
    "warmgate_discovery_synced",
    "warmgate_discovery_last_update_successful",
    "warmgate_fallback_canary_ok",
    "warmgate_config_last_reload_successful",
    "warmgate_config_last_applied_timestamp_seconds",
    "process_start_time_seconds",
)
_AVERAGED: Final = (
    "warmgate_route_share_ratio",
    "warmgate_worker_load_tokens_per_second",
    "warmgate_worker_prefill_tokens_per_second",
    "warmgate_worker_ttft_error_ratio",
    "warmgate_worker_ttft_bias_ratio",
    "warmgate_worker_index_blocks",
    "warmgate_worker_hit_accuracy_ratio",
    "warmgate_fallback_rate_ratio",
)
GAUGES: Final[Mapping[str, Merge]] = MappingProxyType(
    {
        **dict.fromkeys(_SUMMED, sum),
        **dict.fromkeys(_HIGHEST, max),
        **dict.fromkeys(_LOWEST, min),
        **dict.fromkeys(_AVERAGED, mean),
    }
)
"""Function that merges the values of a gauge, by its name. The highest value of any other gauge is shown."""


@dataclass(slots=True)
class _Family:
    kind: str
    text: str
    values: dict[Sample, list[float]] = field(default_factory=dict)


class MergedMetrics:
    """Merged metrics of several processes, and the counts of the processes that have ended."""

    def __init__(self) -> None:
        self._ended: dict[str, _Family] = {}

    def end(self, exposition: str) -> None:
        """Keep the counts of a process that has ended. *exposition* is the last one that it sent."""
        for name, family in _families([exposition]).items():
            if not _is_count(name, family):
                continue
            kept = self._ended.setdefault(name, _Family(family.kind, family.text))
            for sample, values in family.values.items():
                kept.values[sample] = [sum((*kept.values.get(sample, ()), *values))]

    def merged(self, expositions: Iterable[str]) -> bytes:
        """Return one exposition in Prometheus text format 0.0.4 for the *expositions* of all running processes."""
        families = _families(expositions)
        for name, ended in self._ended.items():
            family = families.setdefault(name, _Family(ended.kind, ended.text))
            for sample, values in ended.values.items():
                family.values.setdefault(sample, []).extend(values)
        registry = CollectorRegistry()
        registry.register(_Written(families))
        return generate_latest(registry)


def merge_of(name: str, kind: str) -> Merge:
    """Return how the values of the metric *name* of the type *kind* are merged."""
    if kind == "gauge":
        return GAUGES.get(name, max)
    return max if name in SEEN_BY_ALL else sum


def _is_count(name: str, family: _Family) -> bool:
    """Return whether the values of *family* are sums, to which processes that have ended contribute."""
    return family.kind != "gauge" and name not in SEEN_BY_ALL


def _families(expositions: Iterable[str]) -> dict[str, _Family]:
    """Return the values of all *expositions* by family and sample."""
    families: dict[str, _Family] = {}
    for exposition in expositions:
        for found in text_string_to_metric_families(exposition):
            family = families.setdefault(found.name, _Family(found.type, found.documentation))
            for sample in found.samples:
                key = sample.name, tuple(sample.labels.items())
                family.values.setdefault(key, []).append(sample.value)
    return families


class _Written(Collector):
    def __init__(self, families: Mapping[str, _Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for name, family in self._families.items():
            metric = Metric(name, family.text, family.kind)
            merge = merge_of(name, family.kind)
            for (sample, labels), values in family.values.items():
                metric.add_sample(sample, dict(labels), merge(values))
            yield metric
